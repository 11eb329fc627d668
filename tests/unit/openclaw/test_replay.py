"""Recordings of a real Gateway give the chats their transcripts have, also when frames are lost, doubled or late.

`expected.json` was checked by eye against the rows of the histories in the recordings.
"""

from __future__ import annotations

import dataclasses
import json
import random
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rejoinder.openclaw.recording import Line, load
from rejoinder.openclaw.replay import as_json, replay
from rejoinder.turns.identity import NAMESPACE

FOLDER = Path("tests/fixtures/openclaw-2026.9.3")
EXPECTED: dict[str, dict[str, list[dict[str, Any]]]] = json.loads((FOLDER / "expected.json").read_text())
NAMES = sorted(EXPECTED)
#: The connections that saw least: not subscribed to sessions, so no tools and no rows come to them.
BARE = ("D-other", "D1")


@cache
def recorded(name: str) -> tuple[Line, ...]:
    return tuple(load(FOLDER / f"{name}.jsonl.gz"))


def chats(lines: list[Line] | tuple[Line, ...]) -> dict[str, Any]:
    found: dict[str, Any] = as_json(replay(lines))["chats"]
    return found


def told(lines: tuple[Line, ...]) -> list[int]:
    """The places of the events in a recording."""
    return [place for place, line in enumerate(lines) if "event" in line.frame and line.direction == "in"]


def test_every_recording_has_its_expectation() -> None:
    assert {path.name.removesuffix(".jsonl.gz") for path in FOLDER.glob("*.gz")} == set(EXPECTED)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_gives_its_chats(name: str) -> None:
    assert chats(recorded(name)) == EXPECTED[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_ids_are_those_of_the_runs_and_each_stands_once(name: str) -> None:
    for key, messages in EXPECTED[name].items():
        ids = [message["id"] for message in messages]
        assert len(ids) == len(set(ids))
        runs = [message["run_id"] for message in messages]
        for message in messages:
            if runs.count(message["run_id"]) == 1 and not _repeats(name, message["run_id"]):
                assert message["id"] == str(uuid.uuid5(NAMESPACE, f"{key}:{message['run_id']}"))


def _repeats(name: str, run_id: str) -> bool:
    # A scheduled turn's run id is its session's id; its message is named by its input as well.
    return any(line.frame.get("payload", {}).get("sessionId") == run_id for line in _payloads(name))


def _payloads(name: str) -> Iterator[Line]:
    return (line for line in recorded(name) if isinstance(line.frame.get("payload"), dict))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "s01_handshake"])
def test_each_connection_alone_tells_the_same_story(name: str) -> None:
    lines = recorded(name)
    names = {line.connection for line in lines if line.direction == "in"} - set(BARE)
    # The connections that follow each other are one client's.
    clients = {frozenset(n for n in names if n[0] == letter) for letter in {n[0] for n in names}}
    for client in clients:
        # Whoever asked for the history is not the point: what it says may be read by anybody.
        own = [
            line
            for line in lines
            if line.connection in client or "messages" in (line.frame.get("payload") or {})
        ]
        if {line.connection for line in own} & client and _saw_all(name, client):
            assert chats(own) == EXPECTED[name], client


def _saw_all(name: str, client: frozenset[str]) -> bool:
    # B1 was there for the first half only.
    return not (name == "c_claudecli" and client == frozenset({"B1"}))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "s01_handshake"])
def test_the_stream_alone_tells_it_too(name: str) -> None:
    """Without any history: rows that come alone leave out the text before a tool, the stream has it."""
    lines = recorded(name)
    names = {line.connection for line in lines if line.direction == "in"} - set(BARE)
    client = {one for one in names if one[0] == "A"}
    own = [
        line
        for line in lines
        if line.connection in client and "messages" not in (line.frame.get("payload") or {})
    ]
    found = chats(own)
    seen = {message["id"] for messages in found.values() for message in messages}
    for key, messages in EXPECTED[name].items():
        # Runs that had ended before are in histories only.
        assert found.get(key, []) == [message for message in messages if message["id"] in seen]
    started = {line.frame["payload"].get("runId") for line in _payloads(name) if _begins(line)}
    told_of = {message["run_id"] for messages in EXPECTED[name].values() for message in messages}
    assert told_of & started <= {message["run_id"] for messages in found.values() for message in messages}


def _begins(line: Line) -> bool:
    return bool(line.frame["payload"].get("phase") == "start")


@pytest.mark.parametrize("name", NAMES)
def test_frames_that_come_twice_change_nothing(name: str) -> None:
    doubled: list[Line] = []
    for line in recorded(name):
        doubled.append(line)
        if line.direction == "in" and "event" in line.frame:
            # Once with its number, as a repeated frame, and once without, as an older Gateway sends it.
            frame = {part: value for part, value in line.frame.items() if part != "seq"}
            doubled += [line, dataclasses.replace(line, frame=frame)]
    assert chats(doubled) == EXPECTED[name]


def _with_history(name: str) -> bool:
    return any("messages" in line.frame["payload"] for line in _payloads(name))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in NAMES
        # The CLI's cards are in no row: what is lost of them is lost.
        if name not in ("c_claudecli", "s01_handshake") and _with_history(name)
    ],
)
def test_lost_frames_are_made_good_by_the_histories(name: str, seed: int) -> None:
    lines, dice = recorded(name), random.Random(f"{name}{seed}")
    lost = {
        (line.frame["event"], json.dumps(line.frame["payload"], sort_keys=True))
        for line in (lines[place] for place in told(lines))
        if dice.random() < 0.3
    }
    left = [
        line
        for line in lines
        if "event" not in line.frame
        or (line.frame["event"], json.dumps(line.frame["payload"], sort_keys=True)) not in lost
    ]
    found = chats(left)
    for key in _keys_with_history(name):
        assert _stored(found.get(key, []), name) == _stored(EXPECTED[name].get(key, []), name), key


def _keys_with_history(name: str) -> set[str]:
    return {
        line.frame["payload"]["sessionKey"] for line in _payloads(name) if "messages" in line.frame["payload"]
    }


def _stored(messages: list[dict[str, Any]], name: str) -> list[tuple[Any, ...]]:
    # A card whose result has no row, and the partial text of a killed run, are known from the stream alone.
    partial = name == "r_sigterm_long"
    return [
        (message["run_id"], "" if partial else message["text"], [card["name"] for card in message["cards"]])
        for message in messages
        if message["run_id"] or message["text"]
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_that_stops_anywhere_is_still_read(name: str) -> None:
    lines = recorded(name)
    for cut in range(0, len(lines), max(1, len(lines) // 12)):
        for key, messages in chats(lines[:cut]).items():
            assert len({message["id"] for message in messages}) == len(messages), key
            for message in messages:
                final = [m for m in EXPECTED[name].get(key, []) if m["id"] == message["id"]]
                assert final or not message["done"] or message["text"] == "", (cut, message)


def test_a_message_that_goes_on_is_not_done() -> None:
    lines = recorded("s02_plain")
    middle = next(
        place
        for place, line in enumerate(lines)
        if line.frame.get("payload", {}).get("state") == "delta" and place > 60
    )
    (messages,) = chats(lines[:middle]).values()
    (message,) = messages
    assert not message["done"]
    assert EXPECTED["s02_plain"]["agent:main:owui:chat-plain"][0]["text"].startswith(message["text"])
    assert message["text"]


@pytest.mark.parametrize("junk", [{}, {"type": "event"}, {"type": "res"}, {"type": "event", "event": "chat"}])
def test_frames_nobody_knows_are_left_alone(junk: dict[str, Any]) -> None:
    lines = list(recorded("s02_plain"))
    for place in range(0, len(lines), 7):
        lines.insert(place, Line(0.0, "A-driver", "in", junk))
    assert chats(lines) == EXPECTED["s02_plain"]


#: What 2026.9.6 calls otherwise, and what it leaves out.
RENAMED = {"chat.run.started": "agent.run.started", "chat.run.settled": "agent.input.settled"}


@pytest.mark.parametrize("name", NAMES)
def test_the_newer_gateways_words_say_the_same(name: str) -> None:
    lines = [
        dataclasses.replace(line, frame={**line.frame, "payload": {**payload, "reason": RENAMED[reason]}})
        if isinstance(payload := line.frame.get("payload"), dict)
        and (reason := payload.get("reason")) in RENAMED
        else line
        for line in recorded(name)
    ]
    assert chats(lines) == EXPECTED[name]


@pytest.mark.parametrize("name", NAMES)
def test_runs_that_push_no_start_are_found(name: str) -> None:
    lines = [
        line
        for line in recorded(name)
        if not (
            line.frame.get("event") == "sessions.changed" and line.frame["payload"].get("phase") == "start"
        )
    ]
    assert chats(lines) == EXPECTED[name]


def test_a_real_chats_runs_name_their_messages() -> None:
    user, chat, message = (f"{number}" * 8 + "-1111-4111-8111-111111111111" for number in "123")
    key, run = f"agent:main:openwebui-{user}-{chat}", f"msg-{chat}-{message}-1796005187.5"
    text = json.dumps([dataclasses.asdict(line) for line in recorded("s02_plain")])
    text = text.replace("agent:main:owui:chat-plain", key).replace("msg-plainchat-m1-1", run)
    (messages,) = chats([Line(**line) for line in json.loads(text)]).values()
    assert [(one["id"], one["run_id"]) for one in messages] == [(message, run)]
