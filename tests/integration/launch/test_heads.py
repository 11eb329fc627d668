"""The head of a request is bounded in bytes and in seconds, for callers who have shown no key yet."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rejoinder.launch.serve import bind, serving
from tests.support import WITHIN

pytestmark = pytest.mark.skipif(os.name != "posix", reason="another server stands there")

SHORT = 0.3
FULL = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class App:
    """Answers once ``free`` is set."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.asked = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        self.asked.set()
        await self.free.wait()
        size = str(sum(len(name) + len(value) for name, value in scope["headers"])).encode()
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-length", b"%d" % len(size))],
            }
        )
        await send({"type": "http.response.body", "body": size})


@asynccontextmanager
async def connected(
    app: App, patience: float
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    address = bind("127.0.0.1", 0)
    async with serving(app, address, grace=0, head_patience=patience):
        reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
        try:
            yield reader, writer
        finally:
            writer.close()


async def to_the_end(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(WITHIN):
        return await reader.read()


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"", b""),
        (b"GET / HT", b"HTTP/1.1 408 "),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-", b"HTTP/1.1 408 "),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n", b"HTTP/1.1 408 "),
    ],
    ids=["nothing", "half a line", "half a header", "no end"],
)
async def test_a_head_that_does_not_come_ends_the_connection(sent: bytes, told: bytes) -> None:
    async with connected(App(), SHORT) as (reader, writer):
        writer.write(sent)
        heard = await to_the_end(reader)
        assert heard.startswith(told)
        assert bool(heard) == bool(told)


@pytest.mark.parametrize(
    "piece", [b"a" * 4096, b"\r\nX-Many: a" * 400], ids=["one endless header", "headers without end"]
)
async def test_a_head_without_end_is_refused_before_it_fills_the_memory(piece: bytes) -> None:
    async with connected(App(), WITHIN) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-A: a")
        sent = 0
        try:
            while not reader.at_eof() and sent < 2**26:
                writer.write(piece)
                sent += len(piece)
                await writer.drain()
        except ConnectionError:
            pass
        # What the sockets hold on the way is not the server's memory.
        assert sent < 2**26


async def test_a_head_in_many_pieces_is_taken() -> None:
    app = App()
    app.free.set()
    async with connected(app, WITHIN) as (reader, writer):
        for byte in b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 500 + b"\r\n\r\n":
            writer.write(bytes([byte]))
            await writer.drain()
        async with asyncio.timeout(WITHIN):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")


async def test_a_caller_that_waits_for_an_answer_is_not_cut_off_by_a_slow_second_head() -> None:
    app = App()
    async with connected(app, SHORT) as (reader, writer):
        writer.write(FULL)
        await app.asked.wait()
        writer.write(b"GET / HT")
        with pytest.raises(TimeoutError):
            # Longer than the head's patience: nothing may come, and the connection may not end.
            async with asyncio.timeout(3 * SHORT):
                await reader.read(1)
        app.free.set()
        assert (await to_the_end(reader)).startswith(b"HTTP/1.1 200")


async def test_a_blocked_call_outlasts_the_patience() -> None:
    app = App()
    async with connected(app, SHORT) as (reader, writer):
        writer.write(FULL)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3 * SHORT):
                await reader.read(1)
        app.free.set()
        async with asyncio.timeout(WITHIN):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
