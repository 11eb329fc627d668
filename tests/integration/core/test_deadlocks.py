"""Everything at once on the same few runs and parks: no two transactions ever wait for each other in a ring."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from rejoinder.contract.errors import InteractionClosedError, RejoinderError
from rejoinder.contract.questions import AskRequest
from rejoinder.node import Node
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from rejoinder.store.processes import ThisProcess
from rejoinder.store.questions import RunReference
from tests.integration.core.support import assert_sound, deadlocks_of, in_an_hour
from tests.integration.nodes import ANN, BOB, running
from tests.support import MovableClock

ROUNDS = 12
TASKS = 16
ACTS = 20


class Crowd:
    """A few runs with a few parks each, and everything that may happen to them."""

    def __init__(self, node: Node, clock: MovableClock, seed: int) -> None:
        self.node = node
        self.clock = clock
        self.random = random.Random(seed)
        self.runs: list[tuple[UUID, UUID, ThisProcess]] = []
        self.ids: list[UUID] = []

    async def begin(self) -> None:
        for _ in range(2):
            process = ThisProcess(self.node.database, "server")
            await process.join()
            for _ in range(6):
                self.runs.append((uuid4(), uuid4(), process))

    async def act(self) -> None:
        node, pick = self.node, self.random
        run_id, park_id, process = pick.choice(self.runs)
        identifier = pick.choice(self.ids) if self.ids else uuid4()
        some = pick.sample(self.ids, min(len(self.ids), 4))
        acts: list[tuple[int, Callable[[], Awaitable[Any]]]] = [
            (6, lambda: self.ask(run_id, park_id, process)),
            (6, lambda: node.asks.answer(identifier, "x", by=BOB, via="test")),
            (2, lambda: node.asks.cancel(identifier, by=BOB, via="test")),
            (2, lambda: node.questions.close(some, "cancelled", by="test")),
            (3, lambda: node.deadlines.expire_batch()),
            (3, lambda: node.runs.seal(run_id, 1, park_id)),
            (1, lambda: node.runs.finish(run_id, 1, "succeeded")),
            (
                1,
                lambda: node.runs.finish_many([(r[0], 1, "failed", None) for r in pick.sample(self.runs, 3)]),
            ),
            (1, lambda: process.leave("found dead") if pick.random() < 0.2 else asyncio.sleep(0)),
        ]
        act = pick.choices([a for _, a in acts], [w for w, _ in acts])[0]
        try:
            await act()
        except asyncpg.DeadlockDetectedError:
            raise
        except RejoinderError as error:
            if error.status >= 500:
                raise

    async def ask(self, run_id: UUID, park_id: UUID, process: ThisProcess) -> None:
        parked = self.random.random() < 0.6
        identifier = uuid4()
        new: dict[str, Any] = {
            "arguments": {},
            "door": "test",
            "key_id": None,
            "idempotent": False,
            "trace": None,
        }
        moment = await self.clock.now() + timedelta(seconds=self.random.choice([-1, 0.01, 0.05, 60]))
        await self.node.questions.record(
            identifier,
            RunReference(run_id, 1, "t", ANN.name, process.id, new),
            0,
            park_id if parked else None,
            AskRequest(
                "?",
                "text",
                None,
                "g",
                "async" if parked else "sync",
                None,
                moment,
                self.random.choice(["kill", "resume"]),
                None,
                None,
                False,
            ),
            None,
            200,
        )
        self.ids.append(identifier)


async def test_nothing_waits_in_a_ring(database_url: str, postgres_url: str, clock: MovableClock) -> None:
    async with running(database_url, rejoinder_database_pool=12, interactions_max_concurrent=200) as node:
        for seed in range(ROUNDS):
            crowd = Crowd(node, clock, seed)
            await crowd.begin()

            async def many(crowd: Crowd = crowd) -> None:
                for _ in range(ACTS):
                    await crowd.act()

            try:
                await asyncio.gather(*(many() for _ in range(TASKS)))
            except asyncpg.DeadlockDetectedError:
                raise AssertionError(deadlocks_of(postgres_url)) from None
            for _, _, process in crowd.runs:
                await process.leave("over")
        assert (
            await node.database.value(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            )
            == 0
        ), deadlocks_of(postgres_url)
        await assert_sound(database_url)


async def test_the_last_answer_and_a_withdrawal_of_one_park(database_url: str, postgres_url: str) -> None:
    """They take the same rows from two ends: the one completes the park, the other ends the run."""

    @tool
    async def several(n: int) -> Any:
        return [
            await ask("?", answer_format="confirm", mode="async", expiry_at=in_an_hour()) for _ in range(n)
        ]

    @several.continuation
    async def go_on(answers: Any) -> None:
        return None

    async with running(database_url, several, rejoinder_database_pool=10) as node:
        for i in range(100):
            await node.run_service.call("several", {"n": 1 + i % 2}, by=ANN, door="test")
            question, *_ = await node.asks.page(by=ANN, limit=5)
            tries: list[Awaitable[Any]] = [
                node.asks.answer(question.id, value, by=by, via="test")
                for value in (True, False)
                for by in (ANN, BOB)
            ]
            tries.append(node.asks.cancel(question.id, by=BOB, via="test"))
            results = await asyncio.gather(*tries, return_exceptions=True)
            assert sum(not isinstance(r, BaseException) for r in results) == 1
            for result in results:
                if not isinstance(result, InteractionClosedError) and result is not None:
                    assert not isinstance(result, BaseException), deadlocks_of(postgres_url)
        await assert_sound(database_url)
