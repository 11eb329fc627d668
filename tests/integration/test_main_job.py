"""The main job: ask, answer, go on; park, answer, be resumed once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from rejoinder.contract.answers import AskAnswer, SecretValue, SuspendedInteraction
from rejoinder.contract.errors import (
    AnswerMismatchError,
    InteractionAlreadyAnsweredError,
    InteractionCancelledError,
    InteractionTimeoutError,
)
from rejoinder.contract.questions import Question
from rejoinder.node import Node
from rejoinder.runs.ask import ask, ask_blocking
from rejoinder.runs.tools import tool
from tests.integration.nodes import ANN, BOB, running
from tests.support import MovableClock, assert_eventually


async def the_question(node: Node, count: int = 1) -> Question:
    async def open_questions() -> list[Question] | None:
        found = await node.asks.page(by=ANN, limit=50)
        return found if len(found) >= count else None

    found = await assert_eventually(open_questions, "no question was asked")
    assert found is not None
    return found[-1]


@tool
async def sure() -> bool:
    """Ask for a confirmation."""
    return (await ask("Sure?", answer_format="confirm")).answer


async def test_a_blocked_call_gets_the_typed_answer(database_url: str) -> None:
    async with running(database_url, sure) as node:
        call = asyncio.create_task(node.run_service.call("sure", {}, by=ANN, door="test"))
        question = await the_question(node)
        with pytest.raises(AnswerMismatchError, match="answer must be a boolean"):
            await node.asks.answer(question.id, "yes", by=BOB, via="test")
        await node.asks.answer(question.id, True, by=BOB, via="test")
        result = await call
        assert (result.kind, result.result) == ("result", True)
        again = await node.asks.answer(question.id, True, by=BOB, via="test")
        assert again.repeated
        with pytest.raises(InteractionAlreadyAnsweredError) as caught:
            await node.asks.answer(question.id, True, by=ANN, via="test")
        assert caught.value.by == "bob"


async def test_a_plain_function_blocks_its_thread_only(database_url: str) -> None:
    @tool
    def name() -> str:
        answer = ask_blocking("Your name?").answer
        return f"hello {answer}"

    async with running(database_url, name) as node:
        call = asyncio.create_task(node.run_service.call("name", {}, by=ANN, door="test"))
        await node.asks.answer((await the_question(node)).id, "Ada", by=BOB, via="test")
        assert (await call).result == "hello Ada"


async def test_nobody_answers(database_url: str, clock: MovableClock) -> None:
    async with running(database_url) as node:
        call = asyncio.create_task(
            node.run_service.call("ask", {"question": "?", "timeout": 600}, by=ANN, door="test")
        )
        await the_question(node)
        await clock.advance(601)
        node.deadlines.look()
        with pytest.raises(InteractionTimeoutError, match="600 seconds"):
            await call


async def test_a_withdrawn_question_wakes_its_caller(database_url: str) -> None:
    async with running(database_url) as node:
        call = asyncio.create_task(node.run_service.call("ask", {"question": "?"}, by=ANN, door="test"))
        await node.asks.cancel((await the_question(node)).id, by=BOB, via="test")
        with pytest.raises(InteractionCancelledError):
            await call


async def test_a_cancelled_caller_withdraws_its_question(database_url: str) -> None:
    async with running(database_url) as node:
        call = asyncio.create_task(node.run_service.call("ask", {"question": "?"}, by=ANN, door="test"))
        question = await the_question(node)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        gone = await node.questions.by_id(question.id)
        assert gone is not None
        assert (gone.state, gone.reason) == ("cancelled", "asker gone")
        run = await node.runs.by_id(question.run_id)
        assert run is not None
        assert run.state == "cancelled"


async def test_a_sensitive_answer_is_never_stored(database_url: str) -> None:
    seen: list[Any] = []

    @tool
    async def login() -> str:
        answer = (await ask("Password?", sensitive=True)).answer
        seen.append(answer)
        return "ok" if answer.reveal() == "hunter2" else "wrong"

    async with running(database_url, login) as node:
        call = asyncio.create_task(node.run_service.call("login", {}, by=ANN, door="test"))
        question = await the_question(node)
        await node.asks.answer(question.id, "hunter2", by=BOB, via="test")
        assert (await call).result == "ok"
        assert isinstance(seen[0], SecretValue)
        assert "hunter2" not in repr(seen[0])
        await node.asks.drain()
        row = await node.database.row("SELECT to_jsonb(q)::text AS t FROM rejoinder.question q")
        assert row is not None
        assert "hunter2" not in row["t"]
        assert await node.database.value("SELECT sealed_answer FROM rejoinder.question") is None


def in_an_hour() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


async def test_a_parked_run_goes_on_once_with_all_its_answers(database_url: str) -> None:
    calls: list[dict[UUID, AskAnswer[Any]]] = []

    @tool
    async def both() -> list[SuspendedInteraction]:
        return [
            await ask("First?", mode="async", expiry_at=in_an_hour()),
            await ask("Second?", answer_format="confirm", mode="async", expiry_at=in_an_hour()),
        ]

    @both.continuation
    async def after(answers: dict[UUID, AskAnswer[Any]]) -> list[Any]:
        calls.append(answers)
        return [a.answer for a in answers.values()]

    async with running(database_url, both, worker=True) as node:
        run_id = await node.run_service.start_background("both", {}, by=ANN)
        await the_question(node, 2)
        run = await assert_eventually(lambda: node.runs.by_id(run_id), "no run")
        assert run is not None

        async def parked() -> bool:
            return (await node.run_service.get(run_id, by=ANN)).state == "parked"

        await assert_eventually(parked, "the run did not park")
        questions = await node.asks.page(by=ANN, limit=10)
        by_text = {q.question: q.id for q in questions}
        await node.asks.answer(by_text["Second?"], False, by=BOB, via="test")
        assert calls == []
        await node.asks.answer(by_text["First?"], "one", by=BOB, via="test")

        async def over() -> bool:
            return (await node.run_service.get(run_id, by=ANN)).state == "succeeded"

        await assert_eventually(over, "the run did not end")
        assert (await node.run_service.get(run_id, by=ANN)).result == ["one", False]
        assert len(calls) == 1


async def test_the_builtin_ask_parks_and_its_result_is_the_answer(database_url: str) -> None:
    async with running(database_url, worker=True) as node:
        arguments = {"question": "Where?", "mode": "async", "expiry_at": in_an_hour().isoformat()}
        run_id = await node.run_service.start_background("ask", arguments, by=ANN)
        question = await the_question(node)
        await node.asks.answer(question.id, "Here", by=BOB, via="test")

        async def over() -> bool:
            return (await node.run_service.get(run_id, by=ANN)).state == "succeeded"

        await assert_eventually(over, "the run did not end")
        result = (await node.run_service.get(run_id, by=ANN)).result
        assert result == {"answer": "Here", "reply_to": None, "params": None}


@pytest.mark.parametrize("on_expiry", ["kill", "resume"])
async def test_a_parked_question_lapses(database_url: str, clock: MovableClock, on_expiry: str) -> None:
    async with running(database_url, worker=True) as node:
        moment = await clock.now() + timedelta(hours=1)
        arguments = {
            "question": "Where?",
            "mode": "async",
            "expiry_at": moment.isoformat(),
            "on_expiry": on_expiry,
        }
        run_id = await node.run_service.start_background("ask", arguments, by=ANN)
        await the_question(node)
        await clock.advance(3601)
        node.deadlines.look()

        async def over() -> bool:
            return (await node.run_service.get(run_id, by=ANN)).state in ("succeeded", "failed")

        await assert_eventually(over, "the run did not end")
        run = await node.run_service.get(run_id, by=ANN)
        if on_expiry == "kill":
            assert run.state == "failed"
            assert run.error is not None
            assert run.error["code"] == "interaction-expired"
        else:
            assert run.result == {
                "answer": {"tai42:interaction_expired": True},
                "reply_to": None,
                "params": None,
            }
