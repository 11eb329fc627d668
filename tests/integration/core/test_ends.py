"""Whatever happens around an ask, its question and its run come to an end that somebody can see."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from rejoinder.contract import pause
from rejoinder.contract.errors import InteractionLimitError, RejoinderError, RunTerminalFailed
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from tests.integration.core.support import (
    assert_sound,
    in_an_hour,
    open_questions,
    run_reaches,
    the_question,
)
from tests.integration.nodes import ANN, BOB, running
from tests.support import assert_eventually


async def test_a_refused_first_ask_leaves_no_run_behind(database_url: str) -> None:
    async with running(database_url, interactions_max_concurrent=1) as node:
        first = asyncio.create_task(node.run_service.call("ask", {"question": "1?"}, by=ANN, door="test"))
        question = await the_question(node)
        with pytest.raises(InteractionLimitError, match=r"max_concurrent limit \(1\)"):
            await node.run_service.call("ask", {"question": "2?"}, by=ANN, door="test")
        assert await node.database.value("SELECT count(*) FROM rejoinder.run") == 1
        await node.asks.answer(question.id, "x", by=BOB, via="test")
        await first
        await assert_sound(database_url)


async def test_a_caller_that_goes_away_while_its_question_is_being_written(database_url: str) -> None:
    """Cancelled before the reply to the write came: the question is withdrawn and the run's row ends."""
    async with running(database_url) as node:
        async with node.database.transaction() as blocking:
            await blocking.execute("LOCK TABLE rejoinder.question IN SHARE MODE")
            call = asyncio.create_task(node.run_service.call("ask", {"question": "?"}, by=ANN, door="test"))
            await assert_eventually(
                lambda: node.database.value(
                    "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = "
                    "(SELECT oid FROM pg_database WHERE datname = current_database())"
                ),
                "the write is not waiting",
            )
            call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await assert_eventually(
            lambda: node.database.value("SELECT count(*) FROM rejoinder.run WHERE state = 'cancelled'"),
            "the run's row did not end",
        )
        assert await node.database.value("SELECT state FROM rejoinder.question") == "cancelled"
        await assert_sound(database_url)


async def test_a_caller_that_is_cancelled_again_and_again(database_url: str) -> None:
    """As anyio's scopes do: every await of the leaving code is cancelled too."""
    async with running(database_url) as node:
        async with node.database.transaction() as blocking:
            await blocking.execute("LOCK TABLE rejoinder.question IN SHARE MODE")
            async with anyio.create_task_group() as group:

                async def call() -> None:
                    await node.run_service.call("ask", {"question": "?"}, by=ANN, door="test")

                group.start_soon(call)
                await assert_eventually(
                    lambda: node.database.value(
                        "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = "
                        "(SELECT oid FROM pg_database WHERE datname = current_database())"
                    ),
                    "the write is not waiting",
                )
                group.cancel_scope.cancel()

        async def over() -> bool:
            states = await node.database.rows(
                "SELECT q.state AS q, r.state AS r FROM rejoinder.question q JOIN rejoinder.run r ON r.id = q.run_id"
            )
            return [tuple(s) for s in states] == [("cancelled", "cancelled")]

        await assert_eventually(over, "the question or its run stayed open")
        await assert_sound(database_url)


async def test_a_killed_park_takes_the_run_s_blocking_question_with_it(database_url: str) -> None:
    @tool
    async def both() -> Any:
        later = await ask("Later?", mode="async", expiry_at=in_an_hour())
        await ask("Now?", timeout=600)
        return later

    @both.continuation
    async def go_on(ask_result: Any) -> Any:
        return ask_result

    async with running(database_url, both) as node:
        call = asyncio.create_task(node.run_service.call("both", {}, by=ANN, door="test"))
        questions = await open_questions(node, 2)
        later = next(q for q in questions if q.mode == "async")
        await node.asks.cancel(later.id, by=BOB, via="test")
        with pytest.raises(RejoinderError, match="withdrawn"):
            await call
        assert await node.asks.page(by=ANN, limit=10) == []
        await assert_sound(database_url)


@pytest.mark.parametrize("text", ["nul \x00 in it", "lone \ud800 surrogate", "x" * 100_000])
@pytest.mark.parametrize("background", [False, True])
async def test_an_error_whose_text_cannot_be_stored(database_url: str, text: str, background: bool) -> None:
    @tool
    async def bad() -> None:
        await ask("?", answer_format="confirm")
        raise RunTerminalFailed(text)

    async with running(database_url, bad, worker=background) as node:
        if background:
            run_id = await node.run_service.start_background("bad", {}, by=ANN)
        else:
            call = asyncio.create_task(node.run_service.call("bad", {}, by=ANN, door="test"))
        question = await the_question(node)
        await node.asks.answer(question.id, True, by=BOB, via="test")
        if not background:
            with pytest.raises(RunTerminalFailed):
                await call
            run_id = question.run_id
        await run_reaches(node, run_id, "failed")
        run = await node.runs.by_id(run_id)
        assert run is not None
        assert run.error is not None
        assert run.error["code"] == "run-failed"
        await assert_sound(database_url)


async def test_a_node_stops_while_the_database_is_away(database_url: str) -> None:
    """What it cannot write is found by another process; it does not wait for ever."""
    async with running(database_url) as node:
        call = asyncio.create_task(node.run_service.call("ask", {"question": "?"}, by=ANN, door="test"))
        await the_question(node)
        pool = node.database.pool
        node.database._pool = None
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(node.asks.drain(), 15)
        node.database._pool = pool


async def test_an_earlier_deadline_recorded_while_the_next_one_is_looked_up(database_url: str) -> None:
    """The look sees nothing; what is recorded before it ends must still wake it in time, not at the slow poll."""
    looked = asyncio.Event()
    go_on = asyncio.Event()
    async with running(database_url, rejoinder_poll_seconds=600) as node:
        real = node.questions.seconds_to_next_deadline

        async def slow() -> float | None:
            seconds = await real()
            looked.set()
            await go_on.wait()
            return seconds

        node.questions.seconds_to_next_deadline = slow  # type: ignore[method-assign]
        node.deadlines.look()
        await asyncio.wait_for(looked.wait(), 10)
        node.deadlines._heard("0.2")
        node.questions.seconds_to_next_deadline = real  # type: ignore[method-assign]
        again = asyncio.Event()
        real_batch = node.deadlines.expire_batch

        async def batch() -> int:
            again.set()
            return await real_batch()

        node.deadlines.expire_batch = batch  # type: ignore[method-assign]
        go_on.set()
        await asyncio.wait_for(again.wait(), 15)


async def test_a_fault_while_reading_outcomes_does_not_stop_later_callers(database_url: str) -> None:
    async with running(database_url) as node:
        real = node.questions.outcomes
        failed = asyncio.Event()

        async def broken_once(ids: Any) -> Any:
            node.questions.outcomes = real  # type: ignore[method-assign]
            failed.set()
            raise ValueError("a statement was cancelled")

        node.questions.outcomes = broken_once  # type: ignore[method-assign, assignment]
        call = asyncio.create_task(node.run_service.call("ask", {"question": "?"}, by=ANN, door="test"))
        question = await the_question(node)
        node.waiters.look(question.id)
        await asyncio.wait_for(failed.wait(), 10)
        await node.asks.answer(question.id, "x", by=BOB, via="test")
        assert (await asyncio.wait_for(call, 15)).result["answer"] == "x"


async def test_every_try_is_in_the_trail(database_url: str) -> None:
    async with running(database_url) as node:
        call = asyncio.create_task(node.run_service.call("ask", {"question": "?"}, by=ANN, door="test"))
        question = await the_question(node)
        for value in (3, "first", "second"):
            try:
                await node.asks.answer(question.id, value, by=BOB, via="test")
            except RejoinderError:
                pass
        await call
        rows = await node.database.rows(
            "SELECT kind, reason FROM rejoinder.event WHERE interaction_id = $1 ORDER BY seq", question.id
        )
        assert [(r["kind"], r["reason"]) for r in rows] == [
            ("interaction.add", None),
            ("answer.refused", "mismatch"),
            ("interaction.answered", "answered"),
            ("answer.refused", "interaction-already-answered"),
        ]


@pytest.fixture(autouse=True)
def _disarmed() -> Any:
    yield
    pause.disarm()


async def test_a_node_stops_although_its_loops_are_woken_at_that_moment(database_url: str) -> None:
    """A wake and a cancellation in one turn of the loop: the cancellation must not be swallowed."""
    async with running(database_url) as node:
        loops = [
            ("waiters", node.waiters._task, node.waiters._wake),
            ("deadlines", node.deadlines._task, node.deadlines._wake),
            ("tail", node.tail._task, node.tail._wake),
        ]
        for name, task, wake in loops:
            assert task is not None
            wake.set()
            task.cancel()
            done, _ = await asyncio.wait({task}, timeout=10)
            assert done, f"{name} went on"
