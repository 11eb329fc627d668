"""A wire between a client and the Gateway that a test can cut, while the Gateway goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Self


class Wire:
    """A TCP relay on loopback. ``url`` is the Gateway's address for whoever goes through it."""

    def __init__(self, port: int) -> None:
        self.url = ""
        self.connections = 0
        self._target = port
        self._whole = True
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    @contextlib.asynccontextmanager
    async def to(cls, port: int) -> AsyncIterator[Self]:
        wire = cls(port)
        server = await asyncio.start_server(wire._accept, "127.0.0.1", 0)
        wire.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield wire
        finally:
            wire.cut()
            server.close()
            for task in wire._tasks:
                task.cancel()
            if wire._tasks:
                await asyncio.wait(wire._tasks)

    def cut(self) -> None:
        """Every connection is gone, without a goodbye. New ones fail until ``mend``."""
        self._whole = False
        for writer in self._open:
            writer.transport.abort()

    def mend(self) -> None:
        """New connections reach the Gateway again."""
        self._whole = True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if not self._whole:
                writer.transport.abort()
                return
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            self.connections += 1
            self._open |= {writer, back}
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, back))
                group.create_task(_pump(there, writer))
        except OSError:
            writer.transport.abort()
        finally:
            self._open -= {writer}
            self._tasks.discard(task)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
