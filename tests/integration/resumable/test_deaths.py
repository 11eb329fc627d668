"""A worker stops dead at any point of a resumable run, another one takes over, and the first one wakes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from rejoinder import current_run, step, tool
from rejoinder.contract import pause
from rejoinder.runs.tools import Tool
from rejoinder.store.database import Database
from tests.integration.agents.test_deaths import Pair, _has_beaten
from tests.integration.core.support import assert_sound
from tests.integration.nodes import ANN, running
from tests.integration.resumable.test_once import sure
from tests.support import assert_eventually

effects: Counter[str] = Counter()
keys: set[str] = set()


def paying(once: bool) -> Tool:
    @step(once=once)
    async def charge() -> str:
        effects["charge"] += 1
        keys.add(str(current_run().idempotency_key))
        return "charged"

    @step(once=once)
    async def ship() -> str:
        effects["ship"] += 1
        return "shipped"

    @tool(resumable=True)
    async def pay() -> Any:
        charged = await charge()
        said = await asyncio.gather(sure("Ship?"), sure("Really?"))
        return [charged, *said, await ship()]

    return pay


@asynccontextmanager
async def two(url: str, pay: Tool, **more: Any) -> AsyncIterator[Pair]:
    effects.clear()
    keys.clear()
    settings: dict[str, Any] = {"rejoinder_beat_seconds": 3600, "rejoinder_stale_seconds": 3600, **more}
    async with running(url, pay, **settings) as first, running(url, pay, **settings) as second:
        # Neither judges the other: the test does.
        for node in (first, second):
            await assert_eventually(partial(_has_beaten, node))
            node.process._steady_since = -1e9
        run_id = await first.run_service.start_background("pay", {}, by=ANN)
        yield Pair(first, second, run_id)


async def yes(pair: Pair) -> None:
    for one in await pair.second.questions.of_run(pair.run_id):
        if one.state == "pending":
            await pair.second.asks.answer(one.id, True, by=ANN, via="test")


#: A step had been entered and not ended: the worker that wakes goes on in it.
INSIDE = {"step.entered", "step.returned", "checkpoint.writing beside step.returned"}
BEFORE = (
    "run.entered",
    "step.entered",
    "step.returned",
    "step.recorded",
    "ask.recorded",
    "agent.stopped",
    "run.returned",
    "park.sealed",
    # The first checkpoint is written while the first step runs; one of a resumption is written after its last.
    "checkpoint.writing beside step.returned",
    "checkpoint.writing beside step.recorded",
)
AFTER = (
    "resume.entered",
    "step.entered",
    "step.returned",
    "step.recorded",
    "agent.stopped",
    "resume.returned",
    "run.finished",
    "checkpoint.writing",
)


def _cases(*points: str) -> list[tuple[str, bool]]:
    return [(point, once) for point in points for once in ([False, True] if point in INSIDE else [False])]


async def _stalled(pair: Pair, where: str, play: Any) -> None:
    point, _, beside = where.partition(" beside ")
    await pair.stalled_then_taken_over(point, play, beside=beside or None)


async def _looked_at(pair: Pair, play: Any) -> None:
    """A step that may not run twice is an operator's to look at."""
    assert await pair.state() == ("failed", True, "run-interrupted")
    assert max(effects.values(), default=0) <= 1
    await pair.second.run_service.retry(pair.run_id, by=ANN)
    await play(1)


@pytest.mark.parametrize(("point", "once"), _cases(*BEFORE))
async def test_taken_over_while_it_starts(database_url: str, point: str, once: bool) -> None:
    async with two(database_url, paying(once)) as pair:
        await _stalled(pair, point, pair.start)
        if once:
            await _looked_at(pair, pair.start)
        assert await pair.state() == ("parked", False, None)
        asked = await pair.second.questions.of_run(pair.run_id)
        assert sorted(q.question for q in asked if q.state == "pending") == ["Really?", "Ship?"]
        await yes(pair)
        await pair.resume(1)
        assert await pair.state() == ("succeeded", False, None)
        assert await pair.result() == ["charged", True, True, "shipped"]
    assert effects["ship"] == 1
    assert effects["charge"] == (2 if point in INSIDE else 1)
    # Tried again, it is known by the same key.
    assert len(keys) == 1
    await assert_sound(database_url)


@pytest.mark.parametrize(("point", "once"), _cases(*AFTER))
async def test_taken_over_while_it_goes_on(database_url: str, point: str, once: bool) -> None:
    async with two(database_url, paying(once)) as pair:
        await pair.start(0)
        assert await pair.state() == ("parked", False, None)
        await yes(pair)
        await _stalled(pair, point, pair.resume)
        if once:
            await _looked_at(pair, pair.resume)
        assert await pair.state() == ("succeeded", False, None)
        assert await pair.result() == ["charged", True, True, "shipped"]
    assert effects["charge"] == 1
    assert effects["ship"] == (2 if point in INSIDE else 1)
    await assert_sound(database_url)


@pytest.mark.parametrize("written", range(3))
async def test_a_write_of_a_checkpoint_that_fails_is_no_loss(
    database_url: str, database: Database, written: int
) -> None:
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
        if (await pair.state())[0] == "running":
            await pair.start(0)
        assert (await pair.state())[:2] == ("parked", False)
        await yes(pair)
        await pair.resume(1)
        assert await pair.result() == ["charged", True, True, "shipped"]
    assert effects == {"charge": 1, "ship": 1}
    await assert_sound(database_url)


async def test_two_workers_that_are_given_the_same_resumption_do_it_once(database_url: str) -> None:
    async with two(database_url, paying(False)) as pair:
        await pair.start(0)
        await yes(pair)
        await asyncio.gather(pair.resume(0), pair.resume(1))
        assert await pair.result() == ["charged", True, True, "shipped"]
    assert effects == {"charge": 1, "ship": 1}
    await assert_sound(database_url)
