"""Every way a question can stand, told in a sentence; and the lists that lead there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rejoinder.contract.answers import SuspendedInteraction
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from tests.integration.nodes import BOB, running
from tests.integration.web.asking import AGENT, asked
from tests.integration.web.browser import signed_in
from tests.support import MovableClock, assert_eventually


async def test_an_answer_given_elsewhere_names_who_and_keeps_what_was_written(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser, asked(node, "Who?") as one:
        page = await browser.get(one.path)
        await node.asks.answer(one.question.id, "bob did", by=BOB, via="cli")
        page = await page.answer_form.fill({"answer": "my own words"}).press("Send")
        assert page.status == 409
        assert "Your answer was not taken." in page.text
        assert "Answered by bob" in page.text
        assert "bob did" in page.text
        assert "my own words" in page.text
        assert "on the command line" in page.text


async def test_the_same_answer_twice_is_told_as_answered(database_url: str) -> None:
    async with (
        running(database_url) as node,
        signed_in(node) as browser,
        asked(node, answer_format="confirm") as one,
    ):
        form = (await browser.get(one.path)).answer_form
        for _ in range(2):
            page = await form.press("Yes")
            assert (page.status, "You answered" in page.text) == (200, True)


async def test_a_lapse_is_seen_at_once_by_the_databases_clock(database_url: str, clock: MovableClock) -> None:
    async with (
        running(database_url) as node,
        signed_in(node) as browser,
        asked(node, answer_format="confirm", timeout=600) as one,
    ):
        form = (await browser.get(one.path)).answer_form
        await clock.advance(601)
        page = await browser.get(one.path)
        assert "Nobody answered in time" in page.text
        assert page.tree.all("form", action=f"{one.path}/answer") == []
        page = await form.press("Yes")
        assert page.status == 410
        assert "Your answer was not taken." in page.text
        page = await browser.get("/inbox")
        assert "Nothing waits for an answer." in page.text


async def test_withdrawing_asks_first_and_says_who_did_it(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser, asked(node) as one:
        page = await browser.get(one.path)
        assert "This cannot be undone." in page.text
        page = await page.form("/withdraw").press("Withdraw it")
        assert "Withdrawn by you" in page.text
        again = await browser.get("/inbox?state=withdrawn")
        assert "May I?" in again.text


async def test_an_asker_that_went_away_is_told(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser:
        async with asked(node) as one:
            form = (await browser.get(one.path)).answer_form
        page = await form.fill({"answer": "too late"}).press("Send")
        assert page.status == 409
        assert "The run that asked went away before anybody answered." in page.text


async def test_a_parked_run_goes_on_after_its_last_answer(database_url: str) -> None:
    @tool
    async def both() -> list[SuspendedInteraction]:
        at = datetime.now(UTC) + timedelta(days=1)
        return [
            await ask("First?", answer_format="confirm", mode="async", expiry_at=at),
            await ask("Second?", answer_format="confirm", mode="async", expiry_at=at, on_expiry="resume"),
        ]

    @both.continuation
    async def after(answers: dict[Any, Any]) -> list[bool]:
        return [one.answer for one in answers.values()]

    async with running(database_url, both, worker=True) as node, signed_in(node) as browser:
        run_id = await node.run_service.start_background("both", {}, by=AGENT)

        async def parked() -> bool:
            return len(await node.asks.page(by=AGENT, limit=9)) == 2

        await assert_eventually(parked)
        first, second = sorted(await node.asks.page(by=AGENT, limit=9), key=lambda q: q.question)
        page = await browser.get(f"/inbox/{first.id}")
        assert "the run ends. No answer is assumed." in page.text
        assert "Questions of this run" in page.text
        page = await page.answer_form.press("Yes")
        assert "The run waits for one more answer." in page.text
        page = await browser.get(f"/inbox/{second.id}")
        assert "the run goes on, and is told that nobody answered" in page.text
        await page.answer_form.press("No")

        async def finished() -> bool:
            run = await node.runs.by_id(run_id)
            return run is not None and run.state == "succeeded"

        await assert_eventually(finished)
        page = await browser.get(f"/inbox/{second.id}")
        assert "The run went on and finished." in page.text
        page = await browser.get(f"/runs/{run_id}")
        assert "[ true, false ]" in page.text
        assert "A worker resumed the run" in page.text


async def test_the_list_is_filtered_paged_and_counted(database_url: str) -> None:
    async with running(database_url, interactions_max_concurrent=None) as node, signed_in(node) as browser:
        calls = []
        async with asked(node, "Needle 100%_", group_id="g/1 ö", audience="zoe"):
            for number in range(52):
                manager = asked(node, f"Hay {number}", timeout=9000 + number)
                await manager.__aenter__()
                calls.append(manager)
            page = await browser.get("/inbox")
            assert len(page.tree.one("ol", class_="queue").all("li")) == 50
            assert page.tree.one("title").text.startswith("(53) ")
            (more,) = [one for one in page.tree.all("a") if one.text == "Show more"]
            page = await browser.get(more.get("href"))
            assert "Hay 51" in page.text
            for query in ("q=100%25_", "q=needle", "group=g/1+%C3%B6", "audience=zoe"):
                page = await browser.get(f"/inbox?{query}")
                assert len(page.tree.one("ol", class_="queue").all("li")) == 1, query
                assert "Needle" in page.text
            for query in ("q=%25%25", "tool=nothing", "mode=async", "after=junk&q=zzz"):
                page = await browser.get(f"/inbox?{query}")
                assert "No question matches." in page.text, query
            for manager in calls:
                await manager.__aexit__(None, None, None)


@pytest.mark.parametrize(
    "path", ["/inbox/not-a-uuid", "/inbox/00000000-0000-0000-0000-000000000000", "/runs/x"]
)
async def test_what_is_not_there_is_a_404_in_a_sentence(database_url: str, path: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser:
        page = await browser.get(path)
        assert page.status == 404
        assert "There is no such" in page.text


async def test_a_held_run_is_retried_or_left(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser, asked(node) as one:
        run_id = one.question.run_id
        await node.database.execute(
            "UPDATE rejoinder.run SET held = true, state = 'failed' WHERE id = $1", run_id
        )
        page = await browser.get("/runs")
        assert "Held for an operator" in page.text
        page = await (await browser.get(f"/runs/{run_id}")).form("/discard").press()
        assert page.path == "/runs"
        assert "Held for an operator" not in page.text
        page = await browser.get(f"/runs/{run_id}")
        assert page.tree.all("form", action=f"/runs/{run_id}/retry") == []


async def test_the_audit_trail_tells_everything_and_pages(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser:
        async with asked(node, "Traced?", answer_format="confirm") as one:
            await (await browser.get(one.path)).answer_form.press("Yes")
        page = await browser.get("/audit")
        for sentence in ("You answered in the inbox", "agent asked", "You signed in", "created a key"):
            assert sentence in page.text
        page = await browser.get("/audit?kind=interaction.answered")
        assert "agent asked" not in page.text
        for number in range(120):
            await node.events.add("session.opened", actor=f"p{number}")
        page = await browser.get("/audit")
        (older,) = [one for one in page.tree.all("a") if one.text == "Older"]
        page = await browser.get(older.get("href"))
        assert "p19 signed in" in page.text
        assert "p20 signed in" not in page.text
        page = await browser.get("/audit?before=x&interaction=junk&actor=%00nobody")
        assert (page.status, "Nothing matches." in page.text) == (200, True)


async def test_keys_are_made_shown_once_and_revoked(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser:
        page = await browser.get("/keys")
        page = await page.form("/keys").fill({"name": "ci <b>", "grant": ["read"]}).press("Create")
        secret = page.tree.one("code", class_="secret").text
        assert (await node.access.identify(secret)).name == "ci <b>"
        page = await browser.get("/keys")
        assert secret not in page.html
        assert len(page.tree.all("form", action="/keys/revoke")) == 2
        page = await page.form("/keys").fill({"name": "", "grant": ["read"]}).press("Create")
        assert page.status == 400
        await browser.post("/keys/revoke", [*_token(page), ("name", "ci <b>")])
        with pytest.raises(Exception, match="Authentication required"):
            await node.access.identify(secret)


def _token(page: Any) -> list[tuple[str, str]]:
    return [("form_token", page.tree.all("input", name="form_token")[0].get("value"))]
