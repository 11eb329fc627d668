"""What is recorded over a real socket replays to what the Gateway's own recording gives."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from rejoinder.openclaw.errors import Refused
from rejoinder.openclaw.handshake import READ, Access
from rejoinder.openclaw.record import record
from rejoinder.openclaw.recording import Line, Recorder, load, parse
from rejoinder.openclaw.replay import as_json, replay
from tests.fake_gateway import TOKEN, TOKEN_MISMATCH, FakeGateway, HandClock
from tests.playing_gateway import PlayingGateway
from tests.support import assert_eventually

FOLDER = Path("tests/fixtures/openclaw-2026.9.3")
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())
NAMES = sorted(name for name in EXPECTED if name != "s01_handshake")


def client_of(name: str) -> list[str]:
    """The connections of the one client in a recording that saw everything."""
    return ["A1", "A2"] if name[0] in "rc" else ["A-driver"]


async def recorded(gateway: PlayingGateway, **access: Any) -> tuple[list[Line], str]:
    """What a recorder that was there from the beginning to the end has written."""
    file, stop, clock = io.StringIO(), asyncio.Event(), HandClock()
    recorder = Recorder(file, known=[TOKEN], now=clock.now)
    given = Access(**{"url": gateway.url, "token": TOKEN, "scopes": (READ,), **access})
    recording = asyncio.ensure_future(record(given, recorder, stop, clock=clock))

    async def over() -> bool:
        if recording.done():
            recording.result()
        # Pauses before the next connection pass at once.
        if not gateway.live:
            clock.advance(1.0)
        return gateway.played.is_set()

    await assert_eventually(over, "the recording did not play to its end", within=40)
    await assert_eventually(lambda: recorder.lines >= gateway.told, "the recorder has not heard everything")
    stop.set()
    await recording
    return list(parse(file.getvalue().split("\n"))), file.getvalue()


@pytest.mark.parametrize("name", NAMES)
async def test_a_recording_made_of_a_recording_gives_the_same_chats(name: str) -> None:
    lines = load(FOLDER / f"{name}.jsonl.gz")
    async with PlayingGateway(lines, client_of(name)) as gateway:
        ours, text = await recorded(gateway)
    assert as_json(replay(ours))["chats"] == EXPECTED[name]
    assert TOKEN not in text


@pytest.mark.parametrize("name", ["s03_tools", "s10_queue", "r_sigkill", "t01_cron_twice"])
async def test_lost_and_doubled_frames_are_made_good_by_what_the_recorder_reads(name: str) -> None:
    lines = load(FOLDER / f"{name}.jsonl.gz")
    dice = random.Random(name)
    places = range(len(lines))
    lost = frozenset(place for place in places if dice.random() < 0.15)
    twice = frozenset(place for place in places if dice.random() < 0.15)
    async with PlayingGateway(lines, client_of(name), skip=lost, twice=twice) as gateway:
        ours, _ = await recorded(gateway)
    found = as_json(replay(ours))["chats"]
    read = {line.frame["payload"]["sessionKey"] for line in ours if "messages" in _payload(line)}
    assert read
    for key in read & EXPECTED[name].keys():
        assert [_told(message) for message in found[key]] == [
            _told(message) for message in EXPECTED[name][key]
        ]


def _payload(line: Line) -> dict[str, Any]:
    payload = line.frame.get("payload")
    return payload if isinstance(payload, dict) else {}


def _told(message: dict[str, Any]) -> tuple[Any, ...]:
    return message["id"], message["text"], [card["name"] for card in message["cards"]], message["done"]


async def test_a_refusal_is_recorded_and_raised() -> None:
    async with FakeGateway() as gateway:
        gateway.refusals.append(TOKEN_MISMATCH)
        file = io.StringIO()
        access = Access(gateway.url, token=TOKEN)
        with pytest.raises(Refused) as caught:
            await record(access, Recorder(file, known=[TOKEN]), asyncio.Event(), clock=HandClock())
        assert caught.value.kind == "token"
        lines = list(parse(file.getvalue().split("\n")))
        assert [line.direction for line in lines][:3] == ["in", "out", "in"]
        assert lines[2].frame["error"]["details"]["code"] == "AUTH_TOKEN_MISMATCH"
        assert TOKEN not in file.getvalue()


async def test_each_connection_has_a_name_of_its_own() -> None:
    lines = load(FOLDER / "r_sigkill.jsonl.gz")
    async with PlayingGateway(lines, ["A1", "A2"]) as gateway:
        ours, _ = await recorded(gateway)
    assert {line.connection for line in ours} == {"1", "2"}
    closed = [line for line in ours if line.direction == "closed"]
    assert [line.connection for line in closed] == ["1", "2"]
    # Renaming them changes nothing: which is which is no matter of names.
    renamed = [dataclasses.replace(line, connection=f"c{line.connection}") for line in ours]
    assert replay(renamed) == replay(ours)
