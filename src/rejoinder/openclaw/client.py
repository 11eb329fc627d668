"""The client that stays connected: it reconnects, reads the list anew on every hello and tells one listener.

    client = GatewayClient(access, listener)
    async with client:
        hello = await client.ready(10)
        stream = client.claim(run_id)          # before the request that starts the run
        await client.call("chat.send", {...})
        async for item in stream: ...          # Event, or Gap: read the history

Every callback of the listener runs in the reader's own turn: it must return at once and never wait. Nothing a
listener or a follower does can stop the reader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol

from rejoinder.openclaw.clock import Clock, SystemClock, within
from rejoinder.openclaw.connection import CALL_SECONDS, Connection, Drop, LongCall
from rejoinder.openclaw.errors import CallFailed, GatewayError, NotConnected, Refused
from rejoinder.openclaw.frames import Event, Payload, mapping
from rejoinder.openclaw.handshake import Access, Hello
from rejoinder.openclaw.opening import Tap
from rejoinder.openclaw.sessions import Row, page
from rejoinder.openclaw.streams import RunStream, Streams

log = logging.getLogger("rejoinder.openclaw")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
#: Sessions a page of the list has, and the most pages read of it.
LIST_LIMIT = 200
LIST_PAGES = 50


class Listener(Protocol):
    """Who wants to know. All calls return at once."""

    def on_hello(self, hello: Hello, sessions: Sequence[Row], rebooted: bool) -> None:
        """Connected, subscribed, and this is every session as it stands. `rebooted`: the Gateway started anew since
        the last hello. Events can come before this call; they are newer than nothing in the list."""

    def on_event(self, event: Event) -> None:
        """Something happened."""

    def on_gap(self) -> None:
        """Events were lost on this connection: read the list and the open runs' histories again."""

    def on_drop(self, drop: Drop) -> None:
        """The connection ended. It is built anew by itself."""

    def on_refused(self, refused: Refused) -> None:
        """The Gateway refuses the connection; told once for each reason, tried again all the same."""


class Silent:
    """A listener that wants nothing. A base for those that want little."""

    def on_hello(self, hello: Hello, sessions: Sequence[Row], rebooted: bool) -> None:
        pass

    def on_event(self, event: Event) -> None:
        pass

    def on_gap(self) -> None:
        pass

    def on_drop(self, drop: Drop) -> None:
        pass

    def on_refused(self, refused: Refused) -> None:
        pass


class GatewayClient:
    """A Gateway that one can call and listen to, whatever its connection does."""

    def __init__(
        self,
        access: Access,
        listener: Listener | None = None,
        *,
        clock: Clock | None = None,
        tap: Tap | None = None,
    ) -> None:
        self.access = access
        self.refused: Refused | None = None
        self._listener: Listener = listener or Silent()
        self._clock = clock or SystemClock()
        self._tap = tap
        self._streams = Streams()
        self._connection: Connection | None = None
        self._boot_id: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._hurry = asyncio.Event()
        self._pauses = 0

    async def __aenter__(self) -> GatewayClient:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def start(self) -> None:
        """Begin to connect. Needs a running loop."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End the connection in good order; every call that waits fails, every stream ends."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))
        self._streams.close()

    @property
    def connected(self) -> bool:
        """Whether calls can be made now."""
        return self._connection is not None

    @property
    def hello(self) -> Hello | None:
        """What the Gateway said of itself on the present connection."""
        return self._connection.hello if self._connection else None

    @property
    def shutdown(self) -> Payload | None:
        """The notice of the present connection that the Gateway is about to end."""
        return self._connection.shutdown if self._connection else None

    async def ready(self, seconds: float) -> Hello:
        """Wait until connected. Raises Refused at once where only a person can help, else after `seconds`."""

        async def connected() -> Hello:
            while True:
                if self._connection is not None:
                    return self._connection.hello
                if self.refused is not None and not self.refused.passing:
                    raise self.refused
                self._changed.clear()
                await self._changed.wait()

        try:
            return await within(self._clock, seconds, connected())
        except TimeoutError:
            raise (self.refused or NotConnected()) from None

    def retry(self) -> None:
        """Try to connect now instead of after the pause: somebody may have approved the device, or mended the address.
        `ready` waits for what comes of it."""
        self.refused = None
        self._hurry.set()

    def claim(self, run_id: str) -> RunStream:
        """Follow a run's events, those that came before included. Close the stream when done."""
        return self._streams.claim(run_id)

    def discard(self, run_id: str) -> None:
        """Nobody will claim this run."""
        self._streams.discard(run_id)

    async def call(self, method: str, params: Payload | None = None, *, seconds: float = CALL_SECONDS) -> Any:
        """The payload of the Gateway's answer. Raises NotConnected (nothing was sent), CallFailed, Dropped, TimedOut."""
        return await self._live().call(method, params or {}, seconds=seconds)

    async def call_long(self, method: str, params: Payload, *, seconds: float = CALL_SECONDS) -> LongCall:
        """A call that is answered twice, `agent`: once when accepted and once at the end."""
        return await self._live().call_long(method, params, seconds=seconds)

    def _live(self) -> Connection:
        if self._connection is None or self._connection.ended.done():
            raise NotConnected
        return self._connection

    async def _run(self) -> None:
        while True:
            try:
                connection = await Connection.open(
                    self.access, self._clock, on_event=self._on_event, on_gap=self._on_gap, tap=self._tap
                )
            except Refused as refused:
                await self._pause(self._note(refused))
                continue
            try:
                await self._serve(connection)
            finally:
                self._connection = None
                self._changed.set()
            await self._pause(None)

    async def _serve(self, connection: Connection) -> None:
        connection.start()
        listing: asyncio.Task[None] | None = None
        try:
            self._connection = connection
            self._keep_token(connection.hello)
            listing = asyncio.get_running_loop().create_task(self._introduce(connection))
            # Not awaited itself: ending this task would end it too, before the connection has.
            await asyncio.wait((connection.ended,))
        finally:
            if listing is not None and not listing.done():
                listing.cancel()
                await asyncio.wait((listing,))
            if not connection.ended.done():
                await connection.close()
        drop = connection.ended.result()
        log.info("The connection to the Gateway ended (%s, code %s).", drop.why, drop.code)
        self._streams.gap("drop")
        self._safely(self._listener.on_drop, drop)

    async def _introduce(self, connection: Connection) -> None:
        """Subscribe and list in one request, so that nothing happens between the two."""
        try:
            first = await connection.call("sessions.subscribe", {"limit": LIST_LIMIT})
            listed, following = page(mapping(first).get("list"))
            for _ in range(LIST_PAGES):
                if following is None:
                    break
                more = await connection.call("sessions.list", {"limit": LIST_LIMIT, "offset": following})
                rows, following = page(more)
                listed += rows
        except GatewayError as error:
            if isinstance(error, CallFailed) and not error.retryable:
                log.error("The Gateway does not list its sessions: %s", error)
            if not connection.ended.done():
                await connection.close()
            return
        rebooted = self._boot_id is not None and connection.hello.boot_id != self._boot_id
        self._boot_id = connection.hello.boot_id
        self.refused = None
        self._pauses = 0
        self._safely(self._listener.on_hello, connection.hello, listed, rebooted)
        self._changed.set()

    def _note(self, refused: Refused) -> float | None:
        """Tell about a refusal if it is news. Returns the pause the Gateway or the reason asks for, in seconds."""
        device = self.access.device
        if refused.drop_device_token and device is not None:
            self._safely(device.keep_token, None)
        known, self.refused = self.refused, refused
        if known is None or (known.kind, known.code) != (refused.kind, refused.code):
            log.warning("%s", refused)
            self._safely(self._listener.on_refused, refused)
        self._changed.set()
        if refused.passing:
            return refused.retry_after
        # Only a person can help: asking every second would help nobody and may get this address locked out.
        return LONGEST_PAUSE

    def _keep_token(self, hello: Hello) -> None:
        if self.access.device is not None and hello.device_token:
            self._safely(self.access.device.keep_token, hello.device_token)

    async def _pause(self, asked: float | None) -> None:
        if asked is None:
            asked = min(FIRST_PAUSE * 2**self._pauses, LONGEST_PAUSE)
            self._pauses = min(self._pauses + 1, 10)
        try:
            await within(self._clock, asked, self._hurry.wait())
        except TimeoutError:
            pass
        self._hurry.clear()

    def _on_event(self, event: Event) -> None:
        self._streams.feed(event)
        self._listener.on_event(event)

    def _on_gap(self) -> None:
        self._streams.gap("sequence")
        self._listener.on_gap()

    @staticmethod
    def _safely(callback: Callable[..., None], *arguments: Any) -> None:
        try:
            callback(*arguments)
        except Exception:
            log.exception("A listener of the Gateway failed.")
