"""Ending what still hangs on a connection when a server stops.

A stream ends at once. Any other request may go on for a while; then it is cancelled, which withdraws what it asks,
and its caller is told with a 503 instead of a broken connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_BODY = (
    b'{"error":"This server is stopping. What the call asked was withdrawn; call again.","code":"stopping"}'
)
_HEADERS = [
    (b"content-type", b"application/json"),
    (b"content-length", str(len(_BODY)).encode()),
    (b"connection", b"close"),
    (b"retry-after", b"1"),
]


class Drain:
    """The outermost ASGI layer. It adds no task and no queue: the server's own task per request is what is ended."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._going: dict[asyncio.Task[Any], bool] = {}
        self._stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        if scope["type"] != "http" or task is None:
            await self._app(scope, receive, send)
            return
        if self._stopping:
            await _refuse(send)
            return
        self._going[task] = False

        async def sending(message: Message) -> None:
            # A finished response is no stream: what its request still does gets the time that the others get.
            self._going[task] = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            if not self._stopping or task.uncancel() > 0:
                raise
            if self._going[task]:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await _refuse(send)
        finally:
            self._going.pop(task, None)

    async def stop(self, grace: float) -> None:
        """End the streams now and the rest after ``grace`` seconds. New requests are refused from here on."""
        self._stopping = True
        self._cancel([task for task, started in self._going.items() if started])
        if self._going:
            await asyncio.wait(set(self._going), timeout=grace)
        self._cancel(list(self._going))
        if self._going:
            await asyncio.wait(set(self._going), timeout=5)

    @staticmethod
    def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel("the server stops")


async def _refuse(send: Send) -> None:
    await send({"type": "http.response.start", "status": 503, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _BODY})
