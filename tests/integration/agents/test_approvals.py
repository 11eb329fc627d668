"""An agent whose tools need approval: it parks on the call, and the model is told what became of it."""

from __future__ import annotations

from typing import Any

from rejoinder.runs.tools import tool
from tests.integration.agents.support import agent, finished
from tests.integration.core.support import assert_sound, open_questions, run_reaches
from tests.integration.core.test_approvals import approve
from tests.integration.nodes import ANN, BOB, running
from tests.live.rig.model import Model, prompt, say
from tests.live.rig.model import tool as call


async def test_parallel_calls_are_approved_edited_and_denied_each_by_itself(
    database_url: str, model: Model
) -> None:
    paid: list[int] = []

    @tool(requires_approval=True)
    async def pay(amount: int) -> str:
        """Pay somebody."""
        paid.append(amount)
        return f"paid {amount}"

    calls = [call("pay", amount=one) for one in (1, 20, 300)]
    said = prompt(say(tools=calls), say("Done."))
    async with running(database_url, agent(pay), worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        assert await run_reaches(node, run_id, "parked", "failed") == "parked"
        questions = {q.format_payload["arguments"]["amount"]: q for q in await open_questions(node, 3)}  # type: ignore[index]
        answers: dict[int, dict[str, Any]] = {
            300: {"decision": "deny", "reason": "too much"},
            1: approve(questions[1]),
            20: approve(questions[20], arguments={"amount": 15}),
        }
        for amount, answer in answers.items():
            await node.asks.answer(questions[amount].id, answer, by=BOB, via="inbox")
        assert await finished(node, run_id) == "Done."
    assert sorted(paid) == [1, 15]
    told = sorted(m["content"] for m in model.asked[-1].body["messages"] if m["role"] == "tool")
    assert told[-2:] == ["paid 1", "paid 15"]
    assert "denied by bob" in told[0]
    assert "too much" in told[0]
    await assert_sound(database_url)


async def test_one_agent_s_calls_need_approval_and_other_callers_do_not(
    database_url: str, model: Model
) -> None:
    done: list[str] = []

    @tool
    async def wipe(what: str) -> str:
        done.append(what)
        return "wiped"

    said = prompt(say(tools=[call("wipe", what="disk")]), say("Done."))
    async with running(database_url, wipe, agent(wipe.needing_approval()), worker=True) as node:
        await node.run_service.call("wipe", {"what": "slate"}, by=ANN, door="test")
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        (question,) = await open_questions(node, 1)
        assert done == ["slate"]
        await node.asks.answer(question.id, approve(question), by=BOB, via="inbox")
        await finished(node, run_id)
    assert done == ["slate", "disk"]
