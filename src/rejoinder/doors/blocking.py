"""Requests that wait: ended at once when their caller goes away, and soon after its key or session is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from rejoinder.contract.errors import AuthenticationError
from rejoinder.doors.bodies import CallerGoneError

T = TypeVar("T")

#: Seconds after which the key or session of one that waits is looked at again: a revoked one must wait no longer.
LOOK_AGAIN = 15.0


async def unless_gone(
    receive: Receive, work: Coroutine[Any, Any, T], still: Callable[[], Awaitable[bool]]
) -> T:
    """Await ``work`` in this task, and cancel it when the client disconnects: the server itself does not. Raises
    CallerGoneError then; nobody reads a response. ``still`` says whether the caller may go on waiting; where it may
    not, ``work`` is cancelled too, and AuthenticationError raised. It costs one small task while ``work`` goes on."""
    task = asyncio.current_task()
    assert task is not None
    ended: Exception | None = None

    def leave(why: Exception) -> None:
        nonlocal ended
        ended = why
        task.cancel()

    watcher = asyncio.create_task(_watch(receive, still, leave))
    try:
        return await work
    except asyncio.CancelledError:
        # Cancelled by somebody else as well, a server that stops: then that counts.
        if ended is not None and task.cancelling() <= 1:
            raise ended from None
        raise
    finally:
        watcher.cancel()
        if ended is not None:
            task.uncancel()


async def _watch(
    receive: Receive, still: Callable[[], Awaitable[bool]], leave: Callable[[Exception], None]
) -> None:
    while True:
        try:
            async with asyncio.timeout(LOOK_AGAIN):
                message = await receive()
        except TimeoutError:
            if not await still():
                leave(AuthenticationError())
                return
            continue
        if message["type"] == "http.disconnect":
            leave(CallerGoneError())
            return
