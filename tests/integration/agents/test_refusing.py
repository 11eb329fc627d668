"""What may not park is refused before anything is stored; what ends badly ends the whole run, and says why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rejoinder.contract.errors import RejoinderError, RunTerminalFailed
from rejoinder.node import Node
from rejoinder.runs.agent import Agent
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from rejoinder.store.database import Database
from rejoinder.tools.interactions import ask_tool
from tests.integration.agents.support import SCRIPTED, agent, asking, finished
from tests.integration.agents.test_once import answer, pay
from tests.integration.core.support import assert_sound, in_an_hour, open_questions, run_reaches, the_question
from tests.integration.nodes import ANN, running
from tests.live.rig.model import Model, fail, prompt, say
from tests.live.rig.model import tool as call
from tests.support import MovableClock, assert_eventually


async def called(node: Node, said: str) -> Any:
    return await node.run_service.call("helper", {"message": said}, by=ANN, door="test")


async def questions(database: Database) -> int:
    return int(await database.value("SELECT count(*) FROM rejoinder.question"))


@pytest.mark.parametrize("provider", ["memory", "off"])
async def test_a_checkpointer_that_no_other_worker_reads_refuses_a_park(
    database_url: str, database: Database, model: Model, provider: str
) -> None:
    said = prompt(say(tools=[asking("Ship it?")]), say("Done."))
    async with running(database_url, agent(ask_tool), llm_provider_checkpoint=provider) as node:
        with pytest.raises(RejoinderError) as refused:
            await called(node, said)
        assert refused.value.code == "cannot-park"
        assert "LLM_PROVIDER_CHECKPOINT" in refused.value.message
        # It still works for all that does not park.
        assert (await called(node, prompt(say("Hello.")))).result == "Hello."
    assert await questions(database) == 0


@pytest.mark.parametrize("provider", ["sqlite"])
async def test_a_provider_that_is_not_served_is_told_as_a_setting(
    database_url: str, model: Model, provider: str
) -> None:
    async with running(database_url, agent(ask_tool), llm_provider_checkpoint=provider) as node:
        with pytest.raises(RejoinderError) as refused:
            await called(node, "Hello")
        assert refused.value.code == "configuration"
        assert "LLM_PROVIDER_CHECKPOINT" in refused.value.message


async def test_a_deadline_beyond_what_checkpoints_are_kept_is_refused_with_both_numbers(
    database_url: str, database: Database, model: Model
) -> None:
    # Seven days of retention, one of them left for the answer to arrive: six.
    inside, beyond = (datetime.now(UTC) + timedelta(days=6, minutes=one) for one in (-1, 1))
    said = prompt(
        say(tools=[call("ask", question="When?", mode="async", expiry_at=beyond.isoformat())]),
        say(tools=[call("ask", question="When?", mode="async", expiry_at=inside.isoformat())]),
        say("Done."),
    )
    async with running(database_url, agent(ask_tool)) as node:
        assert (await called(node, said)).kind == "parked"
        assert (await the_question(node)).timeout_at == inside
    told = model.asked[1].body["messages"][-1]["content"]
    for part in ("When?", beyond.isoformat(), "10080 minutes", "1440 minutes"):
        assert part in told
    assert await questions(database) == 1


async def test_the_margins_are_those_that_are_set(database_url: str, model: Model) -> None:
    said = prompt(say(tools=[asking("When?")]), say("Done."))
    settings: dict[str, Any] = {
        "llm_provider_checkpoint_retention_waiting_minutes": 90,
        "llm_provider_checkpoint_retention_finished_minutes": 90,
        "interactions_idle_ttl_seconds": 1860,
    }
    async with running(database_url, agent(ask_tool), **settings) as node:
        # An hour is a minute too long.
        assert (await called(node, said)).kind == "result"
        assert "expiry_at" in model.asked[-1].body["messages"][-1]["content"]
    async with running(
        database_url, agent(ask_tool), **(settings | {"interactions_idle_ttl_seconds": 1740})
    ) as node:
        assert (await called(node, said)).kind == "parked"


async def test_a_lapse_that_kills_takes_the_whole_run_and_its_siblings(
    database_url: str, model: Model, clock: MovableClock
) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=10)).isoformat()
    said = prompt(
        say(tools=[call("ask", question="Soon?", mode="async", expiry_at=soon), call("pay", what="a")]),
        say("Done."),
    )
    async with running(database_url, agent(ask_tool, pay), worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        by_text = {q.question: q for q in await open_questions(node, 2)}
        assert await run_reaches(node, run_id, "parked") == "parked"
        await clock.advance(1200)
        node.deadlines.look()
        assert await run_reaches(node, run_id, "failed") == "failed"
        run = await node.runs.by_id(run_id)
        assert run is not None
        assert run.error is not None
        assert run.error["code"] == "interaction-expired"
        sibling = await node.questions.by_id(by_text["Ship a?"].id)
        assert sibling is not None
        assert sibling.state == "cancelled"
    assert len(model.asked) == 1
    await assert_sound(database_url)


async def test_a_lapse_under_resume_is_that_calls_answer(
    database_url: str, model: Model, clock: MovableClock
) -> None:
    said = prompt(say(tools=[call("pay", what="a"), call("pay", what="b")]), say("Done."))
    async with running(database_url, agent(pay), worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        by_text = {q.question: q for q in await open_questions(node, 2)}
        assert await run_reaches(node, run_id, "parked") == "parked"
        await answer(node, by_text["Ship b?"], "yes")
        await clock.advance(7200)
        node.deadlines.look()
        assert await finished(node, run_id) == "Done."
    told = sorted(m["content"] for m in model.asked[-1].body["messages"] if m["role"] == "tool")
    assert told == ["a: nobody", "b: yes"]


async def test_a_tool_that_asks_and_then_does_something_else_ends_the_run(
    database_url: str, database: Database, model: Model
) -> None:
    @tool
    async def forgets() -> str:
        """Forget to return what ask returned."""
        await ask("Ship it?", mode="async", expiry_at=in_an_hour())
        return "shipped"

    @tool
    async def breaks() -> str:
        """Break after asking."""
        await ask("Ship it?", mode="async", expiry_at=in_an_hour())
        raise ValueError("secret detail")

    for one in ("forgets", "breaks"):
        async with running(database_url, agent(forgets, breaks)) as node:
            with pytest.raises(RejoinderError) as refused:
                await called(node, prompt(say(tools=[call(one)]), say("Done.")))
            assert refused.value.code == "cannot-park"
            assert "secret detail" not in refused.value.message
    assert await database.value("SELECT count(*) FROM rejoinder.question WHERE state = 'pending'") == 0
    await assert_sound(database_url)


async def test_an_error_of_a_tool_is_the_models_to_know_by_its_name(database_url: str, model: Model) -> None:
    @tool
    async def fails(what: str) -> str:
        """Fail."""
        raise ValueError("secret detail")

    @tool
    async def ends() -> str:
        """End the run."""
        raise RunTerminalFailed("the account is closed")

    async with running(database_url, agent(fails, ends)) as node:
        said = prompt(say(tools=[call("fails", what="a"), call("fails", wrong=1)]), say("I could not."))
        assert (await called(node, said)).result == "I could not."
        told = [m["content"] for m in model.asked[-1].body["messages"] if m["role"] == "tool"]
        assert "ValueError" in told[0]
        assert "secret detail" not in told[0]
        assert "argument" in told[1]
        with pytest.raises(RunTerminalFailed, match="account is closed"):
            await called(node, prompt(say(tools=[call("ends")]), say("Done.")))


async def test_an_interrupt_of_the_graphs_own_is_refused(database_url: str, model: Model) -> None:
    def build(checkpointer: Any) -> Any:
        from langgraph.graph import START, MessagesState, StateGraph
        from langgraph.types import interrupt

        def stop(state: MessagesState) -> dict[str, Any]:
            return {"messages": [interrupt("your own?")]}

        return (
            StateGraph(MessagesState)
            .add_node("stop", stop)
            .add_edge(START, "stop")
            .compile(checkpointer=checkpointer)
        )

    async with running(database_url, Agent("helper", graph=build)) as node:
        with pytest.raises(RunTerminalFailed, match="interrupt of its own"):
            await called(node, "Hello")


async def test_a_graph_that_leaves_its_checkpointer_is_refused(database_url: str, model: Model) -> None:
    def build() -> Any:
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.graph import START, MessagesState, StateGraph

        graph = StateGraph(MessagesState).add_node("nothing", lambda state: {}).add_edge(START, "nothing")
        return graph.compile(checkpointer=InMemorySaver())

    async with running(database_url, Agent("helper", graph=build)) as node:
        with pytest.raises(RejoinderError, match="checkpointer"):
            await called(node, "Hello")


async def test_code_of_a_graph_that_asks_by_itself_is_told_to_use_a_tool(
    database_url: str, database: Database, model: Model
) -> None:
    def build() -> Any:
        from langgraph.graph import START, MessagesState, StateGraph

        async def review(state: MessagesState) -> dict[str, Any]:
            await ask("Ship it?", mode="async", expiry_at=in_an_hour())
            return {}

        return StateGraph(MessagesState).add_node("review", review).add_edge(START, "review")

    async with running(database_url, Agent("helper", graph=build)) as node:
        with pytest.raises(RejoinderError, match="in one of its tools"):
            await called(node, "Hello")
    assert await questions(database) == 0


async def test_a_failing_model_is_tried_again_from_the_checkpoint(database_url: str, model: Model) -> None:
    said = prompt(say(tools=[call("pay", what="a")]), say("Done."))
    async with running(database_url, agent(pay), worker=True) as node:
        run_id = await node.run_service.start_background("helper", {"message": said}, by=ANN)
        question = await the_question(node)
        assert await run_reaches(node, run_id, "parked") == "parked"
        model.rule("SCRIPT", *[fail(500, "down")] * 5)
        await answer(node, question, "yes")
        await assert_eventually(lambda: len(model.asked) >= 2)
        model.reset()
        assert await finished(node, run_id) == "Done."


async def test_a_missing_variable_of_a_model_is_named(database_url: str) -> None:
    bare = Agent("helper", model=SCRIPTED)
    async with running(database_url, bare) as node:
        with pytest.raises(RejoinderError, match="SCRIPTED_BASE_URL"):
            await called(node, "Hello")
