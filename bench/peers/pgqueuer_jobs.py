"""PgQueuer alone: jobs that do nothing, one commit each, and one worker that takes them.

``python -m bench.peers.pgqueuer_jobs URL JOBS LANES``
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import timedelta
from typing import Any

import asyncpg
import orjson
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.models import Job
from pgqueuer.queries import Queries


async def main(url: str, jobs: int, lanes: int) -> dict[str, Any]:
    connection = await asyncpg.connect(url)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()
    pool = await asyncpg.create_pool(url, min_size=2, max_size=8)
    assert pool is not None
    enqueuer = await asyncpg.create_pool(url, min_size=lanes, max_size=lanes)
    assert enqueuer is not None
    manager = QueueManager(Queries(AsyncpgPoolDriver(pool)))
    done = 0

    @manager.entrypoint("noop")
    async def noop(_job: Job) -> None:
        nonlocal done
        done += 1
        if done == jobs:
            manager.shutdown.set()

    began = time.perf_counter()
    running = asyncio.create_task(
        manager.run(dequeue_timeout=timedelta(seconds=1), batch_size=10, max_concurrent_tasks=64)
    )
    left = iter(range(jobs))
    queries = Queries(AsyncpgPoolDriver(enqueuer))

    async def lane() -> None:
        for _ in left:
            await queries.enqueue("noop", b"x")

    await asyncio.gather(*(lane() for _ in range(lanes)))
    enqueued = time.perf_counter() - began
    await running
    took = time.perf_counter() - began
    await pool.close()
    await enqueuer.close()
    return {"jobs": done, "enqueued_s": enqueued, "took_s": took}


if __name__ == "__main__":
    print(orjson.dumps(asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))).decode())
