"""A job that the queue itself held is sent on: a run must never wait for a job that nobody takes."""

from __future__ import annotations

from rejoinder.runs.tools import tool
from rejoinder.store.database import Database
from tests.integration.core.support import assert_sound, run_reaches
from tests.integration.nodes import ANN, running


@tool(idempotent=True)
async def greet() -> str:
    """Greet."""
    return "hello"


async def test_a_held_job_is_sent_on(database_url: str, database: Database) -> None:
    async with running(database_url, greet) as node:
        run_id = await node.run_service.start_background("greet", {}, by=ANN)
        await database.execute("UPDATE rejoinder.pgqueuer SET status = 'failed'")
    async with running(database_url, greet, worker=True) as node:
        assert await run_reaches(node, run_id, "succeeded") == "succeeded"
    await assert_sound(database_url)
