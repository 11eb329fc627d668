"""A run parks on a question; another worker goes on with the answer."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import asyncpg
import orjson

from bench.client import expect
from bench.desk import Desk, lanes
from bench.lines import Line, spread_text
from bench.machine import Bed, worker_ready
from bench.rows.answering import told
from bench.stats import spread

LANES = 8


async def measure(bed: Bed) -> list[Line]:
    others = await peers(bed)
    # Below the thousand questions that may be open by default.
    quiet, saturated = bed.size(100, 30), bed.size(800, 200)
    warm = [f"warm-{i}" for i in range(10)]
    names = [f"quiet-{i}" for i in range(quiet)] + [f"full-{i}" for i in range(saturated)]
    async with bed.database() as url, bed.server(url) as (server, key), Desk.at(server.port, key) as desk:
        with bed.process("worker", url):
            await worker_ready(url)
            identifiers = await _park(desk, url, warm + names)
        # The worker that parked them is gone: another one resumes.
        with bed.process("worker", url):
            await worker_ready(url)
            person = (await desk.connections(1))[0]
            sent: dict[str, float] = {}
            # A fresh worker's first resumptions load code.
            for name in warm:
                sent[name] = time.time()
                expect(await desk.answer(person, identifiers[name]))
            await _resumed(url, sent, "warm-%")
            sent = {}
            for name in names[:quiet]:
                sent[name] = time.time()
                expect(await desk.answer(person, identifiers[name]))
                await asyncio.sleep(max(0, sent[name] + 0.1 - time.time()))
            calm = await _resumed(url, sent, "quiet-%")
            rate, sent = await _saturate(desk, names[quiet:], identifiers)
            crowd = await _resumed(url, sent, "full-%")
    wanted = not bed.slow_disk
    return [
        Line(
            "parked ask, 10 answers a second: answer sent → the run goes on in another worker (ms, p50 / p90 / p99 / max)",
            spread_text(calm["began"]),
            "p50 ≤ 10, p99 ≤ 25" if wanted else "",
            calm["began"]["p50"] <= 10 and calm["began"]["p99"] <= 25 if wanted else None,
            floor="",
            dbos=told(others, "dbos", lambda o: spread_text(o["one"])),
            langgraph=told(others, "langgraph", lambda o: spread_text(o["one"])),
            raw={"ours": calm, "others": others},
        ),
        Line(
            f"the same, {saturated} answered as fast as {LANES} people can ({rate:.0f} answers/s)",
            spread_text(crowd["began"]),
            raw={**crowd, "answers_per_s": rate},
        ),
    ]


async def peers(bed: Bed) -> dict[str, Any]:
    """From what was measured for the blocked ask: to both, waiting and parking is the same."""
    from bench.__main__ import OUT

    name = "answering-5ms.json" if bed.slow_disk else "answering.json"
    if bed.alone or not (OUT / name).exists():
        return {}
    found: dict[str, Any] = orjson.loads((OUT / name).read_bytes())["lines"][0]["raw"]["others"]
    return found


async def _park(desk: Desk, url: str, names: list[str]) -> dict[str, str]:
    """Start the runs and wait until every one of them is parked; the ids of their questions."""
    starters = await desk.connections(LANES)

    async def start(i: int) -> None:
        starter = starters.pop()
        await desk.start_parking(starter, names[i])
        starters.append(starter)

    await lanes(LANES, start, len(names))
    identifiers = {name: await desk.asked(name) for name in names}
    connection = await asyncpg.connect(url)
    try:
        while await connection.fetchval("SELECT count(*) FROM rejoinder.run WHERE state = 'parked'") < len(
            names
        ):
            await asyncio.sleep(0.05)
    finally:
        await connection.close()
    return identifiers


async def _saturate(
    desk: Desk, names: list[str], identifiers: dict[str, str]
) -> tuple[float, dict[str, float]]:
    people, sent = await desk.connections(LANES), {}
    began = time.perf_counter()

    async def answer(i: int) -> None:
        person = people.pop()
        sent[names[i]] = time.time()
        expect(await desk.answer(person, identifiers[names[i]]))
        people.append(person)

    await lanes(LANES, answer, len(names))
    return len(names) / (time.perf_counter() - began), sent


async def _resumed(url: str, sent: dict[str, float], like: str) -> dict[str, Any]:
    """Wait for every run's end. ``began``: the continuation's first line; ``ended``: the run's recorded end."""
    connection = await asyncpg.connect(url)
    try:
        while True:
            rows = await connection.fetch(
                "SELECT arguments ->> 'refund' AS name, (result ->> 'began')::float8 AS began,"
                " EXTRACT(EPOCH FROM finished_at)::float8 AS ended"
                " FROM rejoinder.run WHERE state = 'succeeded' AND arguments ->> 'refund' LIKE $1",
                like,
            )
            if len(rows) >= len(sent):
                break
            await asyncio.sleep(0.2)
    finally:
        await connection.close()
    assert sorted(row["name"] for row in rows) == sorted(sent), "a run was resumed twice or not at all"
    return {
        "began": spread(row["began"] - sent[row["name"]] for row in rows),
        "ended": spread(row["ended"] - sent[row["name"]] for row in rows),
    }
