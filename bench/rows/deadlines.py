"""Many deadlines in one second, each with a park to complete and a run to resume, while people answer other questions."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import asyncpg

from bench import load
from bench.client import expect
from bench.desk import Desk
from bench.lines import Line, ms
from bench.machine import Bed
from bench.stats import spread

LANES = 4
PER_SECOND = 200
#: The clock that deadlines are read by is the database's, and one function: moved on, they are all due at once.
MOVED = "CREATE OR REPLACE FUNCTION rejoinder.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp() + interval ''2 hours'''"


async def measure(bed: Bed) -> list[Line]:
    count = bed.size(100_000, 20_000)
    async with bed.database() as url, bed.server(url) as (server, key):
        await load.parked(url, 1, count, timedelta(hours=1))
        await load.parked(url, 10_000_001, 10_000_000 + 6_000, timedelta(hours=10))
        connection = await asyncpg.connect(url)
        try:
            spare = [
                row["id"]
                for row in await connection.fetch(
                    "SELECT id::text FROM rejoinder.question WHERE timeout_at > rejoinder.clock() + interval '5 hours'"
                )
            ]
            async with Desk.at(server.port, key) as desk:
                before = await _answering(desk, spare, asyncio.create_task(asyncio.sleep(bed.size(3, 1))))
                await connection.execute(MOVED)
                during = await _answering(desk, spare, asyncio.create_task(_all_lapsed(connection, count)))
            counted = await connection.fetchrow(
                "SELECT EXTRACT(EPOCH FROM max(closed_at) - min(closed_at))::float8 AS took, count(*) AS lapsed"
                " FROM rejoinder.question WHERE state = 'expired'"
            )
            assert counted is not None
            took, lapsed = counted["took"], counted["lapsed"]
            jobs = await connection.fetchval("SELECT count(*) FROM rejoinder.resume")
        finally:
            await connection.close()
    rate = lapsed / took
    raw: dict[str, Any] = {
        "lapsed": lapsed, "took_s": round(took, 2), "resumptions": jobs, "before": spread(before), "during": spread(during)
    }  # fmt: skip
    return [
        Line(
            f"{count:,} deadlines in one second: lapsed with park and job, each second",
            f"{rate:,.0f}",
            "≥ 10,000/s",
            rate >= 10_000 and lapsed == count,
            raw=raw,
        ),
        Line(
            f"answers meanwhile, {PER_SECOND}/s wanted (ms, p99; before: {ms(raw['before']['p99'])})",
            ms(raw["during"]["p99"]),
            "p99 < 30",
            raw["during"]["p99"] < 30,
        ),
    ]


async def _all_lapsed(connection: Any, count: int) -> None:
    while (
        await connection.fetchval("SELECT count(*) FROM rejoinder.question WHERE state = 'expired'") < count
    ):
        await asyncio.sleep(0.25)


async def _answering(desk: Desk, spare: list[str], until: asyncio.Task[None]) -> list[float]:
    """Answer questions from ``spare`` at a steady rate until the task is done; the seconds that each took."""
    took: list[float] = []
    people = await desk.connections(LANES)

    async def lane(person: Any) -> None:
        due = time.perf_counter()
        while not until.done() and spare:
            began = time.perf_counter()
            took.append(expect(await desk.answer(person, spare.pop())).at - began)
            due = max(due + LANES / PER_SECOND, time.perf_counter() - 1)
            await asyncio.sleep(max(0, due - time.perf_counter()))

    await asyncio.gather(*(lane(person) for person in people))
    await until
    return took
