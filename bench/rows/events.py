"""Signed events come to a topic as fast as it takes them, and a hook acts on each; beside it PgQueuer's jobs alone."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import sys
import time
from typing import Any

import asyncpg
import orjson

from bench.client import Connection, expect
from bench.lines import Line
from bench.machine import ROOT, Bed, environment, worker_ready

LANES = 8
SECRET, VARIABLE = "bench", "BENCH_TOPIC_SECRET"
UNLIMITED = '{"universal_webhook": {"limit": 10000000, "burst": 10000000}}'
HOOK = """
SELECT rejoinder.register_hook_v1('bench', 'bench', 'noop', k.name, k.id, '{}', '.n >= 0', '{n}', NULL, NULL, NULL, NULL,
                                  NULL, '{}', false, 'bench') FROM rejoinder.api_key k LIMIT 1
"""


async def measure(bed: Bed) -> list[Line]:
    count = bed.size(3_000, 500)
    settings = {VARIABLE: SECRET, "TAI_RATE_LIMIT_FAMILIES": UNLIMITED}
    async with bed.database() as url, bed.server(url, **settings) as (server, key):
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(
                "INSERT INTO rejoinder.public_route (pattern, created_by) VALUES ('/universal_webhook/*', 'bench')"
            )
            await connection.execute(
                "SELECT rejoinder.bind_topic_v1('bench', 'stripe', jsonb_build_object('secret_env', $1::text), 'bench')",
                VARIABLE,
            )
            await connection.execute(HOOK)
            with bed.process("worker", url):
                await worker_ready(url)
                await _posted(server.port, key, 50, "warm")
                await _acted(connection, 50)
                began = time.perf_counter()
                await _posted(server.port, key, count, "full")
                accepted = time.perf_counter() - began
                await _acted(connection, 50 + count)
                took = time.perf_counter() - began
            doubled = await connection.fetchval(
                "SELECT count(*) FROM rejoinder.hook_run WHERE status <> 'acted' OR cardinality(acted_ids) <> 1"
            )
        finally:
            await connection.close()
    plain = await _plain(bed, count) if not bed.alone else None
    raw: dict[str, Any] = {"events": count, "accepted_s": accepted, "acted_s": took, "plain": plain}
    beside = ""
    if plain is not None:
        jobs = plain["jobs"] / plain["took_s"]
        beside = f"; PgQueuer's jobs alone {jobs:,.0f}/s, {jobs * took / count:.1f} times as many"
    return [
        Line(
            f"{count:,} signed events posted at once: verified and kept, each second",
            f"{count / accepted:,.0f}",
        ),
        Line(
            f"the same, from the first one posted to the last one acted on, each second{beside}",
            f"{count / took:,.0f}",
            "each acted on once",
            doubled == 0,
            raw=raw,
        ),
    ]


async def _posted(port: int, key: str, count: int, name: str) -> None:
    left = iter(range(count))

    async def lane() -> None:
        sender = await Connection.open(port, key)
        for number in left:
            body = orjson.dumps({"id": f"{name}-{number}", "n": number})
            expect(await sender.send_bytes(_signed(port, body)))
        sender.close()

    await asyncio.gather(*(lane() for _ in range(LANES)))


def _signed(port: int, body: bytes) -> bytes:
    at = str(int(time.time()))
    made = hmac.new(SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    head = (
        f"POST /universal_webhook/bench HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"stripe-signature: t={at},v1={made}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _acted(connection: Any, count: int) -> None:
    while await connection.fetchval("SELECT count(*) FROM rejoinder.hook_run WHERE status = 'acted'") < count:
        await asyncio.sleep(0.05)


async def _plain(bed: Bed, count: int) -> dict[str, Any]:
    async with bed.database(empty=True) as url:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.peers.pgqueuer_jobs", url, str(count), str(LANES),
            cwd=ROOT, env=environment(), stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError("PgQueuer alone could not be measured")
        found: dict[str, Any] = orjson.loads(out.splitlines()[-1])
        return found
