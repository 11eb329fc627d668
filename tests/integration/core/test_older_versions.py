"""Servers of a version before work beside new ones while they are replaced one by one."""

from __future__ import annotations

from itertools import product
from uuid import UUID, uuid4

import pytest

from rejoinder.store.database import Database
from rejoinder.store.processes import ThisProcess


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
async def test_whoever_finds_a_worker_dead_leaves_its_runs_to_the_queue(
    database: Database, version: str
) -> None:
    process = ThisProcess(database, "worker")
    await process.join()
    runs: dict[tuple[str, bool], UUID] = {
        case: uuid4() for case in product(("tool-runs", "hooks", "schedules", "run-tool"), (True, False))
    }
    for (door, idempotent), identifier in runs.items():
        await database.execute(
            "INSERT INTO rejoinder.run (id, tool, arguments, door, state, identity, idempotent, owner_process) "
            "VALUES ($1, 'sweep', '{}', $2, 'running', 'ann', $3, $4)",
            identifier,
            door,
            idempotent,
            process.id,
        )
    await database.execute(f"SELECT rejoinder.end_process_{version}($1, 'found dead')", process.id)
    for (door, idempotent), identifier in runs.items():
        row = await database.row(
            "SELECT state, held, EXISTS (SELECT FROM rejoinder.pgqueuer WHERE payload = convert_to($1::uuid::text, 'UTF8')) "
            "  FROM rejoinder.run WHERE id = $1",
            identifier,
        )
        assert row is not None
        queued = door != "run-tool"
        # Code that may not begin again is held for an operator.
        expected = ("running", False, True) if queued and idempotent else ("lost", queued, False)
        assert tuple(row) == expected, (door, idempotent)
