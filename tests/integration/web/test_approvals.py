"""A call of a tool on its page: shown whole, approved, edited or denied there, without a script."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rejoinder.contract.errors import ApprovalDeniedError
from rejoinder.runs.tools import Tool, tool
from tests.integration.nodes import running
from tests.integration.web.asking import asked
from tests.integration.web.browser import signed_in

NASTY = "first\n<script>alert(1)</script> \u202eevil {{ 7 * 7 }}"


def paying(paid: list[Any], *, destructive: bool = False) -> Tool:
    @tool(requires_approval=True, destructive=destructive, title="Pay")
    async def pay(to: str, amount: int = 1) -> dict[str, Any]:
        """Pay somebody at once."""
        paid.append((to, amount))
        return {"answer": "paid"}

    return pay


async def test_it_is_shown_whole_and_approved_with_one_button(database_url: str) -> None:
    paid: list[Any] = []
    async with (
        running(database_url, paying(paid)) as node,
        signed_in(node) as browser,
        asked(node, tool="pay", to=NASTY) as one,
    ):
        page = await browser.get(one.path)
        call = page.tree.one("section", class_="call")
        assert "Pay: approve this call?" in page.text
        assert "Pay somebody at once." in call.text
        assert [dt.text for dt in call.all("dt")] == ["to", "amount"]
        assert "<script>alert(1)</script>" in call.text
        assert "U+202E" in call.text
        assert "{{ 7 * 7 }}" in call.text
        assert call.all("dd")[1].text == "1"
        # Enter in a field presses the first button, which decides nothing.
        page = await page.answer_form.press()
        assert page.status == 422
        assert "Choose to approve or to deny it." in page.text
        page = await page.answer_form.press("Approve this call")
        assert page.status == 200
        assert "Approved as shown" in page.text
        assert await one.result() == "paid"
    assert paid == [(NASTY, 1)]


async def test_it_is_denied_with_a_reason(database_url: str) -> None:
    paid: list[Any] = []
    async with (
        running(database_url, paying(paid)) as node,
        signed_in(node) as browser,
        asked(node, tool="pay", to="bob") as one,
    ):
        page = await (await browser.get(one.path)).answer_form.fill({"reason": "not today"}).press("Deny")
        assert "Denied: it was not run" in page.text
        assert "not today" in page.text
        with pytest.raises(ApprovalDeniedError, match="not today"):
            await one.call
    assert paid == []


async def test_arguments_are_edited_and_checked(database_url: str) -> None:
    paid: list[Any] = []
    async with (
        running(database_url, paying(paid)) as node,
        signed_in(node) as browser,
        asked(node, tool="pay", to="bob") as one,
    ):
        page = await browser.get(one.path)
        for typed, told in [
            ("{", "not JSON"),
            ('{"amount": 1}', "arguments.to"),
            ('{"to": 5}', "arguments.to"),
        ]:
            page = await page.answer_form.fill({"arguments": typed}).press("Approve with these arguments")
            assert page.status == 422
            assert told in page.text, typed
            assert typed == dict(page.answer_form.pairs)["arguments"], "what was typed is lost"
        edited = json.dumps({"to": "eve", "amount": 3})
        page = await page.answer_form.fill({"arguments": edited}).press("Approve with these arguments")
        assert "Approved with these arguments" in page.text
        assert "eve" in page.text
        assert await one.result() == "paid"
    assert paid == [("eve", 3)]


async def test_what_destroys_something_asks_for_its_own_word(database_url: str) -> None:
    paid: list[Any] = []
    async with (
        running(database_url, paying(paid, destructive=True)) as node,
        signed_in(node) as browser,
        asked(node, tool="pay", to="bob") as one,
    ):
        page = await browser.get(one.path)
        assert "It destroys something." in page.text
        for word in ("", "yes", "PAY"):
            page = await page.answer_form.fill({"word": word}).press("Approve this call")
            assert page.status == 422
            assert "Type the tool" in page.text
        page = await page.answer_form.fill({"word": "pay"}).press("Approve this call")
        assert await one.result() == "paid"


async def test_what_is_long_is_opened_whole_before_it_is_approved(database_url: str) -> None:
    paid: list[Any] = []
    long = "x" * 5_000 + "THE END"
    async with (
        running(database_url, paying(paid)) as node,
        signed_in(node) as browser,
        asked(node, tool="pay", to=long) as one,
    ):
        page = await browser.get(one.path)
        assert "THE END" not in page.text
        assert "more characters are not shown" in page.text
        assert [b.text for b in page.answer_form.element.all("button") if "pprove" in b.text] == []
        digest = (one.question.format_payload or {})["digest"]
        assert digest not in page.html, "what an approval must name is there before the call was seen"
        pairs = [*page.answer_form.pairs, ("decision", "approve")]
        blind = await browser.post(page.answer_form.element.get("action"), pairs)
        assert blind.status == 422
        whole = await browser.get(page.tree.one("section", class_="call").one("a").get("href"))
        assert "THE END" in whole.text
        page = await whole.answer_form.press("Approve this call")
        assert await one.result() == "paid"
    assert paid == [(long, 1)]
