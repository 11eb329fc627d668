"""Who may find another process dead: one that has seen the database steadily while the other's beats failed to come.

Where the database was away, everybody's beats are old and nobody's session lock is held. Who comes back first must not
take the others for dead.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from rejoinder.contract.errors import NotReadyError
from rejoinder.node import Node
from rejoinder.runs.context import current_run
from rejoinder.runs.jobs import Later
from rejoinder.runs.tools import tool
from rejoinder.store.database import Database
from rejoinder.store.processes import ThisProcess
from tests.integration.core.support import assert_sound, run_reaches
from tests.integration.nodes import ANN, running
from tests.support import assert_eventually

SHORT: dict[str, Any] = {"rejoinder_stale_seconds": 0.6, "rejoinder_beat_seconds": 0.1}


async def _two_beats(node: Node, database: Database) -> None:
    async def beat_at() -> datetime:
        at: datetime = await database.value(
            "SELECT beat_at FROM rejoinder.process WHERE id = $1", node.process.id
        )
        return at

    for _ in range(2):
        before = await beat_at()

        async def moved(before: datetime = before) -> bool:
            return await beat_at() > before

        await assert_eventually(moved, "the process does not beat")


async def _stale(other: ThisProcess, database: Database) -> None:
    await assert_eventually(
        lambda: database.value(
            "SELECT beat_at < clock_timestamp() - interval '1 s' FROM rejoinder.process WHERE id = $1",
            other.id,
        ),
        "its beat does not age",
    )


async def test_a_process_that_comes_back_first_takes_no_other_for_dead(
    database_url: str, database: Database
) -> None:
    async with running(database_url, **SHORT) as node:
        await assert_eventually(lambda: node.process.may_judge, "it never may judge")
        other = ThisProcess(database, "server")
        await other.join()
        await node.database.close()
        await _stale(other, database)
        await node.database.open()
        await _two_beats(node, database)
        assert await other.beat(), "a process that was cut off as well was taken for dead"
        # One that does not come back is found all the same.
        await assert_eventually(
            lambda: database.value("SELECT end_reason FROM rejoinder.process WHERE id = $1", other.id),
            "a dead process is not found",
        )


async def test_a_worker_that_comes_back_first_takes_no_run_from_one_that_was_cut_off_too(
    database_url: str, database: Database
) -> None:
    attempts: list[int] = []

    @tool
    async def once() -> str:
        attempts.append(current_run().attempt)
        return "done"

    async with running(database_url, once, worker=True, **SHORT) as node:
        await assert_eventually(lambda: node.process.may_judge, "it never may judge")
        other = ThisProcess(database, "worker")
        await other.join()
        await database.execute("UPDATE rejoinder.process SET lock_key = $2 WHERE id = $1", other.id, 42)
        async with database.transaction() as held:
            await held.execute("SELECT pg_advisory_xact_lock(42)")
            await node.database.close()
            run_id = await _driven_by(other, database)
            await _stale(other, database)
            await node.database.open()
            await _two_beats(node, database)
            assert node.worker is not None
            with pytest.raises(Later):
                await node.worker._jobs.run(run_id, 0)
            run = await node.run_service.get(run_id, by=ANN)
            assert (run.state, run.held) == ("running", False)
            assert await other.beat()
        await other.leave("stopped")
        await run_reaches(node, run_id, "lost")
        assert attempts == []
        await assert_sound(database_url)


async def _driven_by(other: ThisProcess, database: Database) -> Any:
    """A run that the other process has entered, with its job in the queue as if its heartbeat were missing."""
    from uuid import uuid4

    from rejoinder.store.runs import Runs

    runs, run_id = Runs(database), uuid4()
    await runs.start(
        run_id,
        tool="once",
        arguments={},
        door="tool-runs",
        identity="ann",
        key_id=None,
        idempotent=False,
        trace=None,
    )
    status, _ = await runs.enter(run_id, None, other.id, uuid4(), 9, 60)
    assert status == "entered"
    return run_id


async def test_a_process_that_was_itself_paused_judges_nobody_at_once(database: Database) -> None:
    process = ThisProcess(database, "server", stale=0.2)
    await process.join()
    assert not process.may_judge

    async def steady() -> bool:
        await process.beat()
        return process.may_judge

    await assert_eventually(steady, "it never may judge")
    await assert_eventually(lambda: not process.may_judge, "it judges without beating")
    await process.beat()
    assert not process.may_judge
    await assert_eventually(steady, "it never may judge again")
    await database.close()
    with pytest.raises(NotReadyError):
        await process.beat()
    await database.open()
    await asyncio.gather(process.beat(), process.beat())
    assert not process.may_judge
