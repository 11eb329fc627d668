"""The floor: a question is a row, an answer is a hand-written claim, the asker waits on LISTEN. Nothing else.

``python -m bench.peers.floor URL ONE BURST LANES``
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import asyncpg
import orjson

from bench.stats import spread

TABLE = """
CREATE TABLE question (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body jsonb NOT NULL, state text NOT NULL DEFAULT 'pending',
    answer jsonb, answered_at timestamptz)
"""
BODY = '{"question": "Refund 42?", "schema": {"type": "object", "required": ["approve", "amount"]}}'
ANSWER = '{"approve": true, "amount": 120.5, "currency": "EUR", "note": "checked"}'


class Desk:
    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.waiting: dict[int, asyncio.Future[float]] = {}

    async def listen(self, connection: Any) -> None:
        await connection.add_listener("answered", self._heard)

    def _heard(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        asker = self.waiting.get(int(payload))
        if asker is not None and not asker.done():
            asker.set_result(time.perf_counter())

    async def ask(self) -> int:
        number: int = await self.pool.fetchval("INSERT INTO question (body) VALUES ($1) RETURNING id", BODY)
        self.waiting[number] = asyncio.get_running_loop().create_future()
        return number

    async def answer(self, number: int) -> None:
        async with self.pool.acquire() as connection, connection.transaction():
            state = await connection.fetchval("SELECT state FROM question WHERE id = $1 FOR UPDATE", number)
            assert state == "pending"
            await connection.execute(
                "UPDATE question SET state = 'answered', answer = $2, answered_at = now() WHERE id = $1",
                number,
                ANSWER,
            )
            await connection.execute("SELECT pg_notify('answered', $1)", str(number))

    async def wake(self, number: int) -> float:
        """Until the asker holds the answer: woken by the notification, read from the row."""
        await self.waiting[number]
        del self.waiting[number]
        await self.pool.fetchval("SELECT answer FROM question WHERE id = $1", number)
        return time.perf_counter()

    async def cycle(self) -> float:
        number = await self.ask()
        began = time.perf_counter()
        woken, _ = await asyncio.gather(self.wake(number), self.answer(number))
        return woken - began


async def main(url: str, one: int, burst: int, lanes: int) -> dict[str, Any]:
    pool = await asyncpg.create_pool(url, min_size=8, max_size=8)
    listener = await asyncpg.connect(url)
    await pool.execute(TABLE)
    desk = Desk(pool)
    await desk.listen(listener)
    for _ in range(20):
        await desk.cycle()
    cpu = time.process_time()
    alone = [await desk.cycle() for _ in range(one)]
    cpu_alone = (time.process_time() - cpu) / one

    numbers = [await desk.ask() for _ in range(burst)]
    began = time.perf_counter()
    wakes = asyncio.gather(*(desk.wake(number) for number in numbers))
    await asyncio.gather(*(desk.answer(number) for number in numbers))
    answered = time.perf_counter() - began
    woken = [at - began for at in await wakes]

    async def lane(count: int) -> None:
        for _ in range(count):
            await desk.cycle()

    cpu, start = time.process_time(), time.perf_counter()
    each = max(1, one // lanes)
    await asyncio.gather(*(lane(each) for _ in range(lanes)))
    took = time.perf_counter() - start
    return {
        "one": spread(alone),
        "cpu_ms": round(cpu_alone * 1000, 3),
        "cpu_ms_busy": round((time.process_time() - cpu) / (each * lanes) * 1000, 3),
        "cycles_per_s": round(each * lanes / took, 1),
        "burst": {"woken": spread(woken), "answers_per_s": round(burst / answered, 1), "errors": 0},
    }


if __name__ == "__main__":
    import uvloop

    result = uvloop.run(main(sys.argv[1], *(int(word) for word in sys.argv[2:5])))
    print(orjson.dumps(result).decode())
