"""The client's side of one server: callers that block, people that answer, and the stream that names the questions."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from bench.client import Connection, Reply, Stream, expect
from bench.machine import Process, cpu_seconds, tree_cpu_seconds
from bench.tools import ANSWER

_ID = re.compile(rb'"interaction_id":"([0-9a-f-]{36})"')
_GROUP = re.compile(rb'"group_id":"([^"]+)"')
BODY = {"answer": ANSWER}


class Desk:
    """``refund`` names are chosen by the caller of each method and must be new."""

    def __init__(self, port: int, key: str) -> None:
        self.port = port
        self.key = key
        self._seen: dict[str, asyncio.Future[str]] = {}
        self._open: list[Connection] = []

    @classmethod
    @asynccontextmanager
    async def at(cls, port: int, key: str) -> AsyncIterator[Desk]:
        desk = cls(port, key)
        try:
            stream = await desk.stream()
            await stream.listen("/api/interactions/stream", desk._heard)
            yield desk
        finally:
            desk.close()

    def close(self) -> None:
        for connection in self._open:
            connection.close()
        self._open.clear()

    def _heard(self, event: bytes, data: bytes, _at: float) -> None:
        if event == b"interaction.reset":
            for waiting in self._seen.values():
                if not waiting.done():
                    waiting.set_exception(RuntimeError("the stream said that too much happened at once"))
        elif event == b"interaction.add" and (group := _GROUP.search(data)) and (found := _ID.search(data)):
            waiting = self._expected(group[1].decode())
            if not waiting.done():
                waiting.set_result(found[1].decode())

    def _expected(self, refund: str) -> asyncio.Future[str]:
        if refund not in self._seen:
            self._seen[refund] = asyncio.get_running_loop().create_future()
        return self._seen[refund]

    async def asked(self, refund: str, within: float = 60) -> str:
        """The id of the question about that refund, once the stream has told it."""
        found = await asyncio.wait_for(self._expected(refund), within)
        del self._seen[refund]
        return found

    async def connection(self) -> Connection:
        made = await Connection.open(self.port, self.key)
        self._open.append(made)
        return made

    async def connections(self, count: int) -> list[Connection]:
        return [await self.connection() for _ in range(count)]

    async def stream(self) -> Stream:
        made = await Stream.open(self.port, self.key)
        assert isinstance(made, Stream)
        self._open.append(made)
        return made

    def ask(self, connection: Connection, refund: str) -> asyncio.Future[Reply]:
        """Call the tool that blocks; the future is the end of the call."""
        return connection.post("/api/run-tool", {"tool_name": "review", "arguments": {"refund": refund}})

    async def ask_all(
        self, callers: list[Connection], refunds: list[str]
    ) -> tuple[list[asyncio.Future[Reply]], list[str]]:
        """Block each caller on its question: ``(the calls, the ids)``. A hundred at a time, since the stream tells a
        flood as one reset."""
        calls: list[asyncio.Future[Reply]] = []
        identifiers: list[str] = []
        for i in range(0, len(refunds), 100):
            some = refunds[i : i + 100]
            calls += [self.ask(caller, name) for caller, name in zip(callers[i : i + 100], some, strict=True)]
            identifiers += [await self.asked(name) for name in some]
        return calls, identifiers

    def answer(self, connection: Connection, identifier: str) -> asyncio.Future[Reply]:
        return connection.post(f"/api/interactions/{identifier}/answer", BODY)

    async def cycle(self, caller: Connection, person: Connection, refund: str) -> float:
        """Ask, answer, be woken; returns the seconds from writing the answer to holding it."""
        blocked = self.ask(caller, refund)
        identifier = await self.asked(refund)
        began = time.perf_counter()
        answered = self.answer(person, identifier)
        woken = expect(await blocked)
        expect(await answered)
        return woken.at - began

    async def start_parking(self, connection: Connection, refund: str) -> None:
        """Start a background run that parks; waits its turn where the deployment is busy."""
        while True:
            reply = await connection.post(
                "/api/tool-runs", {"tool_name": "park", "arguments": {"refund": refund}}
            )
            if reply.status not in (429, 503):
                expect(reply, 202)
                return
            await asyncio.sleep(0.02)


async def lanes(count: int, work: Callable[[int], Any], jobs: int) -> None:
    """``await work(i)`` for each i below ``jobs``, ``count`` at a time."""
    todo = iter(range(jobs))

    async def lane() -> None:
        for i in todo:
            await work(i)

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(lane())


class Cpu:
    """The CPU of a server, of its Postgres and of this client, between two moments."""

    def __init__(self, server: Process, postmaster: int) -> None:
        self._pid, self._postmaster = server.pid, postmaster
        self._before = self._read()

    def _read(self) -> tuple[float, float, float, float]:
        return (
            cpu_seconds(self._pid),
            tree_cpu_seconds(self._postmaster),
            time.process_time(),
            time.perf_counter(),
        )

    def per(self, count: int) -> dict[str, float]:
        """Milliseconds for each of ``count``, and how long all of them took."""
        server, postgres, client, clock = (b - a for a, b in zip(self._before, self._read(), strict=True))
        return {
            "server_ms": round(server / count * 1000, 3),
            "postgres_ms": round(postgres / count * 1000, 3),
            "client_ms": round(client / count * 1000, 3),
            "per_s": round(count / clock, 1),
        }
