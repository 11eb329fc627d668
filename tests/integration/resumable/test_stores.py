"""Resumable tools where checkpoints are kept elsewhere: on a Redis of their own, and in another database."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder.store.database import Database
from tests.integration.agents.support import finished
from tests.integration.core.support import assert_sound, run_reaches
from tests.integration.nodes import running
from tests.integration.resumable.test_deaths import effects, paying, two, yes
from tests.integration.resumable.test_once import answer, asked_for, begin


@pytest.fixture(params=["redis", "postgres"])
def stores(request: pytest.FixtureRequest, redis_url: str, empty_database_url: str) -> dict[str, Any]:
    elsewhere = redis_url if request.param == "redis" else empty_database_url
    return {
        "llm_provider_checkpoint": request.param,
        "llm_provider_checkpoint_conn_string": elsewhere,
        "llm_provider_checkpoint_retention_finished_minutes": 1e-9,
    }


async def test_a_run_goes_on_in_another_process(
    database_url: str, database: Database, stores: dict[str, Any]
) -> None:
    effects.clear()
    async with running(database_url, paying(False), worker=True, **stores) as first:
        run_id = await begin(first, "pay")
        await asked_for(first, "Really?")
        assert await run_reaches(first, run_id, "parked", "failed") == "parked"
    async with running(database_url, paying(False), worker=True, **stores) as second:
        for text in ("Really?", "Ship?"):
            await answer(second, await asked_for(second, text), True)
        assert await finished(second, run_id) == ["charged", True, True, "shipped"]
        assert await second.agents.sweep(second.asks) == {"swept": 1, "stranded": 0}
    assert effects == {"charge": 1, "ship": 1}
    assert await database.value("SELECT to_regclass('rejoinder_checkpoints.checkpoints')") is None
    await assert_sound(database_url)


@pytest.mark.parametrize("point", ["checkpoint.writing", "step.recorded", "agent.stopped", "resume.returned"])
async def test_a_worker_that_stops_is_taken_over(
    database_url: str, stores: dict[str, Any], point: str
) -> None:
    """Its checkpoints are not in our transactions. The steps are, and they say what was done."""
    async with two(database_url, paying(False), **stores) as pair:
        await pair.start(0)
        assert await pair.state() == ("parked", False, None)
        await yes(pair)
        await pair.stalled_then_taken_over(point, pair.resume)
        assert await pair.state() == ("succeeded", False, None)
        assert await pair.result() == ["charged", True, True, "shipped"]
    assert effects == {"charge": 1, "ship": 1}
    await assert_sound(database_url)
