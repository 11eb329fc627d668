"""Time as the client uses it, so that tests can move it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """Seconds that only grow, and a pause."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The real one."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def within(clock: Clock, seconds: float, work: Awaitable[T]) -> T:
    """The result of `work`, cancelled and a TimeoutError raised if it takes longer than `seconds`."""
    task = asyncio.ensure_future(work)
    # Whoever waits may be cancelled in the moment in which the work fails: then nobody asks how it ended.
    task.add_done_callback(lambda over: over.cancelled() or over.exception())
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError
    finally:
        alarm.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
