"""A node stops whatever arrives while it does."""

from __future__ import annotations

import asyncio

import pytest

from rejoinder.store import signals as s
from tests.integration.nodes import running


@pytest.mark.parametrize("loop_part", ["tail", "deadlines", "waiters"])
async def test_a_wake_up_in_the_moment_of_stopping_does_not_keep_a_part_running(
    database_url: str, loop_part: str
) -> None:
    async with running(database_url) as node:
        part = getattr(node, loop_part)
        await asyncio.sleep(0)  # let its task begin to wait
        part._wake.set()
        await asyncio.sleep(0)  # the event has happened, the task has not run on yet
        async with asyncio.timeout(10):
            await part.stop()
        node.signals.tell(s.EVENTS)
