"""The demo's agent, as a newcomer meets it: no key, no network, two questions at once."""

from __future__ import annotations

import pytest

from rejoinder.launch.exposed import with_demo
from rejoinder.runs.manifest import Registry
from rejoinder.runs.tools import Tool
from tests.integration.core.support import assert_sound, open_questions, run_reaches
from tests.integration.nodes import ANN, BUILTIN, running


def demo() -> list[Tool]:
    return [one.tool for one in with_demo(Registry()) if one.tool not in BUILTIN]


async def test_it_asks_two_things_and_sums_up(database_url: str) -> None:
    async with running(database_url, *demo(), worker=True) as node:
        run_id = await node.run_service.start_background("demo_agent", {"message": "Plan the trip."}, by=ANN)
        await run_reaches(node, run_id, "parked")
        asked = {one.question: one for one in await open_questions(node, 2)}
        way = asked["How shall the team travel to Lisbon?"]
        seats = asked["How many seats shall I book?"]
        assert way.format_payload is not None
        chosen = way.format_payload["options"][2]
        assert chosen == "Night train, 11 hours, 129 euro"
        await node.asks.answer(seats.id, "All six", by=ANN, via="test")
        assert await run_reaches(node, run_id, "parked") == "parked"
        await node.asks.answer(way.id, chosen, by=ANN, via="test")
        await run_reaches(node, run_id, "succeeded")
        run = await node.runs.by_id(run_id)
        assert run is not None
        assert str(run.result).strip() == f"{chosen}. Seats: all six. Nothing was really booked."
        await assert_sound(database_url)


async def test_it_is_left_out_where_agents_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rejoinder.agents.runnable.find_spec", lambda name: None)
    assert "demo_agent" not in with_demo(Registry())
    assert "demo_clean_up" in with_demo(Registry())
