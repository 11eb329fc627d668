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


@pytest.mark.parametrize("everybody", [True, False])
async def test_it_asks_two_things_and_sums_up(database_url: str, everybody: bool) -> None:
    async with running(database_url, *demo(), worker=True) as node:
        run_id = await node.run_service.start_background("demo_agent", {"message": "Plan the trip."}, by=ANN)
        await run_reaches(node, run_id, "parked")
        questions = {one.answer_format: one for one in await open_questions(node, 2)}
        assert questions["select"].format_payload is not None
        options = questions["select"].format_payload["options"]
        assert options[2] == "Night train, 11 hours, 129 euro"
        await node.asks.answer(questions["confirm"].id, everybody, by=ANN, via="test")
        assert await run_reaches(node, run_id, "parked") == "parked"
        await node.asks.answer(questions["select"].id, options[2], by=ANN, via="test")
        await run_reaches(node, run_id, "succeeded")
        run = await node.runs.by_id(run_id)
        assert run is not None
        assert str(run.result).strip() == options[2] + (
            ": booked for six people." if everybody else ": one seat is held, and the rest waits."
        )
        await assert_sound(database_url)


async def test_it_is_left_out_where_agents_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rejoinder.agents.runnable.find_spec", lambda name: None)
    assert "demo_agent" not in with_demo(Registry())
    assert "demo_clean_up" in with_demo(Registry())
