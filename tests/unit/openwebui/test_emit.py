"""What a message shows, whichever way it came to be so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.openwebui.emit import ARGUMENTS, RESULT, Emission, joined
from rejoinder.turns.items import Card, Item, Text, Thought
from rejoinder.turns.reducer import Added, Changed, Grew, Op


def page(events: list[dict[str, Any]], items: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """The items by Open WebUI's own rules, as its stream handler and its page both keep them."""
    found = list(items or [])
    for event in events:
        if event["type"] == "response.output_item.added":
            item = event["item"]
            same = next(
                (
                    n
                    for n, one in enumerate(found)
                    if one["id"] == item["id"]
                    or (
                        item.get("call_id")
                        and one["type"] == item["type"]
                        and one.get("call_id") == item["call_id"]
                    )
                ),
                None,
            )
            if same is not None:
                found[same] = item
            elif event["output_index"] < len(found):
                found.insert(event["output_index"], item)
            else:
                found.append(item)
        else:
            at = event["output_index"]
            part = found[at]["content"][0]
            found[at] = {**found[at], "content": [{**part, "text": part["text"] + event["delta"]}]}
    return found


def said(items: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [
        (one["type"], one["content"][0]["text"] if "content" in one else one.get("call_id", ""))
        for one in items
    ]


@st.composite
def diffs(draw: st.DrawFn) -> tuple[list[Op], list[Item]]:
    """A reducer's differences and what they come to."""
    items: list[Item] = []
    ops: list[Op] = []
    for number in range(draw(st.integers(1, 12))):
        choices = ["text", "thought", "card"] + (["grow", "result"] if items else [])
        what = draw(st.sampled_from(choices))
        if what in ("text", "thought", "card"):
            at = draw(st.integers(0, len(items)))
            new: Item
            if what == "card":
                new = Card(f"tool_{number}", f"c{number}", "exec", "{}")
            else:
                new = (Text if what == "text" else Thought)(
                    f"{what}_{number}", draw(st.sampled_from(["", "a"]))
                )
            items.insert(at, new)
            ops.append(Added(at, _copy(new)))
        elif what == "grow":
            growing = [n for n, one in enumerate(items) if not isinstance(one, Card)]
            if not growing:
                continue
            at = draw(st.sampled_from(growing))
            one = items[at]
            assert not isinstance(one, Card)
            one.text += "b c"
            ops.append(Grew(at, one.id, "b c"))
        else:
            cards = [n for n, one in enumerate(items) if isinstance(one, Card)]
            if not cards:
                continue
            at = draw(st.sampled_from(cards))
            card = items[at]
            assert isinstance(card, Card)
            card.output, card.failed = "ok", draw(st.booleans())
            ops.append(Changed(at, _copy(card)))
    return ops, items


def _copy(item: Item) -> Item:
    if isinstance(item, Card):
        return Card(item.id, item.call_id, item.name, item.arguments, item.output, item.failed)
    return type(item)(item.id, item.text)


@given(diffs(), st.integers(0, 12))
def test_the_page_shows_what_the_message_has(made: tuple[list[Op], list[Item]], cut: int) -> None:
    ops, items = made
    emission = Emission()
    events = joined([*emission.apply(ops[:cut]), *emission.apply(ops[cut:])])
    assert page(events) == emission.output
    last, exact = emission.finish(items)
    shown = page(last, page(events))
    if exact:
        assert said(shown) == said(emission.output)
    assert len({one["id"] for one in emission.output}) == len(emission.output)
    calls = [one["call_id"] for one in emission.output if one["type"] == "function_call"]
    results = [one["call_id"] for one in emission.output if one["type"] == "function_call_output"]
    # A call without a result would be run by Open WebUI itself.
    assert calls == results


@given(diffs())
def test_what_was_handed_out_never_changes(made: tuple[list[Op], list[Item]]) -> None:
    emission = Emission()
    ops, items = made
    handed: list[tuple[dict[str, Any], str]] = []
    for op in ops:
        handed += [(event, repr(event)) for event in emission.apply([op])]
    emission.finish(items)
    assert all(repr(event) == before for event, before in handed)


def test_the_transcript_keeps_the_shown_items_in_their_places() -> None:
    emission = Emission()
    shown = emission.apply(
        [
            Added(0, Text("text_1", "Let me look.")),
            Added(1, Card("tool_1", "c1", "exec", "{}", "ok")),
            Added(2, Text("text_2", "Two thi")),
        ]
    )
    told: list[Item] = [
        Text("h0_text_1", "Let me look."),
        Card("h0_tool_2", "c1", "exec", "{}", "ok"),
        Text("h0_text_3", "Two things found."),
    ]
    events, exact = emission.finish(told)
    assert exact
    assert [event["item"]["id"] for event in events] == ["text_2"]
    assert said(page(events, page(shown)))[-1] == ("message", "Two things found.")


def test_what_is_not_in_the_transcript_needs_the_whole() -> None:
    emission = Emission()
    emission.apply([Added(0, Text("text_1", "Withdrawn."))])
    _, exact = emission.finish([Text("h0_text_1", "Something else.")])
    assert not exact
    assert said(emission.output) == [("message", "Something else.")]


@pytest.mark.parametrize("failed", [True, False])
def test_a_failed_call_says_so(failed: bool) -> None:
    emission = Emission()
    emission.apply([Added(0, Card("t", "c", "exec", "{}", "boom", failed))])
    call, result = emission.output
    assert call["status"] == result["status"] == ("failed" if failed else "completed")
    assert result["output"][0]["text"].startswith("This call failed." if failed else "boom")


def test_a_long_result_is_cut_and_says_so() -> None:
    emission = Emission()
    emission.apply([Added(0, Card("t", "c", "exec", "x" * (ARGUMENTS + 7), "y" * (RESULT + 9)))])
    call, result = emission.output
    assert "7 more characters" in call["arguments"]
    assert "9 more characters" in result["output"][0]["text"]
