"""A worker stops dead at any point of an agent's run, another one takes over, and the first one wakes.

The test plays the queue: it hands the same job to the second worker once the first one's process is buried. Waking the
first one afterwards is the paused machine that comes back: it may finish nothing, and no effect may be had twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from rejoinder.contract import pause
from rejoinder.contract.answers import AskAnswer, SuspendedInteraction
from rejoinder.node import Node
from rejoinder.runs.ask import ask
from rejoinder.runs.jobs import Jobs, Later
from rejoinder.runs.tools import Tool, tool
from rejoinder.store.database import Database
from tests.integration.agents.support import agent
from tests.integration.core.support import assert_sound, in_an_hour
from tests.integration.nodes import ANN, running
from tests.live.rig.model import Model, prompt, say
from tests.live.rig.model import tool as call
from tests.support import assert_eventually

effects: Counter[str] = Counter()
Play = Callable[[], Awaitable[None]]


def paying(idempotent: bool) -> Tool:
    @tool(name="pay", idempotent=idempotent)
    async def pay(what: str) -> SuspendedInteraction:
        """Charge, ask, and ship after the answer."""
        effects[f"charge {what}"] += 1
        return await ask(f"Ship {what}?", mode="async", expiry_at=in_an_hour())

    @pay.continuation
    async def _paid(ask_result: AskAnswer[str], arguments: dict[str, str]) -> str:
        effects[f"ship {arguments['what']}"] += 1
        return f"{arguments['what']}: {ask_result.answer}"

    return pay


class Stall:
    """Stops the first one who comes to a point (or, after ``passing`` others, the next) until it is woken; everybody
    after that passes."""

    def __init__(self, point: str, passing: int = 0) -> None:
        self.reached = asyncio.Event()
        self._woken = asyncio.Event()
        self._passing = passing
        pause.arm(point, self._act)

    async def _act(self) -> None:
        self._passing -= 1
        if self._passing < 0 and not self.reached.is_set():
            self.reached.set()
            await self._woken.wait()

    def wake(self) -> None:
        self._woken.set()


class Pair:
    """Two workers on one database."""

    def __init__(self, first: Node, second: Node, run_id: UUID) -> None:
        self.first, self.second, self.run_id = first, second, run_id
        self._jobs = [_jobs(first), _jobs(second)]

    async def start(self, which: int) -> None:
        await _played(lambda: self._jobs[which].run(self.run_id, 0))

    async def resume(self, which: int) -> None:
        [park] = await self.second.database.rows(
            "SELECT park_id FROM rejoinder.resume WHERE run_id = $1 ORDER BY created_at DESC LIMIT 1",
            self.run_id,
        )
        await _played(lambda: self._jobs[which].resume(park["park_id"], 0))

    async def stalled_then_taken_over(
        self,
        point: str,
        play: Callable[[int], Awaitable[None]],
        passing: int = 0,
        *,
        beside: str | None = None,
    ) -> None:
        """``beside`` is where the same worker stands at that moment with something else: checkpoints are written
        beside the steps, and a worker that stops stops with both."""
        stalls = [Stall(point, passing), *([Stall(beside)] if beside else [])]
        stuck = asyncio.ensure_future(play(0))
        for stall in stalls:
            await asyncio.wait_for(stall.reached.wait(), 30)
        await self.first.process.leave("taken for dead")
        await play(1)
        written = await self.written()
        for stall in stalls:
            stall.wake()
        await asyncio.wait_for(stuck, 30)
        assert await self.written() == written, "a worker that no longer drove the run wrote a checkpoint"

    async def written(self) -> tuple[int, ...]:
        """How many rows of each kind the checkpointer has written; nothing where they are kept elsewhere."""
        if (
            await self.second.database.value("SELECT to_regclass('rejoinder_checkpoints.checkpoints')")
            is None
        ):
            return ()
        [row] = await self.second.database.rows(
            """
            SELECT (SELECT count(*) FROM rejoinder_checkpoints.checkpoints),
                   (SELECT count(*) FROM rejoinder_checkpoints.checkpoint_writes),
                   (SELECT count(*) FROM rejoinder_checkpoints.checkpoint_blobs)
            """
        )
        return tuple(row)

    async def answer(self) -> None:
        for one in await self.second.questions.of_run(self.run_id):
            if one.state == "pending":
                await self.second.asks.answer(one.id, "yes", by=ANN, via="test")

    async def retried(self, play: Callable[[int], Awaitable[None]]) -> bool:
        """Whether the first worker was inside of code that may not run twice, beside where it was stopped."""
        if await self.state() != ("failed", True, "run-interrupted"):
            return False
        await self.second.run_service.retry(self.run_id, by=ANN)
        await play(1)
        return True

    async def result(self) -> Any:
        run = await self.second.runs.by_id(self.run_id)
        assert run is not None
        return run.result

    async def state(self) -> tuple[str, bool, str | None]:
        run = await self.second.runs.by_id(self.run_id)
        assert run is not None
        return run.state, run.held, (run.error or {}).get("code")


def _has_beaten(node: Node) -> bool:
    return node.process._beat_at > 0


def _jobs(node: Node) -> Jobs:
    return Jobs(
        node.runs,
        node.questions,
        node.asks,
        node.registry,
        node.signals,
        node.process,
        node.access,
        node.settings,
        node.agents,
        node.nested,
    )


async def _played(act: Play) -> None:
    """Play a job until it does not come back; one that was another's by then comes back once and finds that."""
    for _ in range(3):
        with suppress(Later):
            await act()
            return


@asynccontextmanager
async def two(url: str, pay: Tool) -> AsyncIterator[Pair]:
    effects.clear()
    said = prompt(say(tools=[call("pay", what="a")]), say("Done."))
    settings: dict[str, Any] = {"rejoinder_beat_seconds": 3600, "rejoinder_stale_seconds": 3600}
    async with running(url, agent(pay), **settings) as first, running(url, agent(pay), **settings) as second:
        # Neither judges the other: the test does.
        for node in (first, second):
            await assert_eventually(partial(_has_beaten, node))
            node.process._steady_since = -1e9
        run_id = await first.run_service.start_background("helper", {"message": said}, by=ANN)
        yield Pair(first, second, run_id)


BEFORE = ("run.entered", "step.entered", "ask.recorded", "step.returned", "step.recorded", "agent.stopped")
AFTER = (
    "resume.entered",
    "step.entered",
    "step.returned",
    "step.recorded",
    "agent.stopped",
    "resume.returned",
)
#: Code that may not run twice had been entered and not ended.
INSIDE = {"step.entered", "ask.recorded", "step.returned"}


def _cases(*points: str) -> list[tuple[str, bool]]:
    # Outside of the code it makes no difference whether that may run twice.
    return [(point, may) for point in points for may in ([False, True] if point in INSIDE else [False])]


@pytest.mark.parametrize(("point", "idempotent"), _cases(*BEFORE, "run.returned", "park.sealed"))
async def test_taken_over_while_it_starts(
    database_url: str, database: Database, model: Model, point: str, idempotent: bool
) -> None:
    async with two(database_url, paying(idempotent)) as pair:
        await pair.stalled_then_taken_over(point, pair.start)
        if point in INSIDE and not idempotent:
            assert await pair.state() == ("failed", True, "run-interrupted")
            assert max(effects.values()) == 1
            await pair.second.run_service.retry(pair.run_id, by=ANN)
            await pair.start(1)
        assert await pair.state() == ("parked", False, None)
        questions = await pair.second.questions.of_run(pair.run_id)
        assert [q.question for q in questions if q.state == "pending"] == ["Ship a?"]
        await pair.answer()
        await pair.resume(1)
        assert await pair.state() == ("succeeded", False, None)
    if point not in INSIDE:
        assert effects == {"charge a": 1, "ship a": 1}
        assert len(questions) == 1
    await assert_sound(database_url)


@pytest.mark.parametrize(("point", "idempotent"), _cases(*AFTER, "run.finished"))
async def test_taken_over_while_it_goes_on(
    database_url: str, database: Database, model: Model, point: str, idempotent: bool
) -> None:
    async with two(database_url, paying(idempotent)) as pair:
        await pair.start(0)
        assert await pair.state() == ("parked", False, None)
        await pair.answer()
        await pair.stalled_then_taken_over(point, pair.resume)
        if point in INSIDE and not idempotent:
            assert await pair.state() == ("failed", True, "run-interrupted")
            assert max(effects.values()) == 1
            await pair.second.run_service.retry(pair.run_id, by=ANN)
            await pair.resume(1)
        assert await pair.state() == ("succeeded", False, None)
    assert effects["charge a"] == 1
    assert effects["ship a"] == 1 or point in INSIDE
    assert model.asked[-1].body["messages"][-1]["content"] == "a: yes"
    await assert_sound(database_url)


@pytest.mark.parametrize("phase", ["start", "resume"])
async def test_whoever_finds_it_interrupted_may_die_of_it(
    database_url: str, database: Database, model: Model, phase: str
) -> None:
    """Before it has written the run's end. The next one finds the same, and does not enter the code."""
    async with two(database_url, paying(False)) as pair:
        play = pair.start if phase == "start" else pair.resume
        if phase == "resume":
            await pair.start(0)
            await pair.answer()
        inside = Stall("step.entered", 0)
        first = asyncio.ensure_future(play(0))
        await asyncio.wait_for(inside.reached.wait(), 30)
        await pair.first.process.leave("taken for dead")
        # The second one has seen it, and is taken for dead as well; the first one's machine has a new process by now.
        seen = Stall("step.interrupted", 0)
        second = asyncio.ensure_future(play(1))
        await asyncio.wait_for(seen.reached.wait(), 30)
        await pair.second.process.leave("taken for dead")
        for node in (pair.first, pair.second):
            node.process.renew()
            await node.process.join()
        await play(0)
        assert await pair.state() == ("failed", True, "run-interrupted")
        inside.wake()
        seen.wake()
        await asyncio.wait_for(asyncio.gather(first, second), 30)
        assert await pair.state() == ("failed", True, "run-interrupted")
        entered = "charge a" if phase == "start" else "ship a"
        assert effects[entered] <= 1
        # An operator has looked what it had done.
        await pair.second.run_service.retry(pair.run_id, by=ANN)
        await play(1)
        if phase == "start":
            await pair.answer()
            await pair.resume(1)
        assert await pair.state() == ("succeeded", False, None)
    await assert_sound(database_url)


@pytest.mark.parametrize("written", range(6))
async def test_taken_over_before_any_write_of_a_checkpoint_while_it_starts(
    database_url: str, database: Database, model: Model, written: int
) -> None:
    """What was written says how far the run is; what the first worker would have written next must not count."""
    async with two(database_url, paying(False)) as pair:
        await pair.stalled_then_taken_over("checkpoint.writing", pair.start, written)
        retried = await pair.retried(pair.start)
        assert await pair.state() == ("parked", False, None)
        await pair.answer()
        await pair.resume(1)
        assert await pair.state() == ("succeeded", False, None)
        assert await pair.result() == "Done."
    assert effects["ship a"] == 1
    assert effects["charge a"] <= 1 + retried
    await assert_sound(database_url)


@pytest.mark.parametrize("written", range(4))
async def test_taken_over_before_any_write_of_a_checkpoint_while_it_goes_on(
    database_url: str, database: Database, model: Model, written: int
) -> None:
    async with two(database_url, paying(False)) as pair:
        await pair.start(0)
        await pair.answer()
        await pair.stalled_then_taken_over("checkpoint.writing", pair.resume, written)
        retried = await pair.retried(pair.resume)
        assert await pair.state() == ("succeeded", False, None)
        assert await pair.result() == "Done."
    assert effects["charge a"] == 1
    assert effects["ship a"] <= 1 + retried
    await assert_sound(database_url)


@pytest.mark.parametrize("written", range(6))
async def test_a_write_of_a_checkpoint_that_fails_is_no_loss(
    database_url: str, database: Database, model: Model, written: int
) -> None:
    """The connection is lost under one write while the others would succeed: nothing may build on what is not there."""
    passing = [written]

    async def lose_once() -> None:
        passing[0] -= 1
        if passing[0] == -1:
            await database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'rejoinder-checkpoints' AND datname = current_database()"
            )

    async with two(database_url, paying(False)) as pair:
        pause.arm("checkpoint.writing", lose_once)
        await pair.start(0)
        retried = await pair.retried(pair.start)
        assert (await pair.state())[:2] == ("parked", False)
        await pair.answer()
        await pair.resume(1)
        assert await pair.result() == "Done."
    assert effects["charge a"] <= 1 + retried
    assert effects["ship a"] == 1
    await assert_sound(database_url)
