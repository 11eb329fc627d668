"""Tool cards and their results: whatever order, id or half of a call arrives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.turns.finish import finish
from rejoinder.turns.items import NO_RESULT, Card, cards_of, output_items, result_text, text_of
from rejoinder.turns.reducer import Reducer
from tests.unit.turns.script import Frame, Frames


def _fed(*frames: Frame) -> Reducer:
    live = Reducer("run")
    for name, payload in frames:
        live.feed(name, payload)
    return live


def _cards(live: Reducer) -> list[tuple[str, str, str | None]]:
    return [(card.call_id, card.status, card.output) for card in cards_of(live.items)]


def test_one_call_is_one_card_with_both_halves() -> None:
    f = Frames("run")
    live = _fed(f.call("c1"), f.result("c1", "a.txt"))
    assert _cards(live) == [("c1", "completed", "a.txt")]
    assert [entry["type"] for entry in output_items(live.items, done=True)] == [
        "function_call",
        "function_call_output",
    ]


def test_a_failed_tool_is_marked() -> None:
    f = Frames("run")
    assert _cards(_fed(f.call("c1"), f.result("c1", "no such file", error=True))) == [
        ("c1", "failed", "no such file")
    ]


@given(st.permutations(range(4)))
def test_results_of_parallel_calls_pair_by_id_in_any_order(order: list[int]) -> None:
    f = Frames("run")
    live = _fed(*[f.call(f"c{n}") for n in range(4)], *[f.result(f"c{n}", f"r{n}") for n in order])
    assert _cards(live) == [(f"c{n}", "completed", f"r{n}") for n in range(4)]


def test_a_late_result_does_not_split_the_text_that_streams() -> None:
    f = Frames("run")
    live = _fed(
        f.call("c1"),
        f.delta("Still wor", "Still wor"),
        f.result("c1", "late"),
        f.delta("Still working", "king"),
    )
    live.close()
    assert text_of(live.items) == "Still working"
    assert _cards(live) == [("c1", "completed", "late")]


def test_a_result_under_a_foreign_id_belongs_to_the_oldest_waiting_call_of_that_tool() -> None:
    f = Frames("run")
    live = _fed(f.call("c1", "exec"), f.call("c2", "read"), f.result("toolu_x", "out", name="read"))
    assert _cards(live) == [("c1", "incomplete", None), ("c2", "completed", "out")]


def test_a_foreign_result_gives_its_place_back_when_the_calls_own_result_comes() -> None:
    f = Frames("run")
    live = _fed(f.call("c1"), f.result("other", "theirs"), f.result("c1", "mine"))
    assert sorted(_cards(live)) == [("c1", "completed", "mine"), ("other", "completed", "theirs")]


def test_calls_and_results_without_ids_pair_in_order() -> None:
    f = Frames("run")
    live = _fed(f.call(None), f.call(None), f.result(None, "one"), f.result(None, "two"))
    assert [(status, output) for _, status, output in _cards(live)] == [
        ("completed", "one"),
        ("completed", "two"),
    ]
    assert len({call for call, _, _ in _cards(live)}) == 2


def test_a_result_without_a_start_is_a_card() -> None:
    f = Frames("run")
    assert _cards(_fed(f.result("c1", "out"))) == [("c1", "completed", "out")]


def test_a_start_without_a_result_is_closed_at_the_end() -> None:
    f = Frames("run")
    live = _fed(f.call("c1"))
    call, output = output_items(finish((), live).items, done=True)
    assert call["call_id"] == output["call_id"] == "c1"
    assert output["output"][0]["text"] == NO_RESULT
    assert output["status"] == "incomplete"
    # While the run goes on, an open call has no output: the page shows it as running.
    assert [entry["type"] for entry in output_items(live.items, done=False)] == ["function_call"]


def test_a_start_and_a_result_told_twice_are_one_card() -> None:
    f = Frames("run")
    start, result = f.call("c1"), f.result("c1", "once")
    as_agent = [("agent", {**payload}) for _, payload in (start, result)]
    row = f.row(f.called("c1"))
    assert _cards(_fed(row, start, as_agent[0], result, as_agent[1], row)) == [("c1", "completed", "once")]


def test_the_same_id_for_a_second_call_is_a_second_card() -> None:
    f = Frames("run")
    live = _fed(f.call("c1"), f.result("c1", "one"), f.call("c1"), f.result("c1", "two"))
    assert [(status, output) for _, status, output in _cards(live)] == [
        ("completed", "one"),
        ("completed", "two"),
    ]
    assert len({call for call, _, _ in _cards(live)}) == 2


def test_a_call_known_only_from_the_item_stream_is_a_card_and_gives_way_to_the_tools_own_result() -> None:
    f = Frames("run")
    item: dict[str, Any] = {"kind": "tool", "name": "exec", "toolCallId": "c1"}
    live = _fed(
        f.agent("item", phase="start", status="running", **item),
        f.agent("item", phase="end", status="failed", error="Aborted", **item),
    )
    assert _cards(live) == [("c1", "failed", "Aborted")]
    live.feed(*f.result("c1", "whole", error=True))
    assert _cards(live) == [("c1", "failed", "whole")]


def test_a_start_without_arguments_takes_them_from_a_later_telling() -> None:
    # c_claudecli: inFlightRun's events have no arguments.
    f = Frames("run")
    live = Reducer("run")
    live.in_flight(
        "", [{"stream": "tool", "seq": 1, "data": {"phase": "start", "name": "Bash", "toolCallId": "c1"}}]
    )
    live.feed(*f.call("c1", "Bash", {"command": "pwd"}))
    assert [card.arguments for card in cards_of(live.items)] == ['{"command": "pwd"}']


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ([{"type": "text", "text": "a"}], "a"),
        ({"content": "x", "details": {"exit": 0}}, "x"),
        ({"status": "yielded"}, '{"status": "yielded"}'),
        (7, "7"),
    ],
)
def test_every_shape_of_a_result_has_a_text(result: object, text: str) -> None:
    assert result_text(result) == text


def test_what_is_handed_out_does_not_change_afterwards() -> None:
    f = Frames("run")
    live = Reducer("run")
    added = live.feed(*f.call("c1"))[0]
    live.feed(*f.result("c1", "out"))
    item = added.item  # type: ignore[union-attr]
    assert isinstance(item, Card)
    assert item.output is None


def test_reasoning_is_an_item_of_its_own_before_the_answer() -> None:
    f = Frames("run")
    live = _fed(
        f.agent("thinking", text="Let me", delta="Let me"),
        f.agent("thinking", text="Let me see", delta=" see"),
        f.says("Done.", "Done.", "one"),
        f.chat("final", "Done."),
    )
    live.close()
    types = [(entry["type"], entry["content"][0]["text"]) for entry in output_items(live.items, done=True)]
    assert types == [("reasoning", "Let me see"), ("message", "Done.")]
    assert text_of(live.items) == "Done."
