"""The sender's own words stand where ours would; without them ours do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.nodes import running
from tests.integration.web.asking import AGENT, asked
from tests.integration.web.browser import signed_in

MANY = [f"option {n}" for n in range(12)]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"answer_format": "confirm", "wording": {"answer": {"confirm": "Ship it", "decline": "Hold it"}}}, ["Ship it", "Hold it"]),
        ({"answer_format": "text", "wording": {"answer": {"submit": "Tell them", "reply_hint": "One word will do"}}},
         ["Tell them", "One word will do"]),
        ({"answer_format": "select", "options": ["a", "b"], "wording": {"choice": {"reply_hint": "Either is fine"}}}, ["Either is fine"]),
        ({"answer_format": "select", "options": MANY, "wording": {"choice": {"label": "Pick", "reply_hint": "Any"}, "answer": {"submit": "Go"}}},
         ["Pick", "Any", "Go"]),
    ],
)  # fmt: skip
async def test_the_senders_words_are_on_the_page(
    database_url: str, given: dict[str, Any], shown: list[str]
) -> None:
    async with running(database_url) as node, signed_in(node) as browser, asked(node, **given) as one:
        page = await browser.get(one.path)
        for text in shown:
            assert text in page.text
        for ours in ("Send the answer", "Choose one"):
            assert ours not in page.text


async def test_a_refusal_is_worded_by_the_sender(database_url: str) -> None:
    words = {"answer": {"rejected": "Sorry: {reason}"}}
    async with running(database_url) as node, signed_in(node) as browser, asked(node, wording=words) as one:
        page = await (await browser.get(one.path)).answer_form.press()
        assert page.status == 422
        assert "Sorry: Write an answer before you send it." in page.text


async def test_a_list_is_filled_in_entry_by_entry_without_scripts(database_url: str) -> None:
    schema = {
        "type": "object",
        "required": ["guests"],
        "properties": {"guests": {"type": "array", "title": "Guests", "items": {"type": "string"}}},
    }
    words = {
        "add_item": "One more",
        "remove_item": "Not coming",
        "item_label": "Guest {n}",
        "no_items": "Nobody",
    }
    async with (
        running(database_url) as node,
        signed_in(node) as browser,
        asked(
            node, answer_format="form", schema=schema, wording={"form": {"fields": {"guests": words}}}
        ) as one,
    ):
        form = (await browser.get(one.path)).answer_form
        form.pairs = [
            ("f.guests", "Ann") if name == "f.guests" else (name, text) for name, text in form.pairs
        ]
        page = await form.press("One more")
        assert [entry.get("aria-label") for entry in page.tree.all("input", name="f.guests")] == [
            "Guest 1",
            "Guest 2",
        ]
        form = page.answer_form
        form.pairs = [pair for pair in form.pairs if pair[1] != ""] + [("f.guests", "Bob")]
        page = await form.press("Not coming")  # the first
        assert [entry.get("value") for entry in page.tree.all("input", name="f.guests")] == ["Bob"]
        page = await page.answer_form.press("Send")
        assert await one.result() == {"guests": ["Bob"]}


async def test_the_same_answer_sent_again_is_the_same_answer(database_url: str) -> None:
    """What was dropped from it does not make it another one."""
    schema = {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["card", "cash"]},
            "card": {"type": "string", "visibleWhen": {"field": "kind", "equals": "card"}},
        },
    }
    async with running(database_url) as node, asked(node, answer_format="form", schema=schema) as one:
        value = {"kind": "cash", "card": "42"}
        first = await node.asks.answer(one.question.id, value, by=AGENT, via="http")
        again = await node.asks.answer(one.question.id, value, by=AGENT, via="http")
        assert (first.repeated, again.repeated) == (False, True)
        assert await one.result() == {"kind": "cash"}
