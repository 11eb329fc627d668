"""Every kind of question is answered in a browser without scripts, and the caller gets the typed answer."""

from __future__ import annotations

from rejoinder.contract.answers import SecretValue
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from tests.integration.nodes import running
from tests.integration.web.asking import asked
from tests.integration.web.browser import signed_in


async def test_a_text_is_answered_and_keeps_its_lines(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser, asked(node, "What next?") as one:
        page = await browser.get("/inbox")
        assert "What next?" in page.text
        page = await page.answer_form.fill({"answer": "first\nsecond"}).press()
        assert (page.status, page.path) == (200, one.path)
        assert "You answered" in page.text
        assert "first second" in page.text
        assert await one.result() == "first\nsecond"


async def test_a_suggestion_fills_in_and_sends_nothing(database_url: str) -> None:
    async with (
        running(database_url) as node,
        signed_in(node) as browser,
        asked(node, "Which?", options=["one\ntwo", "three"]) as one,
    ):
        page = await (await browser.get(one.path)).answer_form.press("one")
        assert page.status == 200
        assert not one.call.done()
        page = await page.answer_form.press("Send")
        assert await one.result() == "one\ntwo"


async def test_an_empty_text_is_asked_for_again(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser, asked(node) as one:
        page = await (await browser.get(one.path)).answer_form.fill({"answer": " \n "}).press()
        assert page.status == 422
        assert "Write an answer before you send it." in page.text
        assert not one.call.done()


async def test_yes_and_no(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser:
        for word, value in (("Yes", True), ("No", False)):
            async with asked(node, answer_format="confirm") as one:
                page = await (await browser.get(one.path)).answer_form.press(word)
                assert await one.result() is value
                assert f"The answer {word}" in page.text.replace("The answer", "The answer ").replace(
                    "  ", " "
                )


async def test_one_of_a_few_options_is_one_tap(database_url: str) -> None:
    options = ["plain", "with\nlines", "<b>bold</b>", "\u202eflip"]
    async with running(database_url) as node, signed_in(node) as browser:
        for label, value in zip(("plain", "with lines", "<b>bold</b>", "U+202Eflip"), options, strict=True):
            async with asked(node, answer_format="select", options=options) as one:
                await (await browser.get(one.path)).answer_form.press(label)
                assert await one.result() == value


async def test_one_of_many_options_is_chosen_and_sent(database_url: str) -> None:
    options = [f"option {n}" for n in range(40)]
    async with (
        running(database_url) as node,
        signed_in(node) as browser,
        asked(node, answer_format="select", options=options) as one,
    ):
        page = await (await browser.get(one.path)).answer_form.press("Send")
        assert page.status == 422
        await page.answer_form.fill({"option": "37"}).press("Send")
        assert await one.result() == "option 37"


async def test_a_sensitive_answer_is_shown_nowhere(database_url: str) -> None:
    @tool
    async def secret() -> bool:
        answer = (await ask("The password?", sensitive=True)).answer
        assert isinstance(answer, SecretValue)
        return bool(answer.reveal() == "hunter2 ")

    async with (
        running(database_url, secret) as node,
        signed_in(node) as browser,
        asked(node, tool="secret") as one,
    ):
        page = await browser.get(one.path)
        assert page.tree.one("input", id="answer").get("type") == "password"
        page = await page.answer_form.fill({"answer": "hunter2 "}).press("Send")
        assert (await one.call).result is True
        assert "kept nowhere" in page.text
        for path in (one.path, f"/runs/{one.question.run_id}", "/audit", "/inbox?state=answered"):
            assert "hunter2" not in (await browser.get(path)).html
