"""A Gateway for tests that tells a recording over a real socket."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

from rejoinder.openclaw.recording import Line
from tests.fake_gateway import FakeConnection, FakeGateway


class PlayingGateway(FakeGateway):
    """Tells one client what the named connections of a recording were told, in its order, through its drops and restarts.

    skip, twice: the places of events (counted from 0 over all of them) that are lost, or come twice.
    `played` is set when nothing is left; `told` counts the events.
    """

    def __init__(
        self,
        lines: Sequence[Line],
        connections: Sequence[str],
        *,
        skip: frozenset[int] = frozenset(),
        twice: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__()
        self.played = asyncio.Event()
        self.told = 0
        self._lines = [line for line in lines if line.connection in connections]
        self._methods = {
            (line.connection, str(line.frame.get("id"))): line.frame
            for line in lines
            if line.direction == "out"
        }
        self._skip, self._twice = skip, twice
        self._known: dict[tuple[str, str], Any] = {}
        self._player: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await super().start()
        if self._player is None:
            self._player = asyncio.get_running_loop().create_task(self._play())

    async def __aexit__(self, *_: object) -> None:
        if self._player is not None:
            self._player.cancel()
            await asyncio.wait((self._player,))
        await self.stop()
        if self._player is not None and not self._player.cancelled():
            self._player.result()

    def reply(self, method: str, params: dict[str, Any]) -> Any:
        if method == "sessions.subscribe":
            return {"subscribed": True, "list": self._known.get(("sessions.list", ""), {"sessions": []})}
        known = self._known.get((method, str(params.get("sessionKey") or "")))
        return known if known is not None else super().reply(method, params)

    async def _play(self) -> None:
        count = itertools.count()
        number = 1
        connection: FakeConnection | None = None
        last = max((place for place, line in enumerate(self._lines) if line.direction == "in"), default=0)
        # What its client did at the end of the recording, ours does when it likes.
        for line in self._lines[: last + 1]:
            frame = line.frame
            if line.direction == "out" or line.direction == "note":
                continue
            if line.direction == "closed":
                if connection is not None:
                    await connection.drop(int(frame.get("code") or 1006), str(frame.get("reason") or ""))
                    connection, number = None, number + 1
                continue
            if frame.get("type") == "res":
                self._learn(line)
                continue
            if frame.get("event") == "connect.challenge":
                continue
            if connection is None:
                connection = await self.connected(number)
            place = next(count)
            if place in self._skip:
                connection.skip()
                continue
            self.told += 1
            told = connection.tell(str(frame["event"]), frame.get("payload") or {})
            if place in self._twice:
                connection.again(told)
            if place % 200 == 0:
                await connection.flushed()
        if connection is not None:
            await connection.flushed()
        self.played.set()

    def _learn(self, line: Line) -> None:
        frame = line.frame
        payload = frame.get("payload")
        if not frame.get("ok") or not isinstance(payload, dict):
            return
        if payload.get("type") == "hello-ok":
            self.boot_id = payload["server"]["bootId"]
            return
        asked = self._methods.get((line.connection, str(frame["id"])), {})
        method = str(asked.get("method"))
        if method == "sessions.subscribe":
            method, payload = "sessions.list", payload.get("list") or {"sessions": []}
        key = (asked.get("params") or {}).get("sessionKey") or ""
        self._known[(method, str(key))] = payload
