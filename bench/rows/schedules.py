"""Many schedules due in one moment: each turn is a slot, a run, its event and its job, and the schedule's next moment."""

from __future__ import annotations

import time
from typing import Any

from pgqueuer.adapters.drivers.asyncpg import AsyncpgPoolDriver

from bench.lines import Line
from bench.machine import Bed
from rejoinder.contract.settings import Settings
from rejoinder.node import Node
from rejoinder.runs.manifest import Exposed, Registry
from rejoinder.runs.tools import Tool
from rejoinder.schedules.ticker import BATCH
from rejoinder.store.database import Database
from rejoinder.store.queue import START, queue_queries

FILL = """
INSERT INTO rejoinder.schedule (id, name, tool, tool_kwargs, cadence, digest, identity, anchor_at, next_run_at, created_at,
                                created_by)
SELECT gen_random_uuid(), 'sweep_' || n, 'sweep', jsonb_build_object('number', n),
       '{"kind": "interval", "every": 3600}', ''::bytea, 'system:no-auth', at - interval '1 hour', at, at, 'bench'
  FROM generate_series(1, $1::integer) AS n, rejoinder.clock() AS at
"""


async def measure(bed: Bed) -> list[Line]:
    count = bed.size(100_000, 10_000)
    async with bed.database() as url:
        ours = await _turns(url, count)
    async with bed.database() as url:
        queue = await _queue(url, count)
    return [
        Line(
            f"{count:,} schedules due at once: turns taken by one worker, each second (beside: their jobs alone, enqueued by PgQueuer)",
            f"{ours:.0f}",
            "≥ 10,000/s",
            ours >= 10_000,
            floor=f"{queue:.0f}",
            raw={"turns_per_second": round(ours), "jobs_alone_per_second": round(queue)},
        )
    ]


async def _turns(url: str, count: int) -> float:
    async def sweep(number: int) -> int:
        return number

    registry = Registry([Exposed(Tool(sweep, idempotent=True), None)])
    node = Node(Settings.load(rejoinder_database_url=url, access_control_enable=False), registry, "server")
    await node.start()
    try:
        await node.database.execute(FILL, count)
        await node.database.execute("ANALYZE rejoinder.schedule")
        began, taken = time.perf_counter(), 0
        while taken < count:
            taken += (await node.ticker.take_due())[1]
        return count / (time.perf_counter() - began)
    finally:
        await node.stop()


async def _queue(url: str, count: int) -> float:
    """The jobs alone, by PgQueuer itself, in batches of the same size."""
    database = Database(url)
    await database.open()
    try:
        queries = queue_queries(AsyncpgPoolDriver(database.pool))
        began = time.perf_counter()
        for first in range(0, count, BATCH):
            size = min(BATCH, count - first)
            payloads: list[Any] = [str(first + n).encode() for n in range(size)]
            await queries.enqueue([START] * size, payloads, [0] * size)
        return count / (time.perf_counter() - began)
    finally:
        await database.close()
