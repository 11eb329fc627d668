"""What agents cost that wait for people: memory of the processes, disk and rows of the database."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

from bench.client import expect
from bench.copies import copy_parked
from bench.desk import Desk, lanes
from bench.lines import Line
from bench.machine import Bed, resident_kib, worker_ready
from bench.rows import agents
from bench.rows.parking import LANES

#: Tables that hold something of a parked run, with their indexes; each after those that it refers to.
TABLES = (
    "rejoinder.run",
    "rejoinder.park",
    "rejoinder.question",
    "rejoinder.step",
    "rejoinder.event",
    "rejoinder_checkpoints.checkpoints",
    "rejoinder_checkpoints.checkpoint_blobs",
    "rejoinder_checkpoints.checkpoint_writes",
)


async def measure(bed: Bed) -> list[Line]:
    count = bed.parked or bed.size(2000, 200)
    # As many as are asked for may be open, and be started by one worker.
    wide = {"INTERACTIONS_MAX_CONCURRENT": "none", "TAI_TOOL_RUNS_MAX_CONCURRENT_RUNS": "256"}
    async with (
        bed.database() as url,
        bed.server(url, **wide) as (server, key),
        Desk.at(server.port, key) as desk,
    ):
        with bed.process("worker", url, **wide) as worker:
            await worker_ready(url)
            await _park(desk, url, "warm", 50)
            before = resident_kib(server.pid), resident_kib(worker.pid), await _sizes(url)
            await _park(desk, url, "parked", count)
            after = resident_kib(server.pid), resident_kib(worker.pid), await _sizes(url)
    grown = {
        name: tuple(a - b for a, b in zip(after[2][name], before[2][name], strict=True)) for name in TABLES
    }
    disk = sum(size for size, _ in grown.values()) / count / 1024
    rows = sum(number for _, number in grown.values()) / count
    return [
        Line(
            f"memory for each of {count:,} agents that are parked: server / worker (KiB)",
            f"{(after[0] - before[0]) / count:.2f} / {(after[1] - before[1]) / count:.2f}",
            raw={"before_kib": before[:2], "after_kib": after[:2]},
        ),
        Line(
            f"database for each of {count:,} agents that are parked: KiB with indexes / rows",
            f"{disk:.1f} / {rows:.1f}",
            raw=grown,
        ),
        await _many(bed),
    ]


async def _many(bed: Bed) -> Line:
    """What the processes hold beside very many parked agents, while some are answered and go on."""
    count, some = bed.size(100_000, 5_000), bed.size(200, 40)
    rounds = [[f"round-{number}-{i}" for i in range(some)] for number in range(3)]
    held = []
    async with (
        bed.database() as url,
        bed.server(url) as (server, key),
        Desk.at(server.port, key) as desk,
    ):
        with bed.process("worker", url) as worker:
            await worker_ready(url)
            for number, names in enumerate(rounds):
                if number == 2:
                    await _park(desk, url, "left", 1)
                    await copy_parked(url, await _left(url), TABLES, 1, count)
                questions = await agents.park(desk, url, names)
                # A new one each round: while the rows were copied, the server closed it.
                (person,) = await desk.connections(1)
                await agents.answer(desk, person, questions, names, 0)
                await agents.resumed(url, f"round-{number}-", some)
                held.append((resident_kib(server.pid), resident_kib(worker.pid)))
    few, most = held[1:]
    grown = [(a - b) * 1024 / count for a, b in zip(most, few, strict=True)]
    return Line(
        f"beside {count:,} parked agents (copies of one's rows), when {some} more were answered: server / worker (MiB), and"
        " bytes for each parked one",
        f"{most[0] / 1024:.0f} / {most[1] / 1024:.0f}, {grown[0]:.0f} / {grown[1]:.0f}",
        "no memory",
        max(grown) < 100 if count == 100_000 else None,
        raw={"resident_kib": held},
    )


async def _left(url: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        query = "SELECT id FROM rejoinder.run WHERE arguments ->> 'message' = 'left-0' AND tool = 'parker'"
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def _park(desk: Desk, url: str, name: str, count: int) -> None:
    starters = await desk.connections(LANES)

    async def start(i: int) -> None:
        starter = starters.pop()
        while True:
            body = {"tool_name": "parker", "arguments": {"message": f"{name}-{i}"}}
            reply = await starter.post("/api/tool-runs", body)
            if reply.status not in (429, 503):
                expect(reply, 202)
                break
            await asyncio.sleep(0.02)
        starters.append(starter)

    await lanes(LANES, start, count)
    connection = await asyncpg.connect(url)
    query = (
        "SELECT count(*) FILTER (WHERE state = 'parked') AS parked, count(*) FILTER (WHERE state = 'failed') AS failed"
        " FROM rejoinder.run WHERE arguments ->> 'message' LIKE $1"
    )
    try:
        parked = 0
        while parked < count:
            [(parked, failed)] = await connection.fetch(query, f"{name}-%")
            if failed:
                raise RuntimeError(f"{failed} agents failed in the place of parking")
            await asyncio.sleep(0.2)
    finally:
        await connection.close()


async def _sizes(url: str) -> dict[str, Any]:
    """``(bytes with indexes, rows)`` of each table, after what is no longer needed was cleaned away."""
    connection = await asyncpg.connect(url)
    try:
        found = {}
        for name in TABLES:
            await connection.execute(f"VACUUM {name}")
            size = await connection.fetchval("SELECT pg_total_relation_size($1::text::regclass)", name)
            found[name] = size, await connection.fetchval(f"SELECT count(*) FROM {name}")
        return found
    finally:
        await connection.close()
