"""Races of the core, held at their narrowest by pause points and by open transactions."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import orjson
import pytest

from rejoinder.contract import pause
from rejoinder.contract.answers import AskAnswer
from rejoinder.contract.errors import (
    InteractionAlreadyAnsweredError,
    InteractionExpiredError,
    InteractionLimitError,
    RejoinderError,
)
from rejoinder.contract.identity import Identity
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
from tests.support import MovableClock, assert_eventually


class Gate:
    """A pause action: who comes here waits until it is opened."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self.open.wait()


@tool
async def several(n: int = 1, on_expiry: str = "kill") -> Any:
    return [
        await ask(
            f"{i}?",
            mode="async",
            expiry_at=in_an_hour(),
            on_expiry="resume" if on_expiry == "resume" else "kill",
        )
        for i in range(n)
    ]


@several.continuation
async def several_go_on(answers: dict[Any, AskAnswer[Any]]) -> Any:
    return [a.answer for a in answers.values()]


async def test_fifty_answers_over_two_nodes_have_one_winner(database_url: str) -> None:
    async with running(database_url) as one, running(database_url) as two:
        call = asyncio.create_task(one.run_service.call("ask", {"question": "?"}, by=ANN, door="test"))
        question = await the_question(one)
        people = [Identity(name=f"p{i}", grants=frozenset(("write",))) for i in range(50)]
        results = await asyncio.gather(
            *(
                (one, two)[i % 2].asks.answer(question.id, f"from {p.name}", by=p, via="test")
                for i, p in enumerate(people)
            ),
            return_exceptions=True,
        )
        winners = [p for p, r in zip(people, results, strict=True) if not isinstance(r, BaseException)]
        [winner] = winners
        for result in results:
            if isinstance(result, BaseException):
                assert isinstance(result, InteractionAlreadyAnsweredError)
                assert (result.by, result.answer) == (winner.name, f"from {winner.name}")
                assert result.at is not None
        assert (await call).result["answer"] == f"from {winner.name}"
        told = await one.events.page(interaction_id=question.id)
        assert Counter(e.kind for e in told) == {
            "interaction.add": 1,
            "interaction.answered": 1,
            "answer.refused": 49,
        }
        await assert_sound(database_url)


@pytest.mark.parametrize("before", ["seal", "answer"])
async def test_the_last_answer_against_the_seal(database_url: str, before: str) -> None:
    """An answer before the run has parked is kept, and the run goes on at once when it parks."""
    gate = Gate()
    pause.arm("run.returned" if before == "answer" else "park.sealed", gate)
    async with running(database_url, several, worker=True) as node:
        run_id = await node.run_service.start_background("several", {"n": 2}, by=ANN)
        await gate.reached.wait()
        for i, question in enumerate(await open_questions(node, 2)):
            await node.asks.answer(question.id, str(i), by=BOB, via="test")
        gate.open.set()
        await run_reaches(node, run_id, "succeeded")
        assert sorted((await node.run_service.get(run_id, by=ANN)).result) == ["0", "1"]
        assert (
            await node.database.value("SELECT count(*) FROM rejoinder.event WHERE kind = 'run.resumed'") == 1
        )
        await assert_sound(database_url)


@pytest.mark.parametrize("milliseconds", [-1, 0, 1])
@pytest.mark.parametrize("swept", [False, True])
async def test_an_answer_at_the_deadline(
    database_url: str, clock: MovableClock, milliseconds: int, swept: bool
) -> None:
    """Validated in time, claimed at the deadline: the database's clock at the claim decides, whoever sweeps when."""
    gate = Gate()
    async with running(database_url, several) as node:
        await clock.hold()
        await node.run_service.call("several", {"on_expiry": "resume"}, by=ANN, door="test")
        question = await the_question(node)
        pause.arm("answer.validated", gate)
        answering = asyncio.create_task(node.asks.answer(question.id, "x", by=BOB, via="test"))
        await gate.reached.wait()
        await clock.set(question.timeout_at + timedelta(milliseconds=milliseconds))
        if swept:
            assert await node.deadlines.expire_batch() == (0 if milliseconds < 0 else 1)
        gate.open.set()
        if milliseconds < 0:
            assert not (await answering).repeated
        else:
            with pytest.raises(InteractionExpiredError) as late:
                await answering
            assert late.value.status == 410
            await node.deadlines.expire_batch()
        kept = await node.questions.by_id(question.id)
        assert kept is not None
        assert kept.state == ("answered" if milliseconds < 0 else "expired")
        await assert_sound(database_url)


@pytest.mark.parametrize("verdict", ["cancel", "lapse"])
async def test_one_killed_member_takes_the_whole_park_down(
    database_url: str, clock: MovableClock, verdict: str
) -> None:
    async with running(database_url, several, worker=True) as node:
        run_id = await node.run_service.start_background("several", {"n": 3}, by=ANN)
        await run_reaches(node, run_id, "parked")
        first, second, third = await open_questions(node, 3)
        await node.asks.answer(first.id, "x", by=BOB, via="test")
        if verdict == "cancel":
            await node.asks.cancel(second.id, by=BOB, via="test")
            assert await run_reaches(node, run_id, "cancelled")
        else:
            await clock.advance(3_700)
            node.deadlines.look()
            assert await run_reaches(node, run_id, "failed")
        assert await node.asks.page(by=ANN, limit=10) == []
        with pytest.raises(RejoinderError):
            await node.asks.answer(third.id, "x", by=BOB, via="test")
        assert await node.database.value("SELECT count(*) FROM rejoinder.resume") == 0
        await assert_sound(database_url)


async def test_nothing_is_asked_after_the_run_was_taken_down(database_url: str) -> None:
    gate = Gate()
    caught: list[BaseException] = []

    @tool
    async def slow() -> Any:
        first = await ask("1?", mode="async", expiry_at=in_an_hour())
        await gate()
        for arguments in ({"mode": "async", "expiry_at": in_an_hour()}, {"timeout": 5}):
            try:
                await ask("2?", **arguments)
            except RejoinderError as error:
                caught.append(error)
        return first

    @slow.continuation
    async def go_on(ask_result: Any) -> None:
        return None

    async with running(database_url, slow, worker=True) as node:
        run_id = await node.run_service.start_background("slow", {}, by=ANN)
        await gate.reached.wait()
        await node.asks.cancel((await the_question(node)).id, by=BOB, via="test")
        gate.open.set()
        await run_reaches(node, run_id, "cancelled")
        await assert_eventually(lambda: len(caught) == 2, "the asks were not refused")
        assert {getattr(e, "code", "") for e in caught} == {"lease-lost"}
        assert await node.database.value("SELECT count(*) FROM rejoinder.question") == 1
        await assert_sound(database_url)


async def test_the_cap_is_exact_under_a_burst_and_every_end_frees_its_place(
    database_url: str, clock: MovableClock
) -> None:
    async with (
        running(database_url, interactions_max_concurrent=20) as one,
        running(database_url, interactions_max_concurrent=20) as two,
    ):
        for end in ("answer", "cancel", "lapse", "caller"):
            calls = [
                asyncio.create_task(
                    (one, two)[i % 2].run_service.call(
                        "ask", {"question": "?", "timeout": 60}, by=ANN, door="test"
                    )
                )
                for i in range(200)
            ]

            async def refused(calls: list[Any] = calls) -> bool:
                return sum(1 for c in calls if c.done()) == 180

            await assert_eventually(refused, "not exactly 20 of 200 were taken")
            questions = await open_questions(one, 20)
            assert len(questions) == 20
            if end == "lapse":
                await clock.advance(61)
                one.deadlines.look()
            for question in questions:
                if end == "answer":
                    await one.asks.answer(question.id, "x", by=BOB, via="test")
                elif end == "cancel":
                    await two.asks.cancel(question.id, by=BOB, via="test")
            if end == "caller":
                for call in calls:
                    call.cancel()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert sum(isinstance(r, InteractionLimitError) for r in results) == 180
            free = "SELECT count(*) FROM rejoinder.slot WHERE question_id IS NULL AND n <= 20"
            assert await one.database.value(free) == 20, end
        await assert_sound(database_url)


@pytest.mark.parametrize("size", [9_000, 900_000])
@pytest.mark.parametrize("letter", ["x", "語"])
async def test_an_answer_larger_than_a_notification(database_url: str, size: int, letter: str) -> None:
    text = letter * (size // len(letter.encode()))
    async with running(database_url) as one, running(database_url) as two:
        call = asyncio.create_task(one.run_service.call("ask", {"question": "?"}, by=ANN, door="test"))
        question = await the_question(two)
        await two.asks.answer(question.id, text, by=BOB, via="test")
        assert (await call).result["answer"] == text


async def test_the_notification_connection_lost_between_commit_and_delivery(database_url: str) -> None:
    """The answerer dies before it tells anybody; the caller's own connection breaks too: re-reading finds it."""
    async with running(database_url, rejoinder_poll_seconds=600) as one:
        call = asyncio.create_task(one.run_service.call("ask", {"question": "?"}, by=ANN, door="test"))
        question = await the_question(one)
        await one.questions.close([question.id], "answered", by="bob", answer="kept")
        assert not call.done()
        one.signals.break_connection()
        assert (await asyncio.wait_for(call, 20)).result["answer"] == "kept"


async def test_a_reader_misses_no_event_of_a_transaction_that_commits_late(database_url: str) -> None:
    async with running(database_url) as node, node.tail.subscribe(ANN, None) as (_, stream):
        seen: list[Any] = []

        async def read() -> None:
            while True:
                frame = await stream.next(60)
                if frame is not None and b"interaction.answered" in frame:
                    seen.append(orjson.loads(frame.split(b"data: ")[1])["group_id"])

        reading = asyncio.create_task(read())
        add = "INSERT INTO rejoinder.event (kind, group_id, interaction_id) VALUES ('interaction.answered', $1, gen_random_uuid())"
        try:
            async with node.database.transaction() as held:
                # It has its number, and has not committed.
                await held.execute(add, "early")
                for i in range(20):
                    await node.database.execute(add, f"later {i}")
                node.tail._wake.set()
                await assert_eventually(lambda: node.tail.delay > 0, "the delay is not told")
                assert seen == []
            await assert_eventually(lambda: len(seen) == 21, "events were missed")
            assert seen == ["early", *(f"later {i}" for i in range(20))]
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def test_no_event_is_missed_or_doubled_by_readers_that_come_and_go(database_url: str) -> None:
    """Writers commit in any order; a reader that reconnects with its last id has, in the end, each exactly once."""
    add = "INSERT INTO rejoinder.event (kind, group_id, interaction_id) VALUES ('interaction.answered', $1, gen_random_uuid())"
    async with running(database_url, rejoinder_database_pool=10) as node:
        seen: list[str] = []
        last: int | None = None
        over = asyncio.Event()

        async def read() -> None:
            nonlocal last
            while not (over.is_set() and len(seen) >= 200):
                async with node.tail.subscribe(ANN, last) as (missed, stream):
                    if last is None:
                        begun.set()
                    frames = list(missed)
                    for _ in range(5):
                        frame = await stream.next(0.05)
                        if frame is not None:
                            frames.append(frame)
                    for frame in frames:
                        assert b"interaction.reset" not in frame
                        last = int(frame.split(b"\n")[0].split(b": ")[1])
                        seen.append(orjson.loads(frame.split(b"data: ")[1])["group_id"])

        async def write(n: int) -> None:
            for i in range(20):
                async with node.database.transaction() as held:
                    await held.execute(add, f"{n}.{i}")
                    if n % 3 == 0:
                        await held.execute("SELECT pg_sleep(0.005)")
                node.signals.tell("e:")

        begun = asyncio.Event()
        reading = asyncio.create_task(read())
        await begun.wait()
        await asyncio.gather(*(write(n) for n in range(10)))
        over.set()
        await asyncio.wait_for(reading, 30)
        assert Counter(seen) == Counter(f"{n}.{i}" for n in range(10) for i in range(20))
