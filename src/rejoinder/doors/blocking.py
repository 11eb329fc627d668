"""Requests that wait: ended at once when their caller goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from rejoinder.doors.bodies import CallerGoneError

T = TypeVar("T")


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` in this task, and cancel it when the client disconnects: the server itself does not. Raises
    CallerGoneError then; nobody reads a response. It costs one small task while ``work`` goes on."""
    task = asyncio.current_task()
    assert task is not None
    gone = False

    def leave() -> None:
        nonlocal gone
        gone = True
        task.cancel()

    watcher = asyncio.create_task(_watch(receive, leave))
    try:
        return await work
    except asyncio.CancelledError:
        # Cancelled by somebody else as well, a server that stops: then that counts.
        if gone and task.cancelling() <= 1:
            raise CallerGoneError() from None
        raise
    finally:
        watcher.cancel()
        if gone:
            task.uncancel()


async def _watch(receive: Receive, leave: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    leave()
