"""A DBOS workflow that waits in ``recv`` for a ``send``: from the send to the first line after the recv.

``python -m bench.peers.dbos_recv URL ONE BURST HELD``
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from dbos import DBOS, DBOSConfig

from bench.stats import spread

ANSWER = {"approve": True, "amount": 120.5, "currency": "EUR", "note": "checked"}


def resident_kib() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


async def main(url: str, one: int, burst: int, held: int) -> dict[str, Any]:
    import os

    config: DBOSConfig = {"name": "bench", "system_database_url": url, "log_level": "ERROR"}
    DBOS(config=config)

    @DBOS.workflow()  # type: ignore[untyped-decorator]
    async def refund() -> float:
        answer = await DBOS.recv_async("answer", timeout_seconds=600)
        assert answer == ANSWER
        return time.perf_counter()

    DBOS.launch()

    async def wait_until_held(handles: list[Any]) -> None:
        # recv has no signal of its own for "I wait now"; half a second a thousand is ample here.
        await asyncio.sleep(0.02 + len(handles) * 0.0005)

    async def cycle() -> float:
        handle = await DBOS.start_workflow_async(refund)
        await wait_until_held([handle])
        began = time.perf_counter()
        await DBOS.send_async(handle.workflow_id, ANSWER, "answer")
        ended: float = await handle.get_result(polling_interval_sec=0.02)
        return ended - began

    for _ in range(5):
        await cycle()
    cpu = time.process_time()
    alone = [await cycle() for _ in range(one)]
    cpu_alone = (time.process_time() - cpu) / one

    async def many(count: int) -> tuple[list[Any], float, int]:
        before = resident_kib()
        handles = [await DBOS.start_workflow_async(refund) for _ in range(count)]
        await wait_until_held(handles)
        await asyncio.sleep(2)
        return handles, (resident_kib() - before) / count, len(os.listdir("/proc/self/task"))

    async def answer_all(handles: list[Any]) -> tuple[list[float], float, int]:
        began = time.perf_counter()
        sent = await asyncio.gather(
            *(DBOS.send_async(h.workflow_id, ANSWER, "answer") for h in handles), return_exceptions=True
        )
        answered = time.perf_counter() - began
        ended = await asyncio.gather(
            *(h.get_result(polling_interval_sec=0.2) for h in handles), return_exceptions=True
        )
        errors = sum(isinstance(r, BaseException) for r in [*sent, *ended])
        return [r - began for r in ended if isinstance(r, float)], answered, errors

    handles, _, _ = await many(burst)
    woken, answered, errors = await answer_all(handles)
    result: dict[str, Any] = {
        "one": spread(alone),
        "cpu_ms": round(cpu_alone * 1000, 3),
        "burst": {"woken": spread(woken), "answers_per_s": round(burst / answered, 1), "errors": errors},
    }
    if held:
        handles, kib, threads = await many(held)
        result["held"] = {"n": held, "kib_each": round(kib, 1), "threads": threads}
        cpu, start = time.process_time(), time.perf_counter()
        await asyncio.sleep(2)
        result["held"]["idle_cpu_percent"] = round(
            (time.process_time() - cpu) / (time.perf_counter() - start) * 100, 1
        )
    print(json.dumps(result), flush=True)
    # Waiting workflows would hold a clean end back; they are rows and may stay.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *(int(word) for word in sys.argv[2:5])))
