"""Tools that call agents, and agents whose tools call others: one chain, whatever its links are."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder import AskAnswer, ask, call_tool, tool
from rejoinder.contract.errors import SuspensionError
from rejoinder.tools.interactions import ask_tool
from tests.integration.agents.support import agent, asking
from tests.integration.core.support import assert_sound, in_an_hour, run_reaches, the_question
from tests.integration.nodes import ANN, running
from tests.live.rig.model import Model, prompt, say
from tests.live.rig.model import tool as call
from tests.support import assert_eventually


@tool
async def delegate(message: str) -> Any:
    """Let the agent do it."""
    return await call_tool("helper", {"message": message})


@delegate.continuation
async def delegated(ask_result: AskAnswer[Any]) -> Any:
    return {"it said": ask_result.answer}


async def test_a_tool_waits_for_an_agent_that_parks(database_url: str, model: Model) -> None:
    said = prompt(say(tools=[asking("Ship it?")]), say("Shipped."))
    async with running(database_url, delegate, agent(ask_tool), worker=True) as node:
        first = await node.run_service.call("delegate", {"message": said}, by=ANN, door="test")
        assert first.kind == "parked"
        question = await the_question(node)
        assert question.tool == "helper"
        await node.asks.answer(question.id, "yes", by=ANN, via="test")
        await run_reaches(node, first.run_id, "succeeded")
        run = await node.runs.by_id(first.run_id)
        assert run is not None
        assert run.result == {"it said": "Shipped."}
        await assert_sound(database_url)


async def test_a_tool_that_cannot_wait_takes_the_agent_along(database_url: str, model: Model) -> None:
    @tool
    async def hurried(message: str) -> Any:
        return await call_tool("helper", {"message": message})

    said = prompt(say(tools=[asking("Ship it?")]), say("Shipped."))
    async with running(database_url, hurried, agent(ask_tool), worker=True) as node:
        with pytest.raises(SuspensionError, match="hurried, which called this run, cannot wait"):
            await node.run_service.call("hurried", {"message": said}, by=ANN, door="test")

        async def withdrawn() -> bool:
            return await node.asks.page(by=ANN, limit=9) == []

        await assert_eventually(withdrawn, "what the agent asked was left open")
        await assert_sound(database_url)


async def test_an_agents_tool_waits_for_a_run_that_asks_its_caller(database_url: str, model: Model) -> None:
    """Three links: the agent's tool calls another one, which asks up to whoever called the agent."""
    began: list[str] = []

    @tool
    async def measure(what: str) -> Any:
        began.append("measure")
        return await ask(
            to="caller", mode="async", payload={"size of": what}, answer_format="free", expiry_at=in_an_hour()
        )

    @measure.continuation
    async def measured(ask_result: AskAnswer[Any]) -> Any:
        return ask_result.answer

    @tool
    async def order(what: str) -> Any:
        """Order something in the right size."""
        began.append("order")
        return await call_tool("measure", {"what": what})

    @order.continuation
    async def ordered(ask_result: AskAnswer[Any]) -> str:
        return f"ordered in {ask_result.answer}"

    said = prompt(say(tools=[call("order", what="shirt"), call("order", what="hat")]), say("Both ordered."))
    async with running(database_url, measure, order, agent(order), worker=True) as node:
        first = await node.run_service.call("helper", {"message": said}, by=ANN, door="test")
        assert first.kind == "asks"
        standing = await node.visits.look(first.run_id, by=ANN)
        sizes = {"shirt": "L", "hat": 58}
        answers = {one.id: sizes[one.payload["size of"]] for one in standing.questions}
        assert len(answers) == 2
        done = await node.visits.resume(first.run_id, answers, by=ANN, via="test", seconds=30)
        assert done.result == "Both ordered."
        told = [m["content"] for m in model.asked[-1].body["messages"] if m["role"] == "tool"]
        assert told == ["ordered in L", "ordered in 58"]
        assert sorted(began) == ["measure", "measure", "order", "order"]
        await assert_sound(database_url)
