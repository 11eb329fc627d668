"""A node stops whatever arrives while it does."""

from __future__ import annotations

import asyncio

import pytest

from rejoinder import ask, tool
from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.store import signals as s
from tests.integration.nodes import running
from tests.support import assert_eventually


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


@tool(idempotent=True)
async def patient() -> str:
    return (await ask("May I?", timeout=600)).answer


async def test_stopping_a_worker_again_and_again_uses_up_no_starts(database_url: str) -> None:
    run_id = None
    for _ in range(4):
        async with running(
            database_url,
            patient,
            worker=True,
            rejoinder_run_max_starts=2,
            access_control_enable=False,
            tai_tool_runs_shutdown_drain_seconds=0.05,
        ) as node:
            if run_id is None:
                run_id = await node.run_service.start_background("patient", {}, by=LOCAL_OWNER)

            async def asked() -> bool:
                return bool(await node.asks.page(by=LOCAL_OWNER, limit=1))

            await assert_eventually(asked, "it did not ask again")
    assert run_id is not None
    async with running(database_url, patient, access_control_enable=False) as node:
        run = await node.run_service.get(run_id, by=LOCAL_OWNER)
        assert (run.state, run.held) == ("running", False)
