"""Frames that are not as the protocol says: what is understood of them counts, nothing of them breaks the rest."""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rejoinder.openclaw.frames import read
from rejoinder.openclaw.recording import load
from rejoinder.openclaw.replay import replay
from rejoinder.openclaw.shapes import conformed

FOLDER = Path("tests/fixtures/openclaw-2026.9.3")
JUNK: list[Any] = [None, 1, "x", [], {}, [1], {"a": 1}, True, 3.5, "", [None], [{"id": []}]]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a frame where something else could stand."""
    for place in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, place
        yield from places(value[place])


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("name", ["s03_tools", "s10_queue", "r_restart_force_term", "c_claudecli"])
def test_junk_in_a_recording_breaks_nothing(name: str, seed: int) -> None:
    dice = random.Random(f"{name}{seed}")
    lines = load(FOLDER / f"{name}.jsonl.gz")
    for place in dice.sample(range(len(lines)), 40):
        frame: Any = copy.deepcopy(lines[place].frame)
        holder, field = dice.choice(list(places(frame)))
        holder[field] = copy.deepcopy(dice.choice(JUNK))
        lines[place] = dataclasses.replace(lines[place], frame=frame)
    for messages in replay(lines).values():
        assert len({message.id for message in messages}) == len(messages)


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.gz")))
def test_what_a_real_gateway_says_is_left_as_it_is(name: str) -> None:
    for line in load(FOLDER / name):
        frame = read(line.frame) if line.direction == "in" else None
        if frame is not None and line.frame.get("payload") is not None:
            assert frame.payload is line.frame["payload"]


def test_only_what_is_wrong_goes() -> None:
    block = {"type": "text", "text": "a"}
    payload = {
        "runId": 7,
        "sessionKey": "k",
        "data": {"text": ["no"], "phase": "start", "args": {"text": 5}},
        "message": {"role": "assistant", "content": [block, 3, {"type": "text", "text": {}}]},
        "activeRunIds": ["r", None],
        "lastRunId": None,
    }
    before = copy.deepcopy(payload)
    assert conformed(payload) == {
        "sessionKey": "k",
        "data": {"phase": "start", "args": {"text": 5}},
        "message": {"role": "assistant", "content": [block, {"type": "text"}]},
        "activeRunIds": ["r"],
        "lastRunId": None,
    }
    assert payload == before
