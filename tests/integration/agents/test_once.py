"""What an agent's tools do is done once, and each of their questions is its own, whatever the graph plays again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rejoinder.contract.answers import AskAnswer, SuspendedInteraction
from rejoinder.contract.questions import Question
from rejoinder.node import Node
from rejoinder.runs.agent import Agent
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import Tool, tool
from rejoinder.tools.interactions import ask_tool
from tests.integration.agents.support import SCRIPTED, agent, asking, finished, subagent
from tests.integration.core.support import assert_sound, in_an_hour, open_questions, run_reaches, the_question
from tests.integration.nodes import ANN, running
from tests.live.rig.model import Model, prompt, say
from tests.live.rig.model import tool as call

#: How often each effect was had, by what it was for.
effects: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _no_effects() -> None:
    effects.clear()


@tool
async def pay(what: str) -> SuspendedInteraction:
    """Charge, ask, and ship after the answer."""
    effects[f"charge {what}"] += 1
    return await ask(f"Ship {what}?", mode="async", expiry_at=in_an_hour(), on_expiry="resume")


@pay.continuation
async def _paid(ask_result: AskAnswer[str], arguments: dict[str, Any]) -> str:
    effects[f"ship {arguments['what']}"] += 1
    return f"{arguments['what']}: {'nobody' if ask_result.expired else ask_result.answer}"


@tool
async def note(what: str) -> str:
    """Do something at once."""
    effects[f"note {what}"] += 1
    return f"noted {what}"


@tool
async def twice(what: str) -> list[SuspendedInteraction]:
    """Ask two questions in one call."""
    effects[f"begin {what}"] += 1
    return [
        await ask(f"{what} {which}?", mode="async", expiry_at=in_an_hour(), group_id="g")
        for which in ("first", "second")
    ]


@twice.continuation
async def _both(answers: dict[Any, AskAnswer[str]], arguments: dict[str, Any]) -> str:
    effects[f"end {arguments['what']}"] += 1
    return " and ".join(one.answer for one in answers.values())


@tool
async def insist(until: str) -> SuspendedInteraction:
    """Ask again and again."""
    effects["insist"] += 1
    return await ask("Say it", mode="async", expiry_at=in_an_hour())


@insist.continuation
async def _said(ask_result: AskAnswer[str], arguments: dict[str, Any]) -> str | SuspendedInteraction:
    effects[f"heard {ask_result.answer}"] += 1
    if ask_result.answer == arguments["until"]:
        return f"said {ask_result.answer}"
    return await ask(f"Not {ask_result.answer}", mode="async", expiry_at=in_an_hour())


async def answer(node: Node, question: Question, value: Any) -> None:
    await node.asks.answer(question.id, value, by=ANN, via="test")


def one_node(model: Any, tools: list[Any], checkpointer: Any) -> Any:
    """A graph in whose tools node all calls of a turn are one task, as LangGraph's own agents once had it."""
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    bound = model.bind_tools(tools)

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile(checkpointer=checkpointer)


def of_kind(kind: str, *tools: Tool) -> Agent:
    if kind == "one node":
        return Agent("helper", model=SCRIPTED, tools=tools, graph=one_node)
    return agent(*tools, kind=kind)


KINDS = ("simple", "deep", "one node")


@pytest.mark.parametrize("kind", KINDS)
async def test_calls_of_one_turn_are_one_park_and_each_effect_is_had_once(
    database_url: str, model: Model, kind: str
) -> None:
    calls = [call("pay", what=one) for one in "abc"] + [call("note", what="d")]
    said = prompt(say(tools=calls), say("Done."))
    async with running(database_url, of_kind(kind, pay, note), worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        assert await run_reaches(node, run_id, "parked", "failed") == "parked"
        questions = {q.question: q for q in await open_questions(node, 3)}
        assert len({q.park_id for q in questions.values()}) == 1
        for what in ("c", "a", "b"):
            await answer(node, questions[f"Ship {what}?"], what.upper())
        assert await finished(node, run_id) == "Done."
    assert effects == Counter(
        {f"{verb} {what}": 1 for what in "abc" for verb in ("charge", "ship")} | {"note d": 1}
    )
    told = sorted(m["content"] for m in model.asked[-1].body["messages"] if m["role"] == "tool")
    assert told == ["a: A", "b: B", "c: C", "noted d"]
    await assert_sound(database_url)


async def test_two_questions_of_one_call_are_each_their_own(database_url: str, model: Model) -> None:
    said = prompt(say(tools=[call("twice", what="x")]), say("Done."))
    async with running(database_url, agent(twice), worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        questions = {q.question: q for q in await open_questions(node, 2)}
        await answer(node, questions["x second?"], "two")
        assert await run_reaches(node, run_id, "parked") == "parked"
        await answer(node, questions["x first?"], "one")
        assert await finished(node, run_id) == "Done."
    assert model.asked[-1].body["messages"][-1]["content"] == "one and two"
    assert effects == Counter({"begin x": 1, "end x": 1})


async def test_a_question_asked_again_is_another_question(database_url: str, model: Model) -> None:
    said = prompt(say(tools=[call("insist", until="please")]), say("Done."))
    async with running(database_url, agent(insist), worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        seen = []
        for word in ("now", "well", "please"):
            question = await the_question(node)
            seen.append(question.id)
            await answer(node, question, word)
            await run_reaches(node, run_id, "parked", "succeeded")
        assert await finished(node, run_id) == "Done."
    assert len(set(seen)) == 3
    assert effects == Counter({"insist": 1, "heard now": 1, "heard well": 1, "heard please": 1})


async def test_a_call_that_was_answered_does_not_fire_again_while_its_sibling_asks_twice(
    database_url: str, model: Model
) -> None:
    said = prompt(say(tools=[call("pay", what="a"), call("insist", until="yes")]), say("Done."))
    async with running(database_url, agent(pay, insist), worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        questions = {q.question: q for q in await open_questions(node, 2)}
        await answer(node, questions["Ship a?"], "A")
        await answer(node, questions["Say it"], "no")
        again = await the_question(node)
        assert again.question == "Not no"
        await answer(node, again, "yes")
        assert await finished(node, run_id) == "Done."
    assert effects["ship a"] == effects["charge a"] == effects["insist"] == 1


async def test_ids_that_a_model_counts_anew_in_every_turn_are_different_calls(
    database_url: str, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "name", lambda kind: f"{kind}-0")
    said = prompt(say(tools=[call("pay", what="a")]), say(tools=[call("pay", what="a")]), say("Done."))
    async with running(database_url, agent(pay), worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        for word in ("first", "second"):
            await answer(node, await the_question(node), word)
            await run_reaches(node, run_id, "parked", "succeeded")
        assert await finished(node, run_id) == "Done."
    assert effects == Counter({"charge a": 2, "ship a": 2})


async def test_two_subagents_and_the_agent_ask_in_one_step_and_go_on_once(
    database_url: str, model: Model
) -> None:
    def work(*things: str) -> str:
        return prompt(say(tools=[call("pay", what=one) for one in things]), say(f"{things} done."))

    said = prompt(
        say(
            tools=[
                call("task", description=work("a", "b"), subagent_type="one"),
                call("task", description=work("c"), subagent_type="two"),
                call("pay", what="d"),
            ]
        ),
        say("All done."),
    )
    boss = agent(pay, subagents=(subagent("one", pay), subagent("two", pay)))
    async with running(database_url, boss, worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        assert await run_reaches(node, run_id, "parked", "failed") == "parked"
        questions = {q.question: q for q in await open_questions(node, 4)}
        assert len(questions) == 4
        assert len({q.park_id for q in questions.values()}) == 1
        for what in "dbca":
            assert await run_reaches(node, run_id, "parked") == "parked"
            await answer(node, questions[f"Ship {what}?"], what.upper())
        assert await finished(node, run_id) == "All done."
    assert effects == Counter({f"{verb} {what}": 1 for what in "abcd" for verb in ("charge", "ship")})
    resumed = await _entered(database_url, run_id)
    assert resumed == 2
    await assert_sound(database_url)


async def _entered(url: str, run_id: Any) -> int:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        return int(
            await connection.fetchval(
                "SELECT count(*) FROM rejoinder.event WHERE run_id = $1 AND kind IN ('run.entered', 'run.resumed')",
                run_id,
            )
        )
    finally:
        await connection.close()


async def test_a_blocking_ask_in_an_agents_tool_blocks_as_anywhere(database_url: str, model: Model) -> None:
    said = prompt(say(tools=[call("ask", question="Sure?", answer_format="confirm")]), say("Done."))
    async with running(database_url, agent(ask_tool), worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        question = await the_question(node)
        assert (question.mode, question.park_id) == ("sync", None)
        await answer(node, question, False)
        assert await finished(node, run_id) == "Done."
    assert '"answer": false' in model.asked[-1].body["messages"][-1]["content"]


async def test_an_ask_that_is_refused_is_the_models_to_mend(database_url: str, model: Model) -> None:
    said = prompt(
        say(tools=[call("ask", question="When?", mode="async")]),
        say(tools=[asking("When?")]),
        say("Done."),
    )
    async with running(database_url, agent(ask_tool), worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        await answer(node, await the_question(node), "now")
        assert await finished(node, run_id) == "Done."
    refused = model.asked[1].body["messages"][-1]
    assert "expiry_at" in refused["content"]
