"""What a browser's tab hears from the Host: its socket (Socket.IO 5 over one WebSocket), without a page."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support import assert_eventually

#: The packets of Engine.IO and of Socket.IO that one meets here, as they stand in front of their data.
_OPEN, _PING, _PONG, _CONNECTED, _EVENT, _ACK = "0", "2", "3", "40", "42", "43"


class Tab:
    """A connected tab. ``events`` has what it heard: ``{chat_id, message_id, data: {type, data}, shared?}``."""

    def __init__(self, socket: ClientConnection, token: str) -> None:
        self.events: list[Mapping[str, Any]] = []
        self.session = ""
        self._socket = socket
        self._token = token
        self._ids = itertools.count()
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, url: str, token: str) -> AsyncIterator[Tab]:
        address = url.replace("http", "ws", 1) + "/ws/socket.io/?EIO=4&transport=websocket"
        async with connect(address, origin=None, max_size=None, proxy=None, ping_interval=None) as socket:
            tab = cls(socket, token)
            reading = asyncio.get_running_loop().create_task(tab._read())
            try:
                async with asyncio.timeout(30):
                    await tab._connected
                    await tab._call("user-join", {"auth": {"token": token}})
                yield tab
            finally:
                reading.cancel()
                await asyncio.wait((reading,))

    async def join(self, chat_id: str) -> None:
        """Show this chat."""
        assert await self._call("events:chat", {"chat_id": chat_id, "data": {"type": "join"}})

    async def leave(self, chat_id: str) -> None:
        await self._call("events:chat", {"chat_id": chat_id, "data": {"type": "leave"}})

    def of(self, chat_id: str, kind: str | None = None) -> list[Mapping[str, Any]]:
        """The events of a chat, oldest first, of this ``type`` only where one is given."""
        return [
            event
            for event in self.events
            if event.get("chat_id") == chat_id and (kind is None or event["data"]["type"] == kind)
        ]

    async def heard(
        self, chat_id: str, kind: str, fits: Callable[[Mapping[str, Any]], bool] = lambda data: True
    ) -> Mapping[str, Any]:
        """Until there is such an event, one whose data ``fits``; the event."""

        def found() -> Mapping[str, Any] | None:
            return next((one for one in self.of(chat_id, kind) if fits(one["data"].get("data") or {})), None)

        event = await assert_eventually(found, f"no event {kind} came", 30)
        assert event is not None
        return event

    async def _call(self, name: str, body: Any) -> Any:
        number = str(next(self._ids))
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send(f"{_EVENT}{number}{json.dumps([name, body])}")
        return await asyncio.wait_for(answer, 30)

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for raw in self._socket:
                await self._take(raw if isinstance(raw, str) else raw.decode())

    async def _take(self, packet: str) -> None:
        if packet.startswith(_CONNECTED):
            self.session = json.loads(packet[2:])["sid"]
            self._connected.set_result(None)
        elif packet.startswith((_EVENT, _ACK)):
            start = packet.index("[")
            number, body = packet[2:start], json.loads(packet[start:])
            if packet.startswith(_ACK):
                self._answers.pop(number).set_result(body[0] if body else None)
            elif body[0] == "events":
                self.events.append(body[1])
        elif packet == _PING:
            await self._socket.send(_PONG)
        elif packet.startswith(_OPEN):
            await self._socket.send(_CONNECTED + json.dumps({"token": self._token}))
