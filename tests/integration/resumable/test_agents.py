"""Agents are given resumable tools: each call is a run of its own, and the agent waits for it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rejoinder import RunTerminalFailed, step, tool
from tests.integration.agents.conftest import model as model
from tests.integration.agents.support import agent, finished
from tests.integration.core.support import assert_sound
from tests.integration.nodes import ANN, running
from tests.integration.resumable.test_once import answer, asked_for, sure
from tests.live.rig.model import Model, prompt, say
from tests.live.rig.model import tool as call

effects: Counter[str] = Counter()


def charged(what: str) -> str:
    effects[what] += 1
    return what


@tool(resumable=True)
async def pay(what: str) -> str:
    """Charge, ask, ship."""
    await step("charge", charged, f"charge {what}")
    if not await sure(f"Ship {what}?"):
        raise RunTerminalFailed("They said no.")
    return await step("ship", charged, f"ship {what}")


@pytest.mark.parametrize("yes", [True, False])
async def test_an_agent_waits_for_the_runs_of_its_resumable_tools(
    database_url: str,
    model: Model,
    yes: bool,
) -> None:
    effects.clear()
    said = prompt(say(tools=[call("pay", what="a"), call("pay", what="b")]), say("Done."))
    async with running(database_url, agent(pay), pay, worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        await answer(node, await asked_for(node, "Ship a?"), True)
        await answer(node, await asked_for(node, "Ship b?"), yes)
        assert await finished(node, run_id) == "Done."
    told = [m["content"] for m in model.asked[-1].body["messages"] if m["role"] == "tool"]
    assert sorted(told)[-1] == "ship a" if not yes else sorted(told) == ["ship a", "ship b"]
    assert any("They said no." in one for one in told) is not yes
    assert effects["charge a"] == effects["charge b"] == effects["ship a"] == 1
    await assert_sound(database_url)


async def test_an_agents_own_approval_comes_before_the_run(database_url: str, model: Model) -> None:
    effects.clear()
    said = prompt(say(tools=[call("pay", what="a")]), say("Done."))
    async with running(database_url, agent(pay.needing_approval()), pay, worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        approval = await asked_for(node, "pay: approve this call?")
        assert effects == Counter()
        assert approval.format_payload is not None
        given: Any = {"decision": "approve", "digest": approval.format_payload["digest"]}
        await answer(node, approval, given)
        await answer(node, await asked_for(node, "Ship a?"), True)
        assert await finished(node, run_id) == "Done."
    assert effects == Counter({"charge a": 1, "ship a": 1})
    await assert_sound(database_url)
