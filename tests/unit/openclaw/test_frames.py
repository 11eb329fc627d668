"""Whatever arrives is an event, a response, something unknown that is left alone, or an error that says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.openclaw.frames import Event, FrameError, Response, parse, read
from rejoinder.openclaw.history import History
from rejoinder.openclaw.sessions import Row, page

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_fields = ("type", "event", "payload", "seq", "id", "ok", "error")
_frames = st.fixed_dictionaries(
    {}, optional={name: _json | st.sampled_from(["event", "res", "req"]) for name in _fields}
)


@given(_frames)
def test_no_object_breaks_the_reader(frame: dict[str, Any]) -> None:
    try:
        found = read(frame)
    except FrameError:
        return
    assert found is None or isinstance(found, Event | Response)


@pytest.mark.parametrize("raw", ["", "{", "[]", "1", "null", '"text"', b"\xff\xfe", "[" * 100_000])
def test_what_is_no_frame_is_an_error(raw: str | bytes) -> None:
    with pytest.raises(FrameError):
        parse(raw)


@pytest.mark.parametrize(("seq", "expected"), [(7, 7), (None, None), (True, None), ("7", None), (1.5, None)])
def test_only_whole_numbers_count(seq: object, expected: int | None) -> None:
    frame, _ = parse(json.dumps({"type": "event", "event": "tick", "payload": {}, "seq": seq}))
    assert isinstance(frame, Event)
    assert frame.seq == expected


def test_an_unknown_kind_is_left_alone() -> None:
    assert parse('{"type": "weather"}')[0] is None


@given(st.dictionaries(st.sampled_from(["key", "sessionKey", "activeRunIds", "status", "updatedAt"]), _json))
def test_no_row_breaks_the_reader(payload: dict[str, Any]) -> None:
    row = Row.read(payload)
    assert row is None or isinstance(row.key, str)


@given(_json)
def test_no_listing_or_history_breaks_the_reader(payload: object) -> None:
    assert page(payload)[0] == [] or isinstance(payload, dict)
    assert History.read(payload).following is None or isinstance(payload, dict)


def test_a_row_reads_the_same_from_a_list_and_an_event() -> None:
    # A list leaves out what is nothing, an event writes it out.
    listed = Row.read({"key": "agent:main:a", "status": "running", "hasActiveRun": True})
    pushed = Row.read(
        {
            "sessionKey": "agent:main:a",
            "status": "running",
            "hasActiveRun": True,
            "activeRunIds": None,
            "lastRunId": None,
            "abortedLastRun": False,
        }
    )
    assert listed == pushed
    assert pushed is not None
    assert pushed.active_run_ids is None


def test_no_active_run_is_not_the_same_as_a_withheld_one() -> None:
    idle = Row.read({"key": "agent:main:a", "hasActiveRun": False, "activeRunIds": []})
    assert idle is not None
    assert idle.active_run_ids == ()
