"""A lean HTTP client: one protocol object a connection and no more parsing than a benchmark needs.

A general client costs more CPU for a request than the server does, on the same two cores: it would measure itself.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import orjson

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)
_FRAME = re.compile(rb"event: ([\w.]+)\ndata: (.*)\n\n")


class Reply(NamedTuple):
    status: int
    body: bytes
    #: ``time.perf_counter()`` when its last byte was read.
    at: float

    def data(self) -> Any:
        return orjson.loads(self.body)


class Refused(Exception):
    """A reply that the benchmark did not expect."""


def expect(reply: Reply, status: int = 200) -> Reply:
    if reply.status != status:
        raise Refused(f"{reply.status}: {reply.body[:300].decode('utf-8', 'replace')}")
    return reply


class Connection(asyncio.Protocol):
    """One keep-alive connection with one request at a time."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._buffer = b""
        self._waiting: asyncio.Future[Reply] | None = None
        self._transport: asyncio.Transport | None = None
        self.closed = False

    @classmethod
    async def open(cls, port: int, key: str) -> Connection:
        head = f" HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\n".encode()
        _, made = await asyncio.get_running_loop().create_connection(lambda: cls(head), "127.0.0.1", port)
        return made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not instances of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionResetError("the server closed the connection"))
            # Nobody needs to wait for it: a benchmark closes hundreds of connections whose calls it is done with.
            self._waiting.exception()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def send(self, method: str, path: str, body: Any = None) -> asyncio.Future[Reply]:
        """Write the request now; the future is its reply."""
        payload = b"" if body is None else orjson.dumps(body)
        kind = b"" if body is None else b"content-type: application/json\r\n"
        return self.send_bytes(
            f"{method} {path}".encode()
            + self._head
            + kind
            + b"content-length: %d\r\n\r\n" % len(payload)
            + payload
        )

    def send_bytes(self, request: bytes) -> asyncio.Future[Reply]:
        assert self._transport is not None
        if self.closed:
            raise ConnectionResetError("the connection is closed")
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def get(self, path: str) -> asyncio.Future[Reply]:
        return self.send("GET", path)

    def post(self, path: str, body: Any) -> asyncio.Future[Reply]:
        return self.send("POST", path, body)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end]
        length = _LENGTH.search(head)
        if length is not None:
            total = end + 4 + int(length[1])
            if len(self._buffer) < total:
                return
            body = self._buffer[end + 4 : total]
            self._buffer = self._buffer[total:]
        elif self._buffer.endswith(b"0\r\n\r\n"):
            body, self._buffer = self._buffer[end + 4 :], b""
        else:
            return
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(Reply(int(head[9:12]), body, time.perf_counter()))


class Stream(Connection):
    """An open event stream. ``heard(event, data, at)`` is called for each frame, undecoded."""

    heard: Callable[[bytes, bytes, float], None]
    _opened: asyncio.Future[None]

    async def listen(self, path: str, heard: Callable[[bytes, bytes, float], None]) -> None:
        """Return once the first bytes have come: what happens from now on is heard."""
        self.heard = heard
        self._opened = asyncio.get_running_loop().create_future()
        self.send("GET", path)
        await asyncio.wait_for(self._opened, 30)

    def data_received(self, data: bytes) -> None:
        at = time.perf_counter()
        self._buffer += data
        if not self._opened.done():
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            if int(self._buffer[9:12]) != 200:
                self._opened.set_exception(Refused(self._buffer.decode("utf-8", "replace")))
                return
            if b"connected" in self._buffer:
                self._opened.set_result(None)
        # Chunk sizes between the frames are passed over: a frame is always whole within one chunk.
        last = 0
        for frame in _FRAME.finditer(self._buffer):
            last = frame.end()
            self.heard(frame[1], frame[2], at)
        if last:
            self._buffer = self._buffer[last:]
        elif len(self._buffer) > 1_000_000:
            raise Refused("the stream is not made of frames")
