"""A server is killed, its neighbour loses connections, Postgres restarts: who gets an answer, and when."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import asyncpg

from bench.client import Connection, Reply, expect
from bench.desk import BODY, Desk
from bench.lines import Line
from bench.machine import Bed

BLOCKED = 400
PENDING = "SELECT count(*) FROM rejoinder.question WHERE state = 'pending'"
#: The connection on which a server listens also holds its session lock.
LISTENER = "SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE l.locktype = 'advisory' AND d.datname = current_database()"


async def measure(bed: Bed) -> list[Line]:
    killed = await _killed_server(bed)
    lost = await _lost_connections(bed, bed.size(100, 10))
    restart = await _restart(bed)
    return [
        Line(
            "kill -9 of a server with 200 blocked: its questions withdrawn by the other (s)",
            f"{killed['withdrawn_s']:.2f}",
            "< 3",
            killed["withdrawn_s"] < 3,
            raw=killed,
        ),
        Line(
            f"a live server whose notification connection is cut {lost['cuts']} times: taken for dead",
            str(lost["wrong"]),
            "0",
            lost["wrong"] == 0 and lost["returned"] == lost["blocked"],
            raw=lost,
        ),
        Line(
            f"Postgres restarts under {BLOCKED} blocked callers: lost / first answer after it is up (s)",
            f"{restart['lost']} / {restart['first_answer_s']:.2f}",
            "0, < 1.5",
            restart["lost"] == 0 and restart["first_answer_s"] < 1.5,
            raw=restart,
        ),
    ]


async def _killed_server(bed: Bed) -> dict[str, Any]:
    async with (
        bed.database() as url,
        bed.server(url) as (_alive, _),
        bed.server(url) as (dying, key),
        Desk.at(dying.port, key) as desk,
    ):
        callers = await desk.connections(200)
        calls, _ids = await desk.ask_all(callers, [f"killed-{i}" for i in range(200)])
        connection = await asyncpg.connect(url)
        # A server judges others only once it has seen the database steadily for twice the stale time.
        await asyncio.sleep(6)
        try:
            began = time.perf_counter()
            dying.kill()
            told = await asyncio.gather(*calls, return_exceptions=True)
            reset = time.perf_counter() - began
            while await connection.fetchval(PENDING):
                await asyncio.sleep(0.01)
            gone = time.perf_counter() - began
        finally:
            await connection.close()
    return {
        "withdrawn_s": round(gone, 2),
        "callers_told_s": round(reset, 3),
        "callers_told": sum(isinstance(one, ConnectionResetError) for one in told),
    }


async def _lost_connections(bed: Bed, cuts: int) -> dict[str, Any]:
    blocked = 20
    async with bed.database() as url, bed.server(url) as (server, key), Desk.at(server.port, key) as desk:
        callers, person = await desk.connections(blocked), await desk.connection()
        calls, identifiers = await desk.ask_all(callers, [f"cut-{i}" for i in range(blocked)])
        connection = await asyncpg.connect(url)
        try:
            for _ in range(cuts):
                while not (pids := [row["pid"] for row in await connection.fetch(LISTENER)]):
                    await asyncio.sleep(0.01)
                for pid in pids:
                    await connection.execute("SELECT pg_terminate_backend($1)", pid)
                while set(pids) & {row["pid"] for row in await connection.fetch(LISTENER)}:
                    await asyncio.sleep(0.005)
            while not await connection.fetch(LISTENER):
                await asyncio.sleep(0.01)
            wrong = await connection.fetchval(
                "SELECT count(*) FROM rejoinder.process WHERE ended_at IS NOT NULL"
            )
        finally:
            await connection.close()
        for identifier in identifiers:
            await desk.answer(person, identifier)
        replies = await asyncio.gather(*calls, return_exceptions=True)
    returned = sum(isinstance(one, Reply) and one.status == 200 for one in replies)
    return {"cuts": cuts, "wrong": wrong, "blocked": blocked, "returned": returned}


async def _restart(bed: Bed) -> dict[str, Any]:
    lanes = 8
    async with bed.database() as url, bed.server(url) as (server, key), Desk.at(server.port, key) as desk:
        callers = await desk.connections(BLOCKED)
        calls, identifiers = await desk.ask_all(callers, [f"restart-{i}" for i in range(BLOCKED)])
        todo = iter(identifiers)
        answered: list[float] = []
        refusals = 0
        quarter = asyncio.Event()

        async def lane() -> None:
            nonlocal refusals
            person = await desk.connection()
            for identifier in todo:
                while True:
                    reply = await _try(person, identifier)
                    if reply is not None and reply.status == 200:
                        break
                    if reply is not None and reply.status < 500:
                        expect(reply)
                    refusals += 1
                    if person.closed:
                        person = await desk.connection()
                    await asyncio.sleep(0.02)
                answered.append(time.perf_counter())
                if len(answered) >= BLOCKED // 4:
                    quarter.set()

        work = [asyncio.create_task(lane()) for _ in range(lanes)]
        waiter = asyncio.create_task(quarter.wait())
        await asyncio.wait([waiter, *work], return_when=asyncio.FIRST_COMPLETED)
        began = time.perf_counter()
        up = await bed.restart()
        await asyncio.wait_for(asyncio.gather(*work), 60)
        replies = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 60)
    good = sum(isinstance(one, Reply) and one.status == 200 for one in replies)
    return {
        "lost": BLOCKED - good,
        "down_s": round(up - began, 2),
        "first_answer_s": round(max(0.0, min((at for at in answered if at > up), default=up + 99) - up), 2),
        "answers_refused_meanwhile": refusals,
    }


async def _try(person: Connection, identifier: str) -> Reply | None:
    try:
        return await asyncio.wait_for(person.post(f"/api/interactions/{identifier}/answer", BODY), 20)
    except ConnectionResetError:
        return None
