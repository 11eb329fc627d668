"""What a blocked call holds: memory and descriptors, with its own connection."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import asyncpg
import orjson

from bench.desk import Desk
from bench.lines import Line, ms
from bench.machine import Bed, cpu_seconds, descriptors, resident_kib
from bench.stats import spread


async def measure(bed: Bed) -> list[Line]:
    counts = (1000, 5000) if not bed.quick else (500, 1000)
    found = [await _hold(bed, count) for count in counts]
    held = _dbos(bed)
    fits = all(one["kib_each"] <= 25 for one in found)
    return [
        Line(
            f"a blocked ask holds, of {counts[0]:,} / of {counts[1]:,} (KiB)",
            " / ".join(f"{one['kib_each']:.1f}" for one in found),
            "≤ 25",
            fits,
            dbos=""
            if held is None
            else f"{held['kib_each']:g} and {held['threads']} threads for {held['n']}",
            raw={str(count): one for count, one in zip(counts, found, strict=True)},
        ),
        Line(
            "and descriptors, the caller's own connection included",
            " / ".join(f"{one['descriptors_each']:.2f}" for one in found),
            "1",
            all(one["descriptors_each"] < 1.02 for one in found),
        ),
        Line(
            "another request meanwhile (ms, p50) / all withdrawn after every caller went away (s)",
            f"{ms(found[-1]['other_request']['p50'])} / {found[-1]['withdrawn_s']:.1f}",
        ),
    ]


def _dbos(bed: Bed) -> Any:
    from bench.__main__ import OUT

    if bed.alone or not (OUT / "answering.json").exists():
        return None
    others = orjson.loads((OUT / "answering.json").read_bytes())["lines"][0]["raw"]["others"]
    return others.get("dbos", {}).get("held")


async def _hold(bed: Bed, count: int) -> dict[str, Any]:
    settings = {"INTERACTIONS_MAX_CONCURRENT": "none"}
    async with (
        bed.database() as url,
        bed.server(url, **settings) as (server, key),
        Desk.at(server.port, key) as desk,
    ):
        caller, person = await desk.connections(2)
        for i in range(100):
            await desk.cycle(caller, person, f"warm-{i}")
        before, files = resident_kib(server.pid), descriptors(server.pid)
        callers = await desk.connections(count)
        await desk.ask_all(callers, [f"held-{i}" for i in range(count)])
        after, files_after = resident_kib(server.pid), descriptors(server.pid)
        cpu, began = cpu_seconds(server.pid), time.perf_counter()
        await asyncio.sleep(bed.size(3, 1))
        idle = (cpu_seconds(server.pid) - cpu) / (time.perf_counter() - began)
        others = []
        for _ in range(50):
            began = time.perf_counter()
            others.append((await person.get("/api/interactions?pageSize=1")).at - began)
        began = time.perf_counter()
        for connection in callers:
            connection.close()
        database = await asyncpg.connect(url)
        try:
            while await database.fetchval("SELECT count(*) FROM rejoinder.question WHERE state = 'pending'"):
                await asyncio.sleep(0.02)
        finally:
            await database.close()
        return {
            "kib_each": round((after - before) / count, 2),
            "descriptors_each": round((files_after - files) / count, 3),
            "idle_cpu_percent": round(idle * 100, 2),
            "other_request": spread(others),
            "withdrawn_s": round(time.perf_counter() - began, 2),
            "rss_mb": [before // 1024, after // 1024, resident_kib(server.pid) // 1024],
        }
