"""Recording what a Gateway says, for a report: every frame, and the histories that show what should be in the chats."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from rejoinder.openclaw.client import GatewayClient, Silent
from rejoinder.openclaw.clock import Clock
from rejoinder.openclaw.connection import Drop
from rejoinder.openclaw.errors import GatewayError, Refused
from rejoinder.openclaw.frames import Event
from rejoinder.openclaw.handshake import Access, Hello
from rejoinder.openclaw.history import read_history
from rejoinder.openclaw.recording import Recorder
from rejoinder.openclaw.sessions import Row, list_sessions

#: Seconds for the histories that are read once more at the end.
LAST_SECONDS = 60.0


class _Watcher(Silent):
    """Notes which sessions must be read, and says what happens."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.wanted: asyncio.Queue[str | None] = asyncio.Queue()
        self.keys: dict[str, None] = {}
        self._say = say

    def on_hello(self, hello: Hello, sessions: Sequence[Row], rebooted: bool) -> None:
        anew = " It has restarted." if rebooted else ""
        self._say(f"Connected to Gateway {hello.version}; it has {len(sessions)} sessions.{anew}")
        for row in sessions:
            if row.has_active_run or row.key in self.keys:
                self.want(row.key)

    def on_event(self, event: Event) -> None:
        key = event.session_key
        if key is None or (event.name == "sessions.changed" and event.payload.get("reason") == "delete"):
            return
        self.keys[key] = None
        if (event.name == "chat" and event.payload.get("state") in ("final", "error", "aborted")) or (
            event.name == "sessions.changed" and event.payload.get("hasActiveRun") is False
        ):
            self.want(key)

    def on_gap(self) -> None:
        self._say("Events were lost on the way; the sessions are read again.")
        self.wanted.put_nowait(None)

    def on_drop(self, drop: Drop) -> None:
        self._say(f"The connection ended ({drop.why}); connecting again.")

    def on_refused(self, refused: Refused) -> None:
        self._say(str(refused))

    def want(self, key: str) -> None:
        self.keys[key] = None
        self.wanted.put_nowait(key)


async def record(
    access: Access,
    recorder: Recorder,
    stop: asyncio.Event,
    *,
    say: Callable[[str], None] = lambda text: None,
    clock: Clock | None = None,
) -> None:
    """Record until `stop` is set. Raises Refused where the Gateway refuses at once and only a person can help; the
    refusal is in the recording. Later refusals are said and tried again.
    """
    number = 0

    def tap(direction: Literal["in", "out", "closed"], frame: Mapping[str, Any]) -> None:
        nonlocal number
        number += direction == "in" and frame.get("event") == "connect.challenge"
        recorder.write(str(max(number, 1)), direction, frame)

    watcher = _Watcher(say)
    client = GatewayClient(access, watcher, clock=clock, tap=tap)
    async with client:
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await _greeted(client, stopping)
            while not stopping.done():
                wanted = asyncio.ensure_future(watcher.wanted.get())
                await asyncio.wait((wanted, stopping), return_when=asyncio.FIRST_COMPLETED)
                if wanted.done():
                    await _read(client, watcher, wanted.result())
                else:
                    wanted.cancel()
        finally:
            stopping.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                for key in list(watcher.keys):
                    await _read(client, watcher, key)


async def _greeted(client: GatewayClient, stopping: asyncio.Future[Any]) -> None:
    while not stopping.done() and not client.connected:
        ready = asyncio.ensure_future(client.ready(3600))
        await asyncio.wait((ready, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            return
        error = ready.exception()
        if isinstance(error, Refused) and not error.passing:
            raise error


async def _read(client: GatewayClient, watcher: _Watcher, key: str | None) -> None:
    # What is read goes into the recording by the tap; a failure is there as well.
    with contextlib.suppress(GatewayError):
        if key is None:
            for row in await list_sessions(client):
                if row.key in watcher.keys:
                    watcher.want(row.key)
        else:
            await read_history(client, key)
