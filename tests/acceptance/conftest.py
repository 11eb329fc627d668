"""Two servers and a worker on one database for each module, and what the tests ask of them over HTTP."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from tests.support import (
    MovableClock,
    Process,
    Processes,
    assert_eventually,
    client,
    execute,
    running_processes,
    wait_until,
)

MANIFEST = f"tools:\n  - module: {Path(__file__).with_name('tools_under_test.py')}\n"
#: Short, so that what waits for a death does not wait long.
SHORT = {
    "ACCESS_CONTROL_ENABLE": "false",
    "REJOINDER_BEAT_SECONDS": "0.3",
    "REJOINDER_STALE_SECONDS": "1",
    "REJOINDER_POLL_SECONDS": "0.5",
    "REJOINDER_JOB_HEARTBEAT_TIMEOUT_SECONDS": "2",
    "REJOINDER_RUN_RETRY_BASE_SECONDS": "0.1",
}
_numbers = itertools.count(1)


@dataclass
class Fleet:
    """What runs, and how to start more of it."""

    database_url: str
    processes: Processes
    manifest: Path
    servers: list[Process]
    worker: Process | None

    def start(self, command: str, **options: Any) -> Process:
        arguments = ["--manifest", str(self.manifest)]
        return self.processes.start(command, *arguments, database_url=self.database_url, env=SHORT, **options)

    async def alive(self, process: Process) -> bool:
        assert process.returncode is None, process.output()
        return bool(
            await self.value(
                "SELECT count(*) FROM rejoinder.process WHERE pid = $1 AND ended_at IS NULL", process.pid
            )
        )

    async def joined(self, process: Process) -> None:
        await assert_eventually(lambda: self.alive(process), "it did not start", 60)

    async def rows(self, query: str, *args: Any) -> list[Any]:
        connection = await asyncpg.connect(self.database_url)
        try:
            return list(await connection.fetch(query, *args))
        finally:
            await connection.close()

    async def value(self, query: str, *args: Any) -> Any:
        rows = await self.rows(query, *args)
        return rows[0][0] if rows else None

    async def start_run(self, tool: str, **arguments: Any) -> str:
        async with client(self.servers[0].url) as http:
            answer = await http.post("/api/tool-runs", json={"tool_name": tool, "arguments": arguments})
            assert answer.status_code == 202, answer.text
            return str(answer.json()["data"]["run_id"])

    async def call(self, server: Process, tool: str, **arguments: Any) -> Any:
        async with client(server.url, timeout=120) as http:
            return await http.post("/api/run-tool", json={"tool_name": tool, "arguments": arguments})

    async def answer(self, server: Process, question: str, value: Any = True) -> Any:
        async with client(server.url) as http:
            return await http.post(f"/api/interactions/{question}/answer", json={"answer": value})

    async def question_of(self, run_id: str) -> str:
        async def found() -> Any:
            return await self.value(
                "SELECT id::text FROM rejoinder.question WHERE run_id = $1::uuid AND state = 'pending'",
                run_id,
            )

        return str(await assert_eventually(found, "the run asked nothing", 30))

    async def new_question(self, known: set[str], count: int = 1) -> list[str]:
        async def found() -> Any:
            rows = await self.rows("SELECT id::text FROM rejoinder.question WHERE state = 'pending'")
            new = [r[0] for r in rows if r[0] not in known]
            return new if len(new) >= count else None

        return list(await assert_eventually(found, "nothing was asked", 30))

    async def state_of(self, run_id: str) -> Any:
        [row] = await self.rows(
            "SELECT state, held, result, error FROM rejoinder.run WHERE id = $1::uuid", run_id
        )
        return row

    async def reaches(self, run_id: str, *states: str) -> Any:
        async def reached() -> Any:
            row = await self.state_of(run_id)
            return row if row["state"] in states else None

        return await assert_eventually(reached, f"the run did not become {' or '.join(states)}", 40)

    async def effects(self, run_id: str) -> dict[str, int]:
        rows = await self.rows(
            "SELECT name, count(*) FROM effect WHERE run_id = $1::uuid GROUP BY name", run_id
        )
        return {r[0]: r[1] for r in rows}


@pytest.fixture(scope="module")
def fleet_database(postgres_url: str, template: str) -> Iterator[str]:
    name = f"{template}_fleet_{next(_numbers)}"
    url = urlunsplit(urlsplit(postgres_url)._replace(path=f"/{name}"))
    asyncio.run(execute(postgres_url, f"CREATE DATABASE {name} TEMPLATE {template}"))
    asyncio.run(execute(url, "CREATE TABLE effect (run_id uuid NOT NULL, name text NOT NULL)"))
    asyncio.run(MovableClock(url).install())
    yield url
    asyncio.run(execute(postgres_url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))


@pytest.fixture(scope="module")
def fleet(fleet_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    manifest = folder / "manifest.yaml"
    manifest.write_text(MANIFEST, encoding="utf-8")
    with running_processes(folder) as processes:
        made = Fleet(fleet_database, processes, manifest, [], None)
        made.servers = [made.start("serve"), made.start("serve")]
        made.worker = made.start("worker")
        for server in made.servers:
            wait_until(server.ready, "a server did not start", 60)
        worker = made.worker
        wait_until(lambda: asyncio.run(made.alive(worker)), "the worker did not start", 60)
        yield made
