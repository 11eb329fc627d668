"""Whatever the author's code does, its own run ends, its caller is told, and the process goes on."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from rejoinder.contract.errors import LeaseLostError, RejoinderError, ToolFailedError
from rejoinder.runs.ask import ask, ask_blocking
from rejoinder.runs.tools import MAX_RESULT, Tool, tool
from tests.integration.core.support import assert_sound, in_an_hour, open_questions, run_reaches, the_question
from tests.integration.nodes import ANN, BOB, running
from tests.support import assert_eventually


class Unusual(BaseException):
    """As some libraries raise, to get past ``except Exception``."""


Make = Callable[[], BaseException]
RAISED: dict[str, Make] = {
    "sys.exit": lambda: SystemExit(3),
    "Ctrl-C": KeyboardInterrupt,
    "unusual": Unusual,
    "cancelled": asyncio.CancelledError,
    "next": StopIteration,
    "anext": StopAsyncIteration,
    "recursion": RecursionError,
    "memory": MemoryError,
    "several": lambda: BaseExceptionGroup("several", [SystemExit(1), ValueError("b")]),
}


def raising(error: Make, *, where: str, asks: bool = False, idempotent: bool = False) -> Tool:
    async def on_the_loop() -> None:
        """Raise."""
        if asks:
            await ask("First?")
        raise error()

    def in_a_thread() -> None:
        """Raise."""
        if asks:
            ask_blocking("First?")
        raise error()

    function = on_the_loop if where == "loop" else in_a_thread
    return tool(name="raising", idempotent=idempotent)(function)


@pytest.mark.parametrize("where", ["loop", "thread"])
@pytest.mark.parametrize("error", RAISED.values(), ids=RAISED)
async def test_a_caller_is_told_whatever_its_tool_raises(database_url: str, error: Make, where: str) -> None:
    async with running(database_url, raising(error, where=where)) as node:
        with pytest.raises(ToolFailedError):
            await asyncio.wait_for(node.run_service.call("raising", {}, by=ANN, door="test"), 20)


@pytest.mark.parametrize("where", ["loop", "thread"])
@pytest.mark.parametrize("error", RAISED.values(), ids=RAISED)
async def test_a_run_that_asked_is_recorded_as_failed_whatever_is_raised_afterwards(
    database_url: str, error: Make, where: str
) -> None:
    async with running(database_url, raising(error, where=where, asks=True)) as node:
        call = asyncio.create_task(node.run_service.call("raising", {}, by=ANN, door="test"))
        question = await the_question(node)
        await node.asks.answer(question.id, "x", by=BOB, via="test")
        with pytest.raises(ToolFailedError):
            await asyncio.wait_for(call, 20)
        await run_reaches(node, question.run_id, "failed")
        await assert_sound(database_url)


@pytest.mark.parametrize("idempotent", [False, True], ids=["once", "idempotent"])
@pytest.mark.parametrize("where", ["loop", "thread"])
@pytest.mark.parametrize("error", RAISED.values(), ids=RAISED)
async def test_a_worker_survives_whatever_a_background_run_raises(
    database_url: str, error: Make, where: str, idempotent: bool
) -> None:
    broken = raising(error, where=where, idempotent=idempotent)
    async with running(database_url, broken, worker=True, rejoinder_run_max_starts=2) as node:
        run_id = await node.run_service.start_background("raising", {}, by=ANN)
        await run_reaches(node, run_id, "failed")
        ended = await node.run_service.get(run_id, by=ANN)
        assert ended.starts == (2 if idempotent else 1)
        assert ended.error is not None
        assert ended.error["code"] == "tool-failed"


ESCAPING = (SystemExit, Unusual, asyncio.CancelledError)


def _check(value: int) -> int:
    raise ESCAPING[value]("the author's own")


@tool
async def checked(n: Annotated[int, AfterValidator(_check)]) -> int:
    """Never runs."""
    return n


@pytest.mark.parametrize("n", range(len(ESCAPING)))
async def test_a_check_of_arguments_ends_no_more_than_its_call(database_url: str, n: int) -> None:
    async with running(database_url, checked) as node:
        with pytest.raises(RuntimeError, match=ESCAPING[n].__name__):
            await node.run_service.call("checked", {"n": n}, by=ANN, door="test")


async def test_a_worker_survives_a_continuation_that_exits(database_url: str) -> None:
    @tool
    async def parks() -> Any:
        """Park."""
        return await ask("Go on?", mode="async", expiry_at=in_an_hour())

    @parks.continuation
    async def exits() -> None:
        sys.exit("the author meant: end this")

    async with running(database_url, parks, worker=True) as node:
        run_id = await node.run_service.start_background("parks", {}, by=ANN)
        question = await the_question(node)
        await run_reaches(node, run_id, "parked")
        await node.asks.answer(question.id, "x", by=BOB, via="test")
        await run_reaches(node, run_id, "failed")
        assert (await node.run_service.get(run_id, by=ANN)).held
        await assert_sound(database_url)


async def test_plain_functions_that_wait_for_people_keep_no_other_from_running(database_url: str) -> None:
    """However many cores there are: a thread that waits for a person is no thread that computes."""

    @tool
    def waits(n: int) -> str:
        """Wait for a person."""
        return str(ask_blocking(f"{n}?").answer)

    async with running(database_url, waits) as node:
        calls = [
            asyncio.create_task(node.run_service.call("waits", {"n": n}, by=ANN, door="test"))
            for n in range(60)
        ]
        await assert_eventually(
            lambda: node.database.value("SELECT count(*) = 60 FROM rejoinder.question"),
            "not every function was begun",
        )
        for question in await node.asks.page(by=BOB, limit=100):
            await node.asks.answer(question.id, question.question, by=BOB, via="test")
        assert [(await call).result for call in calls] == [f"{n}?" for n in range(60)]


async def test_a_process_stops_although_a_plain_function_never_returns(database_url: str) -> None:
    begun, free = threading.Event(), threading.Event()

    @tool
    def hangs() -> None:
        """Hang."""
        begun.set()
        free.wait()

    try:
        async with running(database_url, hangs) as node:
            call = asyncio.create_task(node.run_service.call("hangs", {}, by=ANN, door="test"))
            await assert_eventually(begun.is_set, "it was not begun")
            hanging = [t for t in threading.enumerate() if t.name.startswith("rejoinder.tool")]
            assert hanging
            assert all(t.daemon for t in hanging), "Python waits for it when the process ends"
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
    finally:
        free.set()


async def test_what_a_tool_leaves_behind_can_ask_nothing_more(database_url: str) -> None:
    """Its run never asked, so it has no row that could refuse the question."""
    go_on = asyncio.Event()
    left: list[asyncio.Task[Any]] = []

    @tool
    async def leaves() -> str:
        """Leave something behind."""

        async def asks() -> Any:
            await go_on.wait()
            return await ask("Is somebody there?")

        left.append(asyncio.create_task(asks()))
        return "done"

    async with running(database_url, leaves) as node:
        result = await node.run_service.call("leaves", {}, by=ANN, door="test")
        assert result.result == "done"
        go_on.set()
        with pytest.raises(LeaseLostError):
            await asyncio.wait_for(left[0], 20)
        assert await node.database.value("SELECT count(*) FROM rejoinder.question") == 0


async def test_a_question_that_is_being_recorded_when_its_run_returns_is_withdrawn(database_url: str) -> None:
    left: list[asyncio.Task[Any]] = []
    returning = asyncio.Event()

    async with running(database_url) as node:
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"

        @tool
        async def leaves() -> str:
            """Leave something behind."""
            left.append(asyncio.create_task(ask("Is somebody there?")))
            await assert_eventually(lambda: node.database.value(waiting), "the record is not waiting")
            returning.set()
            return "done"

        node.registry.add(leaves)
        async with node.database.transaction() as blocking:
            await blocking.execute("LOCK TABLE rejoinder.question IN SHARE MODE")
            call = asyncio.create_task(node.run_service.call("leaves", {}, by=ANN, door="test"))
            await assert_eventually(returning.is_set, "the tool does not return")
        assert (await call).result == "done"
        with pytest.raises(RejoinderError):
            await asyncio.wait_for(left[0], 20)
        await assert_eventually(
            lambda: node.database.value("SELECT count(*) FROM rejoinder.run WHERE state = 'succeeded'"),
            "the run did not end",
        )
        await assert_sound(database_url)


@pytest.mark.parametrize("worker", [False, True], ids=["called", "background"])
async def test_a_result_too_large_to_be_stored_fails_its_run(database_url: str, worker: bool) -> None:
    @tool
    async def large() -> str:
        """Return a lot."""
        return "x" * MAX_RESULT

    async with running(database_url, large, worker=worker) as node:
        if not worker:
            with pytest.raises(ToolFailedError, match="over 64 MiB"):
                await node.run_service.call("large", {}, by=ANN, door="test")
            return
        run_id = await node.run_service.start_background("large", {}, by=ANN)
        await run_reaches(node, run_id, "failed")


async def test_a_continuation_is_given_the_arguments_that_were_left_to_their_defaults(
    database_url: str,
) -> None:
    seen: list[dict[str, Any]] = []

    @tool
    async def parks(name: str, day: date = date(2026, 1, 2), tags: tuple[str, ...] = ()) -> Any:
        """Park."""
        return await ask("Go on?", mode="async", expiry_at=in_an_hour())

    @parks.continuation
    async def goes_on(arguments: dict[str, Any]) -> None:
        seen.append(arguments)

    async with running(database_url, parks, worker=True) as node:
        run_id = await node.run_service.start_background("parks", {"name": "a"}, by=ANN)
        question = await the_question(node)
        await run_reaches(node, run_id, "parked")
        await node.asks.answer(question.id, "x", by=BOB, via="test")
        await run_reaches(node, run_id, "succeeded")
    assert seen == [{"name": "a", "day": "2026-01-02", "tags": []}]


async def test_the_blocking_ask_is_refused_where_it_would_stop_the_event_loop(database_url: str) -> None:
    @tool
    async def mistaken() -> Any:
        """Block the loop."""
        return ask_blocking("?")

    async with running(database_url, mistaken) as node:
        with pytest.raises(ToolFailedError, match="TypeError"):
            await asyncio.wait_for(node.run_service.call("mistaken", {}, by=ANN, door="test"), 20)
        assert await node.database.value("SELECT count(*) FROM rejoinder.question") == 0


async def test_ask_in_an_event_loop_of_the_tool_s_own(database_url: str) -> None:
    @tool
    def with_a_loop() -> Any:
        """Ask on another loop."""
        return asyncio.run(two())

    async def two() -> list[str]:
        answers = await asyncio.gather(ask("1?"), ask("2?"))
        return [one.answer for one in answers]

    async with running(database_url, with_a_loop) as node:
        call = asyncio.create_task(node.run_service.call("with_a_loop", {}, by=ANN, door="test"))
        for question in await open_questions(node, 2):
            await node.asks.answer(question.id, question.question, by=BOB, via="test")
        assert (await asyncio.wait_for(call, 20)).result == ["1?", "2?"]
