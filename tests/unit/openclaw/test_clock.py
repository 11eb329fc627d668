"""A bounded wait leaves nothing behind that nobody looks at."""

from __future__ import annotations

import asyncio
import gc

import pytest

from rejoinder.openclaw.clock import SystemClock, within


async def test_work_that_fails_in_the_moment_its_caller_is_cancelled_complains_to_nobody() -> None:
    loop = asyncio.get_running_loop()
    complaints: list[str] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context["message"]))
    answer: asyncio.Future[None] = loop.create_future()

    async def work(until: asyncio.Future[None]) -> None:
        await until

    caller = asyncio.ensure_future(within(SystemClock(), 60, work(answer)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    answer.set_exception(ValueError("refused"))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises((asyncio.CancelledError, ValueError)):
        await caller
    del caller, answer
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
