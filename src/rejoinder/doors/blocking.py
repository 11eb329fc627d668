"""Requests that wait: ended at once when their caller goes away or this server stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from starlette.types import Receive

from rejoinder.contract.errors import RejoinderError
from rejoinder.doors.bodies import CallerGoneError

T = TypeVar("T")
Why = Literal["gone", "stopping"]


class StoppingError(RejoinderError):
    """This server is stopping; the call was ended and what it asked is withdrawn. Try again."""

    code = "stopping"
    status = 503


class Blocking:
    """The waiting requests of one app. ``stop()`` ends them all: call it when the server begins to stop."""

    def __init__(self) -> None:
        self.stopping = False
        self._enders: set[Callable[[Why], None]] = set()
        self._also: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._enders)

    def stop(self) -> None:
        self.stopping = True
        for end in list(self._enders):
            end("stopping")
        for call in self._also:
            call()

    def when_stopping(self, call: Callable[[], None]) -> None:
        """For waiting requests that keep themselves: ``call`` ends them."""
        self._also.append(call)

    async def unless_gone(self, receive: Receive, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work`` in this task; cancel it when the client disconnects (CallerGoneError, nobody reads what
        follows) or this server stops (StoppingError). The server itself cancels nothing on a disconnect."""
        if self.stopping:
            work.close()
            raise StoppingError()
        task = asyncio.current_task()
        assert task is not None
        why: Why | None = None

        def end(reason: Why) -> None:
            nonlocal why
            if why is None:
                why = reason
                task.cancel()

        watcher = asyncio.create_task(_watch(receive, end))
        self._enders.add(end)
        try:
            return await work
        except asyncio.CancelledError:
            if why is None:
                raise
            raise (CallerGoneError() if why == "gone" else StoppingError()) from None
        finally:
            self._enders.discard(end)
            watcher.cancel()
            if why is not None:
                task.uncancel()


async def _watch(receive: Receive, end: Callable[[Why], None]) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            end("gone")
            return
