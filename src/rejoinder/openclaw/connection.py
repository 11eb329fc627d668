"""One connection to a Gateway, from its handshake to its end. It is never mended: a new one takes its place.

One task reads. It awaits nobody but the socket: events are handed on by plain calls, responses complete futures.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from rejoinder.openclaw.clock import Clock, within
from rejoinder.openclaw.errors import CallFailed, Dropped, Refused, TimedOut
from rejoinder.openclaw.frames import Event, FrameError, Payload, Response, encode, mapping, parse, request
from rejoinder.openclaw.handshake import Access, Hello
from rejoinder.openclaw.opening import Tap, greeted

log = logging.getLogger("rejoinder.openclaw")

CONNECT_SECONDS = 10.0
#: Three ticks of the Gateway missed: the socket is dead, whatever the system says of it.
RECEIVE_SECONDS = 90.0
CALL_SECONDS = 30.0
#: After so many frames in one go the other tasks of this process get their turn.
_TURN = 50

Why = Literal["closed", "restart", "slow", "refused", "lost", "silent", "nonsense"]


@dataclass(frozen=True, slots=True)
class Drop:
    """How a connection ended.

    why: `closed` by either side on purpose, `restart` of the Gateway (1012), `slow` reader (1008), `refused`
    (1008 or 1013 otherwise), `lost` (1006), `silent` for 90 seconds, `nonsense` received.
    shutdown: the Gateway's notice before it, `{reason, restartExpectedMs?}`, or None if it gave none.
    """

    why: Why
    code: int | None = None
    reason: str = ""
    shutdown: Payload | None = None
    boot_id: str = ""


@dataclass(slots=True)
class _Call:
    method: str
    first: asyncio.Future[Any]
    last: asyncio.Future[Any] | None = None


@dataclass(frozen=True, slots=True)
class LongCall:
    """A call with two answers: `accepted` at once, `done` when what it started has ended.

    `done` raises CallFailed, or Dropped if the connection breaks before.
    """

    accepted: Payload
    done: asyncio.Future[Any] = field(repr=False)


class Connection:
    """A connection that said hello. Make it by `open`."""

    def __init__(
        self,
        socket: ClientConnection,
        hello: Hello,
        clock: Clock,
        *,
        on_event: Callable[[Event], None],
        on_gap: Callable[[], None],
        tap: Tap | None = None,
    ) -> None:
        self.hello = hello
        self.shutdown: Payload | None = None
        self._socket = socket
        self._clock = clock
        self._on_event = on_event
        self._on_gap = on_gap
        self._tap = tap
        self._calls: dict[str, _Call] = {}
        self._ids = itertools.count(2)
        self._seq: int | None = None
        self._why: Why | None = None
        self._received = clock.now()
        self.ended: asyncio.Future[Drop] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls,
        access: Access,
        clock: Clock,
        *,
        on_event: Callable[[Event], None],
        on_gap: Callable[[], None],
        tap: Tap | None = None,
    ) -> Connection:
        """Connect and say hello, within 10 seconds. Raises Refused, whatever the reason. Events flow after `start`."""
        try:
            socket, hello = await within(clock, CONNECT_SECONDS, greeted(access, tap))
        except TimeoutError:
            raise Refused(
                "timeout",
                f"{access.url} did not greet within {CONNECT_SECONDS:g} seconds.",
                "See that a Gateway listens there and is not overloaded. It is tried again by itself.",
                code="TIMED_OUT",
            ) from None
        return cls(socket, hello, clock, on_event=on_event, on_gap=on_gap, tap=tap)

    def start(self) -> None:
        """Begin to read."""
        self._tasks = [_spawn(self._read()), _spawn(self._watch())]

    async def call(self, method: str, params: Payload, *, seconds: float = CALL_SECONDS) -> Any:
        """The payload of the answer. Raises CallFailed, Dropped or TimedOut."""
        call = _Call(method, _answer_to_come())
        return await self._request(call, params, seconds)

    async def call_long(self, method: str, params: Payload, *, seconds: float = CALL_SECONDS) -> LongCall:
        """A call that is answered twice. Raises as `call` does, for the first answer."""
        done = _answer_to_come()
        accepted = await self._request(_Call(method, _answer_to_come(), done), params, seconds)
        return LongCall(mapping(accepted), done)

    async def close(self) -> None:
        """End it in good order and wait until it has ended."""
        self._why = self._why or "closed"
        await self._socket.close()
        await asyncio.wait(self._tasks)

    async def _request(self, call: _Call, params: Payload, seconds: float) -> Any:
        if self.ended.done():
            raise Dropped(call.method)
        request_id = str(next(self._ids))
        frame = request(request_id, call.method, params)
        self._calls[request_id] = call
        try:
            return await within(self._clock, seconds, self._exchange(frame, call))
        except TimeoutError:
            self._calls.pop(request_id, None)
            raise TimedOut(call.method, seconds) from None
        except ConnectionClosed:
            self._calls.pop(request_id, None)
            raise Dropped(call.method) from None
        except asyncio.CancelledError:
            self._calls.pop(request_id, None)
            raise

    async def _exchange(self, frame: Mapping[str, Any], call: _Call) -> Any:
        self._show("out", frame)
        await self._socket.send(encode(frame))
        return await call.first

    async def _read(self) -> None:
        count = 0
        try:
            async for raw in self._socket:
                self._received = self._clock.now()
                self._take(raw)
                count += 1
                if count % _TURN == 0:
                    await asyncio.sleep(0)
        except ConnectionClosed:
            pass
        except FrameError as error:
            log.warning("%s The connection is given up.", error)
            self._why = "nonsense"
            self._socket.transport.abort()
        finally:
            self._end()

    def _take(self, raw: str | bytes) -> None:
        frame, seen = parse(raw)
        self._show("in", seen)
        if isinstance(frame, Response):
            self._answer(frame)
        elif isinstance(frame, Event):
            self._deliver(frame)

    def _deliver(self, event: Event) -> None:
        if event.seq is not None:
            if self._seq is not None:
                if event.seq <= self._seq:
                    return  # seen already
                if event.seq > self._seq + 1:
                    log.info("Events %d to %d did not arrive.", self._seq + 1, event.seq - 1)
                    self._safely(self._on_gap)
            self._seq = event.seq
        if event.name == "shutdown":
            self.shutdown = event.payload
        self._safely(self._on_event, event)

    def _answer(self, response: Response) -> None:
        call = self._calls.get(response.id)
        if call is None:
            return  # nobody waits any more
        failure = None if response.ok else CallFailed(call.method, response.error)
        accepted = response.ok and mapping(response.payload).get("status") == "accepted"
        if call.last is not None and accepted and not call.first.done():
            call.first.set_result(response.payload)
            return
        del self._calls[response.id]
        for future in (call.first, call.last):
            if future is None or future.done():
                continue
            if failure is not None:
                future.set_exception(failure)
            else:
                future.set_result(response.payload)

    async def _watch(self) -> None:
        while True:
            left = self._received + RECEIVE_SECONDS - self._clock.now()
            if left <= 0:
                log.warning("Nothing came from the Gateway for %g seconds: reconnecting.", RECEIVE_SECONDS)
                self._why = "silent"
                # No closing handshake: nobody is there to answer it.
                self._socket.transport.abort()
                return
            await self._clock.sleep(left)

    def _end(self) -> None:
        if self.ended.done():
            return
        code, reason = self._socket.close_code, self._socket.close_reason or ""
        self._show("closed", {"code": code, "reason": reason})
        drop = Drop(self._why or _why(code, reason), code, reason, self.shutdown, self.hello.boot_id)
        calls, self._calls = self._calls, {}
        for call in calls.values():
            for future in (call.first, call.last):
                if future is not None and not future.done():
                    future.set_exception(Dropped(call.method))
        for task in self._tasks[1:]:
            task.cancel()
        self.ended.set_result(drop)

    def _show(self, direction: Literal["in", "out", "closed"], frame: Mapping[str, Any]) -> None:
        if self._tap is not None:
            self._safely(self._tap, direction, frame)

    @staticmethod
    def _safely(callback: Callable[..., None], *arguments: Any) -> None:
        # Whatever a listener does wrong, the others must go on hearing.
        try:
            callback(*arguments)
        except Exception:
            log.exception("A listener of the Gateway's events failed.")


def _why(code: int | None, reason: str) -> Why:
    if code == 1012:
        return "restart"
    if code == 1008:
        return "slow" if "slow consumer" in reason else "refused"
    if code == 1013:
        return "refused"
    return "closed" if code in (1000, 1001) else "lost"


def _answer_to_come() -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    # An error that nobody waits for any more is no fault to log.
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future


def _spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work)
