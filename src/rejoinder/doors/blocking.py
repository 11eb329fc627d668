"""Requests that wait: ended at once when their caller goes away, and soon after its key or session is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from starlette.types import Receive

from rejoinder.contract.errors import AuthenticationError
from rejoinder.doors.bodies import CallerGoneError
from rejoinder.observe.logs import get_logger

log = get_logger("waiting")

T = TypeVar("T")
Still = Callable[[], Awaitable[bool]]

#: Seconds after which the key or session of one that waits is looked at again: a revoked one must wait no longer.
LOOK_AGAIN = 15.0


class _Waiting:
    """One request that waits."""

    __slots__ = ("ended", "still", "task")

    def __init__(self, task: asyncio.Task[Any], still: Still) -> None:
        self.task = task
        self.still = still
        self.ended: Exception | None = None

    def leave(self, why: Exception) -> None:
        if self.ended is None:
            self.ended = why
            self.task.cancel()


class _Rounds:
    """Looks at everybody who waits, one after the other: a timer for each of them would cost more than all the rest."""

    def __init__(self) -> None:
        self._waiting: set[_Waiting] = set()
        self._going: asyncio.Task[None] | None = None

    def add(self, one: _Waiting) -> None:
        self._waiting.add(one)
        if self._going is None:
            self._going = asyncio.create_task(self._go(), name="waiting.look")

    def remove(self, one: _Waiting) -> None:
        self._waiting.discard(one)
        if not self._waiting and self._going is not None:
            self._going.cancel()
            self._going = None

    async def _go(self) -> None:
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            for one in list(self._waiting):
                if one in self._waiting and not await _still(one):
                    one.leave(AuthenticationError())


async def _still(one: _Waiting) -> bool:
    try:
        return await one.still()
    except Exception:
        # One that cannot be looked at must not keep the others from being.
        log.exception("a request that waits could not be looked at")
        return True


_rounds: WeakKeyDictionary[asyncio.AbstractEventLoop, _Rounds] = WeakKeyDictionary()


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T], still: Still) -> T:
    """Await ``work`` in this task, and cancel it when the client disconnects: the server itself does not. Raises
    CallerGoneError then; nobody reads a response. ``still`` says whether the caller may go on waiting; where it may
    not, ``work`` is cancelled too, and AuthenticationError raised. It costs one small task while ``work`` goes on."""
    task = asyncio.current_task()
    assert task is not None
    waiting = _Waiting(task, still)
    rounds = _rounds.setdefault(asyncio.get_running_loop(), _Rounds())
    watcher = asyncio.create_task(_watch(receive, waiting))
    rounds.add(waiting)
    try:
        return await work
    except asyncio.CancelledError:
        # Cancelled by somebody else as well, a server that stops: then that counts.
        if waiting.ended is not None and task.cancelling() <= 1:
            raise waiting.ended from None
        raise
    finally:
        rounds.remove(waiting)
        watcher.cancel()
        if waiting.ended is not None:
            task.uncancel()


async def _watch(receive: Receive, waiting: _Waiting) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    waiting.leave(CallerGoneError())
