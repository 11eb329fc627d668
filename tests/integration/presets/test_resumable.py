"""Presets of resumable tools are resumable: played again on any worker, with what was fixed when their run began."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rejoinder import call_tool, step, tool
from rejoinder.contract.errors import ToolArgumentError
from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.node import Node
from rejoinder.presets.tool import PresetTool
from rejoinder.runs.agent import LatePreset
from rejoinder.runs.tools import Tool
from tests.integration.agents.support import agent, finished
from tests.integration.core.support import assert_sound, run_reaches
from tests.integration.nodes import ANN, running
from tests.integration.resumable.test_once import answer, asked_for, sure
from tests.live.rig.model import Model, prompt, say
from tests.live.rig.model import tool as call

effects: Counter[str] = Counter()


def had(what: str) -> str:
    effects[what] += 1
    return what


async def order(what: str, amount: int = 3, shop: str = "ours") -> dict[str, Any]:
    """Charge, ask, ship."""
    charged = await step("charge", had, f"charge {amount} at {shop}")
    if not await sure(f"Ship {what} of {shop}?"):
        return {"shipped": None}
    return {"charged": charged, "shipped": await step("ship", had, f"ship {what} of {shop}")}


def ordering(**options: Any) -> Tool:
    made: Tool = tool(resumable=True, **options)(order)
    return made


ORDER: dict[str, Any] = {
    "name": "order_here",
    "base_tool": "order",
    "description": "Order here.",
    "fixed_kwargs": {"shop": "here"},
}


@pytest.fixture(autouse=True)
def _no_effects() -> None:
    effects.clear()


async def create(node: Node, **changes: Any) -> None:
    await node.presets.create(ORDER | changes, by=LOCAL_OWNER)


async def test_it_goes_on_in_another_process_with_what_was_fixed_when_it_began(database_url: str) -> None:
    async with running(database_url, ordering(), worker=True) as node:
        await create(node)
        assert set(node.registry.get("order_here").input_schema["properties"]) == {"what", "amount"}
        with pytest.raises(ToolArgumentError, match="fixed"):
            await node.run_service.start_background("order_here", {"what": "a", "shop": "here"}, by=ANN)
        run_id = await node.run_service.start_background("order_here", {"what": "a"}, by=ANN)
        question = await asked_for(node, "Ship a of here?")
        assert await run_reaches(node, run_id, "parked", "failed") == "parked"
        await node.presets.save("order_here", {"fixed_kwargs": {"shop": "there"}}, by=LOCAL_OWNER)
    async with running(database_url, ordering(), worker=True) as node:
        await answer(node, question, True)
        expected = {"charged": "charge 3 at here", "shipped": "ship a of here"}
        assert await finished(node, run_id) == expected
        again = await node.run_service.start_background("order_here", {"what": "a", "amount": 4}, by=ANN)
        await answer(node, await asked_for(node, "Ship a of there?"), False)
        assert await finished(node, again) == {"shipped": None}
    assert effects == {"charge 3 at here": 1, "ship a of here": 1, "charge 4 at there": 1}
    await assert_sound(database_url)


async def test_its_maps_and_schemas_count(database_url: str) -> None:
    maps: dict[str, Any] = {
        "fixed_kwargs": {"shop": "here"},
        "input_schema": {
            "type": "object",
            "properties": {"article": {"type": "string"}},
            "required": ["article"],
        },
        "input_map": "{what: .article}",
        "output_map": "{shipped}",
        "output_schema": {
            "type": "object",
            "properties": {"shipped": {"type": "string"}},
            "required": ["shipped"],
        },
    }
    async with running(database_url, ordering(), worker=True) as node:
        await create(node, **maps)
        run_id = await node.run_service.start_background("order_here", {"article": "a"}, by=ANN)
        await answer(node, await asked_for(node, "Ship a of here?"), True)
        assert await finished(node, run_id) == {"shipped": "ship a of here"}
        run_id = await node.run_service.start_background("order_here", {"article": "b"}, by=ANN)
        await answer(node, await asked_for(node, "Ship b of here?"), False)
        assert await run_reaches(node, run_id, "succeeded", "failed") == "failed"
        run = await node.runs.by_id(run_id)
        assert run is not None
        assert run.error is not None
        assert "output_schema" in run.error["error"]


async def test_a_narrower_schema_is_not_asked_of_the_base_tools_own_defaults(database_url: str) -> None:
    """Where a preset is called by another run, it is called with what was given, and not with what the base makes of it."""
    narrow = {
        "type": "object",
        "properties": {"what": {"type": "string"}, "amount": {"type": "integer", "minimum": 5}},
        "required": ["what"],
    }

    @tool(resumable=True)
    async def outer() -> Any:
        return await call_tool("order_here", {"what": "a"})

    async with running(database_url, ordering(), outer, worker=True) as node:
        await create(node, input_schema=narrow)
        run_id = await node.run_service.start_background("outer", {}, by=ANN)
        await answer(node, await asked_for(node, "Ship a of here?"), True)
        assert (await finished(node, run_id))["charged"] == "charge 3 at here"
    assert set(effects.values()) == {1}
    await assert_sound(database_url)


async def test_an_agent_waits_for_its_run(database_url: str, model: Model) -> None:
    said = prompt(say(tools=[call("order_here", what="a"), call("order_here", what="b")]), say("Done."))
    async with running(database_url, agent(LatePreset("order_here")), ordering(), worker=True) as node:
        await create(node)
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        await answer(node, await asked_for(node, "Ship a of here?"), True)
        await answer(node, await asked_for(node, "Ship b of here?"), True)
        assert await finished(node, run_id) == "Done."
    offered = model.asked[-1].body["tools"][0]["function"]
    assert set(offered["parameters"]["properties"]) == {"what", "amount"}
    assert effects == {"charge 3 at here": 2, "ship a of here": 1, "ship b of here": 1}
    await assert_sound(database_url)


@pytest.mark.parametrize("by_agent", [False, True])
async def test_its_approval_shows_what_is_fixed_and_lets_nobody_change_it(
    database_url: str, model: Model, by_agent: bool
) -> None:
    said = prompt(say(tools=[call("order_here", what="a")]), say("Done."))
    base = ordering(requires_approval=True)
    async with running(database_url, agent(LatePreset("order_here")), base, worker=True) as node:
        await create(node)
        name, given = ("helper", {"message": said}) if by_agent else ("order_here", {"what": "a"})
        run_id = await node.run_service.start_background(name, given, by=ANN)
        approval = await asked_for(node, "order_here: approve this call?")
        shown = approval.format_payload
        assert shown is not None
        assert shown["arguments"] == {"what": "a", "amount": 3, "shop": "here"}
        decided = {"decision": "approve", "digest": shown["digest"]}
        with pytest.raises(Exception, match="shop"):
            await answer(node, approval, decided | {"arguments": shown["arguments"] | {"shop": "x"}})
        await answer(node, approval, decided | {"arguments": shown["arguments"] | {"amount": 5}})
        await answer(node, await asked_for(node, "Ship a of here?"), True)
        result = await finished(node, run_id)
        assert result == (
            "Done." if by_agent else {"charged": "charge 5 at here", "shipped": "ship a of here"}
        )
    assert effects == {"charge 5 at here": 1, "ship a of here": 1}
    await assert_sound(database_url)


async def test_an_agent_may_have_calls_approved_that_others_make_without(
    database_url: str, model: Model
) -> None:
    said = prompt(say(tools=[call("order_here", what="a")]), say("Done."))
    helper = agent(LatePreset("order_here").needing_approval())
    async with running(database_url, helper, ordering(), worker=True) as node:
        await create(node)
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        approval = await asked_for(node, "order_here: approve this call?")
        assert effects == Counter()
        assert approval.format_payload is not None
        given: Any = {"decision": "approve", "digest": approval.format_payload["digest"]}
        given["arguments"] = approval.format_payload["arguments"] | {"amount": 7}
        await answer(node, approval, given)
        await answer(node, await asked_for(node, "Ship a of here?"), True)
        assert await finished(node, run_id) == "Done."
    assert effects == {"charge 7 at here": 1, "ship a of here": 1}
    await assert_sound(database_url)


async def test_what_cannot_be_put_around_it_is_refused(database_url: str) -> None:
    async with running(database_url, ordering()) as node:
        with pytest.raises(Exception, match="extension"):
            await create(node, extensions=["ask_external"])
        made = await node.presets.try_out(ORDER)
        assert isinstance(made, PresetTool)
        assert made.checkpointed
