"""A worker that is paused keeps its connections, and what was locked over them, until the server gives that up."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from rejoinder.node import Node
from rejoinder.runs.jobs import Later
from rejoinder.store.database import Database
from rejoinder.store.processes import ThisProcess
from tests.integration.agents.support import agent
from tests.integration.agents.test_deaths import Stall, _jobs, _played, effects, paying, two
from tests.integration.core.support import assert_sound
from tests.integration.core.test_judging import _driven_by
from tests.integration.nodes import ANN, running
from tests.live.rig.model import Model, prompt, say
from tests.live.rig.model import tool as call
from tests.support import assert_eventually

#: It is silent from its first beat on.
SILENT: dict[str, Any] = {"rejoinder_beat_seconds": 3600, "rejoinder_statement_timeout_seconds": 3}
JUDGES: dict[str, Any] = {
    "rejoinder_beat_seconds": 0.1,
    "rejoinder_stale_seconds": 1,
    "rejoinder_half_open_seconds": 2,
}


async def found_dead(database: Database, process: ThisProcess) -> bool:
    reason = await database.value("SELECT end_reason FROM rejoinder.process WHERE id = $1", process.id)
    return bool(reason == "found dead")


@pytest.mark.parametrize("written", [0, 2])
async def test_a_worker_that_is_paused_inside_a_checkpoints_write_is_found_dead(
    database_url: str, database: Database, model: Model, written: int
) -> None:
    effects.clear()
    pay = paying(False)
    said = prompt(say(tools=[call("pay", what="a")]), say("Done."))
    async with running(database_url, agent(pay), **SILENT) as first:
        run_id = await first.run_service.start_background("helper", {"message": said}, by=ANN)
        stall = Stall("checkpoint.held", written)
        stuck = asyncio.ensure_future(_played(lambda: _jobs(first).run(run_id, 0)))
        await asyncio.wait_for(stall.reached.wait(), 30)
        async with running(database_url, agent(pay), **JUDGES) as second:
            await assert_eventually(
                lambda: found_dead(database, first.process), "a paused worker is not found dead"
            )
            await _played(lambda: _jobs(second).run(run_id, 0))
            assert await state_of(second, run_id) == "parked"
            stall.wake()
            await asyncio.wait_for(stuck, 30)
            assert await state_of(second, run_id) == "parked"
    assert effects == {"charge a": 1}
    await assert_sound(database_url)


async def test_a_worker_whose_clock_is_behind_does_nothing_that_would_be_forgotten(
    database_url: str, database: Database, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    from langgraph.checkpoint.base import id as ids

    pay = paying(False)
    async with two(database_url, pay) as pair:
        said = prompt(say(tools=[call("pay", what="a")]), say(tools=[call("pay", what="b")]), say("Done."))
        pair.run_id = await pair.first.run_service.start_background("helper", {"message": said}, by=ANN)
        await pair.start(0)
        await pair.answer()
        park = await database.value("SELECT park_id FROM rejoinder.resume WHERE run_id = $1", pair.run_id)

        async def once() -> None:
            with suppress(Later):
                await _jobs(pair.first).resume(park, 0)

        with monkeypatch.context() as patched:
            # As on another machine, which knows nothing of the ids that were made here.
            patched.setattr(ids, "_last_v6_timestamp", None)
            patched.setattr(ids, "time", SimpleNamespace(time_ns=lambda: time.time_ns() - 3600 * 10**9))
            stall = Stall("agent.stopped", 0)
            stuck = asyncio.ensure_future(once())
            reached = asyncio.ensure_future(stall.reached.wait())
            await asyncio.wait({stuck, reached}, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        ids._last_v6_timestamp = None
        if stuck.done():
            # It was refused long before that point.
            stall.wake()
        await pair.first.process.leave("taken for dead")
        await pair.resume(1)
        stall.wake()
        await asyncio.gather(stuck, return_exceptions=True)
        reached.cancel()
        await pair.answer()
        await pair.resume(1)
        assert await pair.result() == "Done."
    assert effects == {"charge a": 1, "ship a": 1, "charge b": 1, "ship b": 1}
    await assert_sound(database_url)


async def state_of(node: Node, run_id: UUID) -> str:
    run = await node.runs.by_id(run_id)
    assert run is not None
    return run.state


async def test_a_process_beats_while_a_burial_waits_for_what_the_dead_one_holds(
    database_url: str, database: Database
) -> None:
    async with running(database_url, **JUDGES) as node:
        other = ThisProcess(database, "worker")
        await other.join()
        run_id = await _driven_by(other, database)
        async with database.transaction() as held:
            await held.execute("SELECT FROM rejoinder.run WHERE id = $1 FOR SHARE", run_id)
            await assert_eventually(
                lambda: database.value(
                    "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() "
                    "AND wait_event_type = 'Lock' AND query LIKE '%bury_dead%'"
                ),
                "no burial waits",
            )
            for _ in range(3):
                before = await beat_at(database, node)

                async def moved(before: datetime = before) -> bool:
                    return await beat_at(database, node) > before

                await assert_eventually(moved, "it does not beat while a burial waits")
        await assert_eventually(lambda: found_dead(database, other), "the dead one is not found")


async def beat_at(database: Database, node: Node) -> datetime:
    at: datetime = await database.value(
        "SELECT beat_at FROM rejoinder.process WHERE id = $1", node.process.id
    )
    return at
