"""An agent parks on a question of its tool; another worker carries it on from its checkpoint."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import asyncpg
import orjson

from bench.agents import talking
from bench.client import expect
from bench.desk import Desk, lanes
from bench.lines import Line, spread_text
from bench.machine import Bed, resident_kib, worker_ready
from bench.rows.answering import told
from bench.rows.parking import LANES, peers
from bench.stats import spread


async def measure(bed: Bed) -> list[Line]:
    others = await peers(bed)
    quiet, crowd = bed.size(100, 30), bed.size(800, 100)
    warm = [f"warm-{i}" for i in range(10)]
    names = [f"quiet-{i}" for i in range(quiet)] + [f"full-{i}" for i in range(crowd)]
    async with bed.database() as url, bed.server(url) as (server, key), Desk.at(server.port, key) as desk:
        with bed.process("worker", url) as worker:
            await worker_ready(url)
            identifiers = await park(desk, url, warm)
            before = resident_kib(worker.pid)
            identifiers |= await park(desk, url, names)
            held = (resident_kib(worker.pid) - before) / len(names)
        # The worker that parked them is gone: another one resumes.
        with bed.process("worker", url):
            await worker_ready(url)
            person = (await desk.connections(1))[0]
            await answer(desk, person, identifiers, warm, 0)
            await resumed(url, "warm-", len(warm))
            sent = await answer(desk, person, identifiers, names[:quiet], 0.1)
            began = await resumed(url, "quiet-", quiet)
        sizes = {length: await _sizes(url, length) for length in (50, bed.size(200, 100))}
    calm = spread(began[name] - sent[name] for name in sent)
    wanted = not bed.slow_disk
    return [
        Line(
            "parked agent, 10 answers a second: answer sent → its tool goes on in another worker (ms, p50 / p90 / p99 / max)",
            spread_text(calm),
            "p50 ≤ 25, p99 ≤ 60" if wanted else "",
            calm["p50"] <= 25 and calm["p99"] <= 60 if wanted else None,
            dbos=told(others, "dbos", lambda o: spread_text(o["one"])),
            langgraph=told(others, "langgraph", lambda o: spread_text(o["one"])),
            raw={"ours": calm, "others": others},
        ),
        Line(
            "the same beside a resumption of theirs, measured in this run (ours ÷ theirs at p50)",
            "1",
            dbos=told(others, "dbos", lambda o: f"{calm['p50'] / o['one']['p50']:.2f}"),
            langgraph=told(others, "langgraph", lambda o: f"{calm['p50'] / o['one']['p50']:.2f}"),
        ),
        Line(f"memory of the worker for each of {len(names):,} agents that parked (KiB)", f"{held:.1f}"),
        Line(
            "checkpoints of a conversation of "
            + " / ".join(f"{length} messages" for length in sizes)
            + " of 2,000 characters (KiB)",
            " / ".join(f"{ours / 1024:,.0f}" for ours, _ in sizes.values()),
            langgraph=" / ".join(f"{theirs / 1024:,.0f}" for _, theirs in sizes.values()),
            raw={str(length): pair for length, pair in sizes.items()},
        ),
    ]


async def park(desk: Desk, url: str, names: list[str]) -> dict[str, str]:
    """Start the agents and wait until every one of them is parked; the ids of their questions."""
    starters = await desk.connections(LANES)

    async def start(i: int) -> None:
        starter = starters.pop()
        while True:
            body = {"tool_name": "parker", "arguments": {"message": names[i]}}
            reply = await starter.post("/api/tool-runs", body)
            if reply.status not in (429, 503):
                expect(reply, 202)
                break
            await asyncio.sleep(0.02)
        starters.append(starter)

    await lanes(LANES, start, len(names))
    identifiers = {name: await desk.asked(name) for name in names}
    connection = await asyncpg.connect(url)
    query = "SELECT count(*) FROM rejoinder.run WHERE state = 'parked' AND arguments ->> 'message' = ANY ($1)"
    try:
        while await connection.fetchval(query, names) < len(names):
            await asyncio.sleep(0.05)
    finally:
        await connection.close()
    return identifiers


async def answer(
    desk: Desk, person: Any, identifiers: dict[str, str], names: list[str], every: float
) -> dict[str, float]:
    sent = {}
    for name in names:
        sent[name] = time.time()
        expect(await desk.answer(person, identifiers[name]))
        await asyncio.sleep(max(0, sent[name] + every - time.time()))
    return sent


async def resumed(url: str, prefix: str, count: int) -> dict[str, float]:
    """When the continuation of each one's tool began, once all of them have ended."""
    connection = await asyncpg.connect(url)
    try:
        while True:
            rows = await connection.fetch(
                "SELECT arguments ->> 'message' AS name, result #>> '{}' AS result FROM rejoinder.run"
                " WHERE state = 'succeeded' AND arguments ->> 'message' LIKE $1",
                f"{prefix}%",
            )
            if len(rows) >= count:
                return {row["name"]: orjson.loads(row["result"])["began"] for row in rows}
            await asyncio.sleep(0.2)
    finally:
        await connection.close()


async def _sizes(url: str, length: int) -> tuple[int, int]:
    """Bytes of one conversation's checkpoints: with the state of our agents, and with LangGraph's own."""
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from langgraph.graph import MessagesState

    from rejoinder.agents.state import SimpleAgentState

    found = []
    async with AsyncPostgresSaver.from_conn_string(url) as saver:
        await saver.setup()
        for name, state in (("ours", SimpleAgentState), ("theirs", MessagesState)):
            thread = f"{name}-{length}"
            await talking(state, saver).ainvoke(
                {"messages": [{"role": "user", "content": str(length)}]},
                {"configurable": {"thread_id": thread}, "recursion_limit": length + 10},
                durability="sync",
            )
            found.append(await _bytes(url, thread))
    return found[0], found[1]


async def _bytes(url: str, thread: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(
            await connection.fetchval(
                "SELECT (SELECT sum(octet_length(blob)) FROM checkpoint_blobs WHERE thread_id = $1)"
                " + (SELECT sum(octet_length(blob)) FROM checkpoint_writes WHERE thread_id = $1)",
                thread,
            )
        )
    finally:
        await connection.close()
