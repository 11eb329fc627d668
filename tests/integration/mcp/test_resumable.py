"""Resumable tools over MCP: parked in the middle, and done once however the client comes back for the result."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from rejoinder import step, tool
from rejoinder.contract.identity import LOCAL_OWNER
from tests.integration.core.support import assert_sound
from tests.integration.mcp.serving import connected, serving
from tests.integration.mcp.test_calls import both, pending_of
from tests.integration.mcp.test_states_and_tasks import FORMS, TASKS, Raw
from tests.integration.resumable.test_once import sure
from tests.support import assert_eventually

effects: Counter[str] = Counter()


def had(what: str) -> str:
    effects[what] += 1
    return what


@tool(resumable=True)
async def order(what: str, shop: str = "ours") -> dict[str, Any]:
    """Charge, ask, ship."""
    await step("charge", had, "charged")
    if not await sure(f"Ship {what} of {shop}?"):
        return {"shipped": None}
    return {"shipped": await step("ship", had, f"{what} of {shop}")}


@pytest.fixture(autouse=True)
def _no_effects() -> None:
    effects.clear()


@both
@pytest.mark.parametrize("name", ["order", "order_here"])
async def test_a_call_parks_and_is_taken_up_again(database_url: str, mode: str, name: str) -> None:
    """The tool itself, and a preset of it."""
    shop = "here" if name == "order_here" else "ours"
    async with (
        serving(database_url, order, worker=True, rejoinder_mcp_hold_seconds=10) as served,
        connected(served, mode) as client,
    ):
        await served.node.presets.create(
            {
                "name": "order_here",
                "base_tool": "order",
                "description": "Order here.",
                "fixed_kwargs": {"shop": "here"},
            },
            by=LOCAL_OWNER,
        )
        offered = {one.name: one.input_schema for one in (await client.list_tools()).tools}
        assert set(offered["order_here"]["properties"]) == {"what"}
        parked = await client.call_tool(name, {"what": "tea"})
        question = await served.question()
        assert question.question == f"Ship tea of {shop}?"
        assert parked.structured_content["tai42:suspended_interaction"]["interaction_ids"] == [
            str(question.id)
        ]
        run_id = (parked.meta or {})["rejoinder/run_id"]
        still = await client.call_tool("check_run", {"run_id": run_id, "wait_seconds": 0})
        assert pending_of(still)["interaction_ids"] == [str(question.id)]
        waiting = asyncio.create_task(client.call_tool("check_run", {"run_id": run_id}))
        await served.answer(question, True)
        assert (await waiting).structured_content == {"shipped": f"tea of {shop}"}
    assert effects == {"charged": 1, f"tea of {shop}": 1}
    await assert_sound(database_url)


async def test_a_task_is_its_run_until_that_has_ended(database_url: str) -> None:
    async with serving(database_url, order, worker=True) as served:
        raw = Raw(served, capabilities=FORMS | TASKS)
        task = (await raw.call("order"))["result"]
        assert task["resultType"] == "task"

        async def asked() -> Any:
            return (await raw.task("get", task["taskId"]))["result"].get("inputRequests")

        (key,) = await assert_eventually(asked, "the task asks nothing")
        yes = {key: {"action": "accept", "content": {"answer": True}}}
        await raw.task("update", task["taskId"], inputResponses=yes)

        async def finished() -> Any:
            return (await raw.task("get", task["taskId"]))["result"].get("result")

        done = await assert_eventually(finished, "the task did not end")
        assert done["structuredContent"] == {"shipped": "tea of ours"}
    assert effects == {"charged": 1, "tea of ours": 1}
    await assert_sound(database_url)
