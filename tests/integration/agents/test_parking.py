"""An agent whose tools ask parks as a whole, and goes on once, with every answer."""

from __future__ import annotations

from typing import Any

from rejoinder.contract.answers import SUSPENDED_KEY, AskAnswer, SuspendedInteraction
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from rejoinder.tools.interactions import ask_tool
from tests.integration.agents.support import agent, asking
from tests.integration.core.support import assert_sound, in_an_hour, open_questions, run_reaches, the_question
from tests.integration.nodes import ANN, running
from tests.live.rig.model import Model, prompt, say
from tests.live.rig.model import tool as call


async def test_it_parks_on_the_builtin_ask_and_goes_on_with_the_answer(
    database_url: str, model: Model
) -> None:
    said = prompt(say(tools=[asking("Ship it?", answer_format="confirm")]), say("Shipped."))
    async with running(database_url, agent(ask_tool), worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        assert await run_reaches(node, run_id, "parked", "failed", "succeeded") == "parked"
        question = await the_question(node)
        assert (question.question, question.mode, question.tool) == ("Ship it?", "async", "helper")
        await node.asks.answer(question.id, True, by=ANN, via="test")
        assert await run_reaches(node, run_id, "succeeded", "failed") == "succeeded"
        run = await node.runs.by_id(run_id)
        assert run is not None
        assert run.result == "Shipped."
    await assert_sound(database_url)
    told = model.asked[-1].body["messages"][-1]
    assert told["role"] == "tool"
    assert '"answer": true' in told["content"]


async def test_called_over_a_connection_it_answers_with_the_sentinel(database_url: str, model: Model) -> None:
    said = prompt(say(tools=[asking("Ship it?")]), say("Shipped."))
    async with running(database_url, agent(ask_tool), worker=True) as node:
        result = await node.run_service.call("helper", {"message": said}, by=ANN, door="test")
        assert result.kind == "parked"
        assert SUSPENDED_KEY in result.result
        question = await the_question(node)
        await node.asks.answer(question.id, "yes", by=ANN, via="test")
        assert await run_reaches(node, result.run_id, "succeeded", "failed") == "succeeded"


async def test_parallel_asks_collapse_into_one_park_that_resumes_once(
    database_url: str, model: Model
) -> None:
    began: list[str] = []
    ended: list[tuple[str, Any]] = []

    @tool
    async def approve(what: str) -> SuspendedInteraction:
        """Ask about one thing."""
        began.append(what)
        return await ask(f"{what}?", mode="async", expiry_at=in_an_hour())

    @approve.continuation
    async def _approved(ask_result: AskAnswer[str], arguments: dict[str, Any]) -> str:
        ended.append((arguments["what"], ask_result.answer))
        return f"{arguments['what']}: {ask_result.answer}"

    things = ["a", "b", "c"]
    said = prompt(say(tools=[call("approve", what=one) for one in things]), say("Done."))
    async with running(database_url, agent(approve), worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        assert await run_reaches(node, run_id, "parked", "failed") == "parked"
        questions = await open_questions(node, 3)
        assert len({q.park_id for q in questions}) == 1
        by_text = {q.question[0]: q for q in questions}
        for one in ("c", "a", "b"):
            assert await run_reaches(node, run_id, "parked") == "parked"
            await node.asks.answer(by_text[one].id, one.upper(), by=ANN, via="test")
        assert await run_reaches(node, run_id, "succeeded", "failed") == "succeeded"
    assert sorted(began) == things
    assert sorted(ended) == [("a", "A"), ("b", "B"), ("c", "C")]
    told = [m["content"] for m in model.asked[-1].body["messages"] if m["role"] == "tool"]
    assert sorted(told) == ["a: A", "b: B", "c: C"]
    await assert_sound(database_url)


async def test_a_listener_hears_text_calls_and_results_as_they_come(database_url: str, model: Model) -> None:
    @tool(idempotent=True)
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    said = prompt(say("Let me add.", tools=[call("add", a=2, b=3)]), say("It is ", "five."))
    heard: list[dict[str, Any]] = []
    async with running(database_url, agent(add)) as node:
        result = await node.run_service.call(
            "helper", {"message": said}, by=ANN, door="test", listen=heard.append
        )
    assert result.result == "It is five."
    assert "".join(one["text"] for one in heard if one["type"] == "text") == "Let me add.It is five."
    [called] = [one for one in heard if one["type"] == "tool_call"]
    assert (called["name"], called["arguments"]) == ("add", {"a": 2, "b": 3})
    [came] = [one for one in heard if one["type"] == "tool_result"]
    assert (came["id"], came["content"], came["failed"]) == (called["id"], "5", False)
    assert heard.index(called) < heard.index(came)
