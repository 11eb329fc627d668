"""HTTP/1 connections whose request heads are bounded in bytes and in seconds.

The server underneath bounds neither: anybody, with no key, could hold connections open for ever, or fill the memory
with one endless header.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Bytes of a head, give or take one read of the socket.
MOST = 65_536

_LATE = (
    b"408 Request Timeout",
    b'{"error":"The head of the request did not arrive in time.","code":"slow-head"}',
)
_LARGE = (
    b"431 Request Header Fields Too Large",
    b'{"error":"The head of the request is over 65536 bytes, which is the most that is taken.",'
    b'"code":"head-too-large"}',
)


class BoundedHeads(HttpToolsProtocol):
    """``patience``: seconds from a connection's beginning, or from a head's first byte, to the head's end."""

    def __init__(self, *args: Any, patience: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._patience = patience
        self._timer: asyncio.TimerHandle | None = None
        self._in_head = False
        self._began_here = False
        self._bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._began_here = False
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            return
        self._watch()
        # What was read together with a head's first bytes may be the end of the request before it.
        if not self._began_here:
            self._bytes += len(data)
            if self._bytes > MOST:
                self._refuse(*_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = self._began_here = True
        self._bytes = 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._unwatch()
        super().on_headers_complete()

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self._patience, self._too_late)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        self._timer = None
        if self._answering():
            # A second head that comes slowly must not break the answer to the first.
            self._watch()
        elif self._in_head:
            self._refuse(*_LATE)
        else:
            self.transport.close()

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: bytes, content: bytes) -> None:
        if not self._answering():
            self.transport.write(
                b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%b" % (status, len(content), content)
            )
        self.transport.close()
