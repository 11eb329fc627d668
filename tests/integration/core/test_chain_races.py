"""Chains of runs under everything that may happen to them at once: nothing waits in a ring, nothing is left behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from rejoinder.contract.errors import RejoinderError
from rejoinder.contract.questions import AskRequest
from rejoinder.node import Node
from rejoinder.store.processes import ThisProcess
from rejoinder.store.questions import RunReference
from tests.integration.core.support import assert_sound, deadlocks_of
from tests.integration.nodes import ANN, BOB, running
from tests.support import MovableClock

ROUNDS = 6
TASKS = 16
ACTS = 25
DEEP = 3


class Chains:
    """Some chains of runs, each three deep and one of them waited for beside a question to a person."""

    def __init__(self, node: Node, clock: MovableClock, seed: int) -> None:
        self.node = node
        self.clock = clock
        self.random = random.Random(seed)
        self.runs: list[tuple[UUID, UUID, ThisProcess]] = []
        self.above: dict[UUID, UUID] = {}
        self.ids: list[UUID] = []

    async def begin(self) -> None:
        for _ in range(2):
            process = ThisProcess(self.node.database, "server")
            await process.join()
            for _ in range(3):
                await self.chain(process)

    async def chain(self, process: ThisProcess) -> None:
        above: UUID | None = None
        for _ in range(DEEP):
            identifier = uuid4()
            if above is None:
                await self.node.runs.begin(
                    identifier,
                    process.id,
                    tool="t",
                    arguments={},
                    door="test",
                    identity=ANN.name,
                    key_id=None,
                    idempotent=False,
                    trace=None,
                )
            else:
                await self.node.nested.start(
                    identifier,
                    self.reference(above, process),
                    tool="t",
                    arguments={},
                    idempotent=False,
                    checkpointed=False,
                    key_id=None,
                    trace=None,
                    deepest=32,
                )
                self.above[identifier] = above
            self.runs.append((identifier, uuid4(), process))
            above = identifier

    def reference(self, run_id: UUID, process: ThisProcess) -> RunReference:
        return RunReference(run_id, 1, "t", ANN.name, process.id, None)

    async def act(self) -> None:
        node, pick = self.node, self.random
        run_id, park_id, process = pick.choice(self.runs)
        identifier = pick.choice(self.ids) if self.ids else uuid4()
        some = pick.sample(self.ids, min(len(self.ids), 4))
        acts: list[tuple[int, Callable[[], Awaitable[Any]]]] = [
            (6, lambda: self.ask(run_id, park_id, process)),
            (6, lambda: self.wait(run_id, process)),
            (5, lambda: node.asks.answer(identifier, "x", by=BOB, via="test")),
            (2, lambda: node.asks.answer(identifier, "x", by=ANN, via="test", as_caller=True)),
            (2, lambda: node.asks.cancel(identifier, by=ANN, via="test")),
            (2, lambda: node.questions.close(some, "cancelled", by="test")),
            (3, lambda: node.deadlines.expire_batch()),
            (4, lambda: node.runs.seal(run_id, 1, park_id)),
            (2, lambda: node.runs.finish(run_id, 1, pick.choice(["succeeded", "failed"]))),
            (6, lambda: node.nested.settle(run_id)),
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

    async def wait(self, run_id: UUID, process: ThisProcess) -> None:
        above = self.above.get(run_id)
        if above is None:
            return
        park_id = next(park for one, park, _ in self.runs if one == above)
        identifier = uuid4()
        await self.node.nested.wait(
            identifier,
            self.reference(above, process),
            run_id,
            park_id=park_id,
            ordinal=0,
            group_id="g",
            question="waits",
            on_failure=self.random.choice(["kill", "resume"]),
            horizon=self.random.choice([0.05, 60]),
        )
        self.ids.append(identifier)

    async def ask(self, run_id: UUID, park_id: UUID, process: ThisProcess) -> None:
        identifier = uuid4()
        moment = await self.clock.now() + timedelta(seconds=self.random.choice([0.01, 0.05, 60]))
        to: Any = self.random.choice(["user", "caller"])
        await self.node.questions.record(
            identifier,
            self.reference(run_id, process),
            0,
            park_id,
            AskRequest(
                "?", "text", None, "g", "async", None, moment, self.random.choice(["kill", "resume"]),
                None, None, False, to=to,
            ),
            None,
            200,
        )  # fmt: skip
        self.ids.append(identifier)


@pytest.mark.timeout(120)
async def test_chains_never_wait_in_a_ring(database_url: str, postgres_url: str, clock: MovableClock) -> None:
    async with running(database_url, worker=True, rejoinder_database_pool=12) as node:
        for seed in range(ROUNDS):
            crowd = Chains(node, clock, seed)
            await crowd.begin()

            async def busy(crowd: Chains = crowd) -> None:
                for _ in range(ACTS):
                    await crowd.act()

            try:
                await asyncio.gather(*(busy() for _ in range(TASKS)))
            except asyncpg.DeadlockDetectedError:
                raise AssertionError(deadlocks_of(postgres_url)) from None
            for _, _, process in crowd.runs:
                await process.leave("over")
        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert await node.database.value(deadlocks) == 0, deadlocks_of(postgres_url)
        await assert_sound(database_url)
