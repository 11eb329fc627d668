"""Where checkpoints are kept, for how long, and how they grow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from rejoinder.contract.errors import ConfigurationError
from rejoinder.contract.settings import Settings
from rejoinder.runs.agent import Agent
from rejoinder.runs.tools import tool
from rejoinder.store.database import Database
from rejoinder.tools.interactions import ask_tool
from tests.integration.agents.support import agent, asking, finished
from tests.integration.agents.test_once import answer
from tests.integration.core.support import assert_sound, open_questions, run_reaches, the_question
from tests.integration.doors.edge import edge
from tests.integration.nodes import ANN, running
from tests.live.rig.model import Model, prompt, say
from tests.live.rig.model import tool as call
from tests.support import MovableClock


async def threads(database: Database, run_id: Any) -> int:
    return int(
        await database.value(
            "SELECT count(*) FROM rejoinder_checkpoints.checkpoints WHERE thread_id = $1", str(run_id)
        )
    )


@pytest.mark.parametrize("provider", ["redis", "postgres"])
async def test_a_store_of_its_own_carries_a_run_from_one_process_to_another(
    database_url: str,
    database: Database,
    empty_database_url: str,
    redis_url: str,
    model: Model,
    provider: str,
) -> None:
    said = prompt(say(tools=[asking("One?"), asking("Two?")]), say(tools=[asking("Three?")]), say("Done."))
    settings: dict[str, Any] = {
        "llm_provider_checkpoint": provider,
        "llm_provider_checkpoint_conn_string": redis_url if provider == "redis" else empty_database_url,
        "llm_provider_checkpoint_retention_finished_minutes": 1e-9,
    }
    async with running(database_url, agent(ask_tool), **settings) as first:
        result = await first.run_service.call("helper", {"message": said}, by=ANN, door="test")
        assert result.kind == "parked"
    async with running(database_url, agent(ask_tool), worker=True, **settings) as second:
        for question in await open_questions(second, 2):
            await answer(second, question, "yes")
        await answer(second, await the_question(second), "yes")
        assert await finished(second, result.run_id) == "Done."
        assert await second.agents.sweep(second.asks) == {"swept": 1, "stranded": 0}
        assert await second.agents.sweep(second.asks) == {"swept": 0, "stranded": 0}
    if provider == "postgres":
        connection = await asyncpg.connect(empty_database_url)
        assert await connection.fetchval("SELECT count(*) FROM rejoinder_checkpoints.checkpoints") == 0
        await connection.close()
    assert await database.value("SELECT to_regclass('rejoinder_checkpoints.checkpoints')") is None
    await assert_sound(database_url)


async def test_ended_runs_are_swept_after_their_time_and_waiting_ones_never(
    database_url: str, database: Database, model: Model, clock: MovableClock
) -> None:
    said = prompt(say(tools=[asking("Ship it?")]), say("Done."))
    day = 86_400
    async with running(database_url, agent(ask_tool), worker=True) as node:
        ended, waits = [
            (await node.run_service.call("helper", {"message": said}, by=ANN, door="test")).run_id
            for _ in range(2)
        ]
        for question in await open_questions(node, 2):
            if question.run_id == ended:
                await answer(node, question, "yes")
        await finished(node, ended)
        await clock.advance(day - 60)
        assert await node.agents.sweep(node.asks) == {"swept": 0, "stranded": 0}
        # The question has lapsed by now, but nobody has looked: the run still waits.
        assert await threads(database, ended) > 0
        await database.execute("UPDATE rejoinder.question SET timeout_at = timeout_at + interval '6 days'")
        await clock.advance(120)
        assert await node.agents.sweep(node.asks) == {"swept": 1, "stranded": 0}
        assert await threads(database, ended) == 0
        assert await threads(database, waits) > 0
        assert await database.value("SELECT count(*) FROM rejoinder.step WHERE run_id = $1", ended) == 0


async def test_a_run_that_waits_longer_than_checkpoints_are_kept_by_now_is_ended(
    database_url: str, database: Database, model: Model, clock: MovableClock
) -> None:
    expiry = (datetime.now(UTC) + timedelta(days=5)).isoformat()
    said = prompt(say(tools=[call("ask", question="Ship it?", mode="async", expiry_at=expiry)]), say("Done."))
    shorter: dict[str, Any] = {
        "llm_provider_checkpoint_retention_waiting_minutes": 2880,
        "interactions_idle_ttl_seconds": 60,
    }
    async with running(database_url, agent(ask_tool)) as node:
        parked = await node.run_service.call("helper", {"message": said}, by=ANN, door="test")
    await clock.advance(3 * 86_400)
    async with running(database_url, agent(ask_tool), **shorter) as node:
        assert await node.agents.sweep(node.asks) == {"swept": 0, "stranded": 1}
        assert await run_reaches(node, parked.run_id, "cancelled") == "cancelled"
    await assert_sound(database_url)


def test_finished_checkpoints_are_not_kept_longer_than_waiting_ones() -> None:
    with pytest.raises(ConfigurationError, match="RETENTION_FINISHED_MINUTES"):
        Settings.load(
            llm_provider_checkpoint_retention_waiting_minutes=10,
            llm_provider_checkpoint_retention_finished_minutes=11,
        )


def counting(tools: list[Any], checkpointer: Any) -> Any:
    """A simple agent whose model calls its tool as often as its message says."""
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    from rejoinder.agents.state import SimpleAgentState

    class Counting(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **more: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **more: Any) -> ChatResult:
            done = (len(messages) - 1) // 2
            call = {"name": "read", "args": {"page": done}, "id": f"call-{done}"}
            said = AIMessage("Done.") if done == int(messages[0].text) else AIMessage("", tool_calls=[call])
            return ChatResult(generations=[ChatGeneration(message=said)])

        def _stream(self, *args: Any, **more: Any) -> Any:
            raise NotImplementedError

    return create_agent(
        Counting(messages=iter(())), tools, state_schema=SimpleAgentState, checkpointer=checkpointer
    )


async def test_what_a_conversation_takes_grows_with_its_length_and_not_with_its_square(
    database_url: str, database: Database
) -> None:
    @tool(idempotent=True)
    async def read(page: int) -> str:
        """Read a long page."""
        return f"{page:03} " + "x" * 2000

    reader = Agent("helper", tools=(read,), graph=counting, recursion_limit=1000)
    sizes = []
    async with running(database_url, reader) as node:
        for messages in (50, 100, 200):
            said = str(messages // 2)
            result = await node.run_service.call("helper", {"message": said}, by=ANN, door="test")
            assert result.result == "Done."
            sizes.append(
                int(
                    await database.value(
                        """
                        SELECT sum(bytes) FROM (
                            SELECT octet_length(blob) AS bytes, thread_id FROM rejoinder_checkpoints.checkpoint_blobs
                            UNION ALL
                            SELECT octet_length(blob), thread_id FROM rejoinder_checkpoints.checkpoint_writes
                            UNION ALL
                            SELECT octet_length(checkpoint::text || metadata::text), thread_id
                              FROM rejoinder_checkpoints.checkpoints) AS kept
                         WHERE thread_id = $1
                        """,
                        str(result.run_id),
                    )
                )
            )
    # Each message costs the same, the hundredth and the two hundredth.
    first, second = (sizes[1] - sizes[0]) / 50, (sizes[2] - sizes[1]) / 100
    assert second < first * 1.05, sizes
    # And hardly more than it is long: half of them are 2,000 characters.
    assert second < 2500, sizes


async def test_sweeping_is_an_administrators(database_url: str) -> None:
    async with edge(database_url) as doors:
        writer = await doors.client("writer", "read", "write")
        assert (await writer.post("/api/checkpoints/sweep")).status_code == 403
        swept = await doors.owner.post("/api/checkpoints/sweep")
        assert (swept.status_code, swept.json()["data"]) == (200, {"swept": 0, "stranded": 0})
