"""What happens to a background run whose worker fails it: tried again, held for an operator, or handed on."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any
from uuid import UUID, uuid4

import pytest

from rejoinder.contract import pause
from rejoinder.contract.answers import AskAnswer
from rejoinder.contract.errors import RunConflictError, RunTerminalFailed
from rejoinder.node import Node
from rejoinder.runs.ask import ask
from rejoinder.runs.context import current_run
from rejoinder.runs.tools import tool
from rejoinder.store.processes import ThisProcess
from tests.integration.core.support import assert_sound, in_an_hour, run_reaches, the_question
from tests.integration.nodes import ANN, BOB, running
from tests.support import assert_eventually


def failing(*, idempotent: bool, times: int, where: str, error: type[Exception] = ZeroDivisionError) -> Any:
    """A tool that parks on one question and fails so often at ``where``; ``entered`` counts its phases."""
    entered: Counter[str] = Counter()
    attempts: list[int] = []

    def enter(phase: str) -> None:
        entered[phase] += 1
        attempts.append(current_run().attempt)
        if phase == where and entered[phase] <= times:
            raise error("as told")

    @tool(name="failing", idempotent=idempotent)
    async def one() -> Any:
        enter("start")
        return await ask("?", mode="async", expiry_at=in_an_hour())

    @one.continuation
    async def go_on(ask_result: AskAnswer[Any], interaction_id: UUID) -> Any:
        enter("resume")
        return {"interaction_id": interaction_id, "ask_result": ask_result}

    return one, entered, attempts


async def answered(node: Node) -> UUID:
    question = await the_question(node)
    await node.asks.answer(question.id, "x", by=BOB, via="test")
    return question.id


@pytest.mark.parametrize("where", ["start", "resume"])
async def test_an_idempotent_run_is_tried_again_and_finishes(database_url: str, where: str) -> None:
    one, entered, attempts = failing(idempotent=True, times=2, where=where)
    async with running(database_url, one, worker=True) as node:
        run_id = await node.run_service.start_background("failing", {}, by=ANN)
        identifier = await answered(node)
        await run_reaches(node, run_id, "succeeded")
        assert entered[where] == 3
        assert [a for a in attempts if a > 1] == [2, 3]
        run = await node.run_service.get(run_id, by=ANN)
        assert run.result == {
            "interaction_id": str(identifier),
            "ask_result": {"answer": "x", "reply_to": None, "params": None},
        }
        assert run.error is None
        await assert_sound(database_url)


@pytest.mark.parametrize(("idempotent", "entries"), [(False, 1), (True, 3)])
async def test_a_continuation_that_keeps_failing_is_held_then_retried(
    database_url: str, idempotent: bool, entries: int
) -> None:
    one, entered, _ = failing(idempotent=idempotent, times=entries, where="resume")
    async with running(database_url, one, worker=True) as node:
        run_id = await node.run_service.start_background("failing", {}, by=ANN)
        await answered(node)
        await run_reaches(node, run_id, "failed")
        assert entered["resume"] == entries
        run = await node.run_service.get(run_id, by=ANN)
        assert run.held
        assert run.error is not None
        assert "as told" not in run.error["error"], "an author's error is told by name only"
        assert [r.id for r in await node.run_service.newest(by=ANN, held=True)] == [run_id]
        await node.run_service.retry(run_id, by=BOB)
        await run_reaches(node, run_id, "succeeded")
        assert entered["resume"] == entries + 1
        assert entered["start"] == 1
        with pytest.raises(RunConflictError):
            await node.run_service.retry(run_id, by=BOB)
        await assert_sound(database_url)


async def test_a_discarded_run_leaves_the_operator_s_list(database_url: str) -> None:
    one, _, _ = failing(idempotent=False, times=9, where="resume")
    async with running(database_url, one, worker=True) as node:
        run_id = await node.run_service.start_background("failing", {}, by=ANN)
        await answered(node)
        await run_reaches(node, run_id, "failed")
        await node.run_service.discard(run_id, by=BOB)
        assert await node.run_service.newest(by=ANN, held=True) == []
        for act in (node.run_service.discard, node.run_service.retry):
            with pytest.raises(RunConflictError):
                await act(run_id, by=BOB)
        assert (await node.run_service.get(run_id, by=ANN)).state == "failed"
        [event] = await node.events.page(run_id=run_id, kind="run.discarded")
        assert event.actor == "bob"


@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_terminal_failure_is_not_tried_again(database_url: str, idempotent: bool) -> None:
    one, entered, _ = failing(idempotent=idempotent, times=9, where="resume", error=RunTerminalFailed)
    async with running(database_url, one, worker=True) as node:
        run_id = await node.run_service.start_background("failing", {}, by=ANN)
        await answered(node)
        await run_reaches(node, run_id, "failed")
        run = await node.run_service.get(run_id, by=ANN)
        assert (entered["resume"], run.held) == (1, False)


async def test_an_ask_that_fails_after_an_answer_is_held(database_url: str) -> None:
    """Not the author's raise, but not meant either: something may have been done with the answer already."""

    @tool
    async def one() -> Any:
        return await ask("?", mode="async", expiry_at=in_an_hour())

    @one.continuation
    async def go_on(ask_result: AskAnswer[Any]) -> Any:
        return await ask("", timeout=5)

    async with running(database_url, one, worker=True) as node:
        run_id = await node.run_service.start_background("one", {}, by=ANN)
        await answered(node)
        await run_reaches(node, run_id, "failed")
        assert (await node.run_service.get(run_id, by=ANN)).held


async def test_a_run_whose_job_is_gone_gets_one_when_its_worker_ends(database_url: str) -> None:
    inside = asyncio.Event()

    @tool(idempotent=True)
    async def slow() -> str:
        if current_run().attempt == 1:
            inside.set()
            await asyncio.Event().wait()
        return "done"

    async with running(database_url, slow, worker=True) as node:
        run_id = await node.run_service.start_background("slow", {}, by=ANN)
        await inside.wait()
        await node.database.execute("DELETE FROM rejoinder.pgqueuer")
        await node.process.leave("found dead")
        await run_reaches(node, run_id, "succeeded")
        await assert_sound(database_url)


async def test_two_workers_and_one_resumption(database_url: str) -> None:
    """Both hold the job at the same point; one enters."""
    one, entered, _ = failing(idempotent=True, times=0, where="")
    arrived = 0
    both = asyncio.Event()

    async def meet() -> None:
        nonlocal arrived
        arrived += 1
        if arrived >= 2:
            both.set()
        await both.wait()

    async with (
        running(database_url, one, worker=True) as first,
        running(database_url, one, worker=True) as second,
    ):
        run_id = await first.run_service.start_background("failing", {}, by=ANN)
        question = await the_question(first)
        await run_reaches(first, run_id, "parked")
        pause.arm("resume.picked", meet)
        await first.asks.answer(question.id, "x", by=BOB, via="test")
        await assert_eventually(lambda: arrived >= 1, "nobody resumes")
        park = await first.database.value("SELECT park_id FROM rejoinder.resume")
        assert second.worker is not None
        other = asyncio.create_task(second.worker._jobs.resume(park, 0))
        await run_reaches(first, run_id, "succeeded")
        await asyncio.gather(other, return_exceptions=True)
        assert entered["resume"] == 1
        await assert_sound(database_url)


async def _taken_over(node: Node, run_id: UUID, park_id: UUID | None) -> ThisProcess:
    """Another worker takes the run while the node's is taken for stalled."""
    other = ThisProcess(node.database, "worker")
    await other.join()
    status, _ = await node.runs.enter(run_id, park_id, other.id, uuid4(), 9, -60)
    assert status == "entered"
    return other


async def test_a_fenced_worker_leaves_the_job_to_the_one_that_took_over(database_url: str) -> None:
    """It completes its own copy of the job; if that deleted the row and the other died, the run would be lost."""
    gate = asyncio.Event()
    inside = asyncio.Event()

    @tool(idempotent=True)
    async def slow() -> str:
        if current_run().attempt == 1:
            inside.set()
            await gate.wait()
        return f"attempt {current_run().attempt}"

    async with running(database_url, slow, worker=True, rejoinder_run_max_starts=9) as node:
        run_id = await node.run_service.start_background("slow", {}, by=ANN)
        await inside.wait()
        other = await _taken_over(node, run_id, None)
        gate.set()
        # The first one ends and may write nothing; the other dies; the job is still there for a third try.
        await other.leave("found dead")
        await run_reaches(node, run_id, "succeeded")
        assert (await node.run_service.get(run_id, by=ANN)).result == "attempt 3"
        await assert_sound(database_url)


async def test_a_process_that_was_found_dead_can_ask_nothing_under_its_old_name(database_url: str) -> None:
    """It woke from a long pause and does not know yet. A question of its old name would be nobody's."""
    async with running(database_url, rejoinder_beat_seconds=3600) as node:
        old = node.process.id
        await node.process.leave("found dead")
        call = asyncio.create_task(node.run_service.call("ask", {"question": "?"}, by=ANN, door="test"))
        await asyncio.wait({call})
        assert getattr(call.exception(), "code", None) == "lease-lost"
        assert await node.database.value("SELECT count(*) FROM rejoinder.run") == 0
        await node._rejoin()
        assert node.process.id != old
        call = asyncio.create_task(node.run_service.call("ask", {"question": "?"}, by=ANN, door="test"))
        await answered(node)
        assert (await call).result["answer"] == "x"
        await assert_sound(database_url)


@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_resuming_worker_that_was_found_dead_and_parks_again(
    database_url: str, idempotent: bool
) -> None:
    """Its new park was withdrawn with it: tried again where that is safe, held where it is not; never just failed."""
    gate = asyncio.Event()
    inside = asyncio.Event()
    rounds: Counter[str] = Counter()

    @tool(name="twice", idempotent=idempotent)
    async def twice() -> Any:
        return await ask("1?", mode="async", expiry_at=in_an_hour())

    @twice.continuation
    async def go_on(ask_result: AskAnswer[Any]) -> Any:
        rounds[ask_result.answer] += 1
        if ask_result.answer == "done":
            return "done"
        again = await ask("2?", mode="async", expiry_at=in_an_hour())
        if rounds["first"] == 1:
            inside.set()
            await gate.wait()
        return again

    async with running(database_url, twice, worker=True, rejoinder_beat_seconds=3600) as node:
        run_id = await node.run_service.start_background("twice", {}, by=ANN)
        question = await the_question(node)
        await node.asks.answer(question.id, "first", by=BOB, via="test")
        await inside.wait()
        await node.process.leave("found dead")
        await node._rejoin()
        gate.set()
        if idempotent:
            question = await the_question(node)
            await node.asks.answer(question.id, "done", by=BOB, via="test")
            await run_reaches(node, run_id, "succeeded")
            assert rounds == {"first": 2, "done": 1}
        else:
            await run_reaches(node, run_id, "failed")
            assert (await node.run_service.get(run_id, by=ANN)).held
        await assert_sound(database_url)


@pytest.fixture(autouse=True)
def _disarmed() -> Any:
    yield
    pause.disarm()
