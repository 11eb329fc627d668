"""kill -9 at every named pause point: nothing is lost, nothing is done twice, and what cannot go on says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import httpx2
import pytest

from rejoinder.contract.pause import POINTS
from tests.acceptance.conftest import Fleet
from tests.integration.agents.test_deaths import AFTER, BEFORE
from tests.integration.core.support import assert_sound
from tests.support import MovableClock, Process, assert_eventually

pytestmark = pytest.mark.timeout(150)


async def victim(fleet: Fleet, command: str, point: str) -> Process:
    process = fleet.start(command, pause=f"{point}=kill")
    if command == "serve":
        await process.wait_ready()
    else:
        await fleet.joined(process)
    return process


async def died(process: Process) -> None:
    assert await process.wait_ended(40) == -9


async def ends(fleet: Fleet, run_id: str) -> Any:
    """Answer what the run still asks until it has ended."""

    async def over() -> Any:
        row = await fleet.state_of(run_id)
        if row["state"] not in ("running", "parked"):
            return row
        open_one = await fleet.value(
            "SELECT q.id::text FROM rejoinder.question q JOIN rejoinder.run r ON r.id = q.run_id "
            "WHERE r.id = $1::uuid AND q.state = 'pending' AND r.state = 'parked'",
            run_id,
        )
        if open_one:
            assert (await fleet.answer(fleet.servers[0], open_one)).status_code in (200, 409)
        return None

    return await assert_eventually(over, f"the run stays open: {await fleet.state_of(run_id)}", 40)


async def judge(fleet: Fleet, run_id: str, tool: str) -> None:
    row, effects = await ends(fleet, run_id), await fleet.effects(run_id)
    if tool == "again" or row["state"] == "succeeded":
        assert row["state"] == "succeeded", dict(row)
        assert set(effects) == {"start", "resume"}
    else:
        assert row["state"] in ("lost", "failed")
        assert row["held"], "it cannot go on, and nobody is told"
    if tool == "once":
        assert max(effects.values(), default=0) <= 1, effects
    await assert_sound(fleet.database_url)


async def while_starting(fleet: Fleet, point: str, tool: str) -> None:
    """The first worker that takes the run dies at the point; another one is there afterwards."""
    assert fleet.worker is not None
    process = await victim(fleet, "worker", point)
    fleet.worker.pause()
    try:
        run_id = await fleet.start_run(tool)
        await died(process)
    finally:
        fleet.worker.resume()
    await judge(fleet, run_id, tool)


async def while_resuming(fleet: Fleet, point: str, tool: str) -> None:
    assert fleet.worker is not None
    run_id = await fleet.start_run(tool)
    await fleet.reaches(run_id, "parked")
    process = await victim(fleet, "worker", point)
    fleet.worker.pause()
    try:
        answer = await fleet.answer(fleet.servers[0], await fleet.question_of(run_id))
        assert answer.status_code == 200
        await died(process)
    finally:
        fleet.worker.resume()
    await judge(fleet, run_id, tool)


async def while_answering(fleet: Fleet, point: str, tool: str) -> None:
    """The server dies under the answer. The same person answers the same once more, elsewhere."""
    run_id = await fleet.start_run(tool)
    await fleet.reaches(run_id, "parked")
    question = await fleet.question_of(run_id)
    process = await victim(fleet, "serve", point)
    try:
        await fleet.answer(process, question)
    except httpx2.TransportError:
        pass
    await died(process)
    assert (await fleet.answer(fleet.servers[0], question)).status_code == 200
    row = await fleet.reaches(run_id, "succeeded")
    assert '"answer": true' in row["result"]
    assert await fleet.effects(run_id) == {"start": 1, "resume": 1}
    await assert_sound(fleet.database_url)


async def while_asking(fleet: Fleet, point: str, tool: str) -> None:
    """The server dies under its blocked caller: the question is withdrawn, and whoever answers is told."""
    process = await victim(fleet, "serve", point)
    with pytest.raises(httpx2.TransportError):
        await fleet.call(process, "blocked")
    await died(process)
    rows = "SELECT id::text FROM rejoinder.question WHERE mode = 'sync' ORDER BY created_at DESC LIMIT 1"
    question = await fleet.value(rows)

    async def withdrawn() -> Any:
        return await fleet.value(
            "SELECT reason FROM rejoinder.question WHERE id = $1::uuid AND state = 'cancelled'", question
        )

    assert await assert_eventually(withdrawn, "it was not withdrawn", 30) == "asker gone"
    answer = await fleet.answer(fleet.servers[0], question)
    assert answer.status_code == 409
    assert "gone" in answer.json()["error"]
    assert await fleet.value("SELECT count(*) FROM effect WHERE name = 'answered'") == 0
    await assert_sound(fleet.database_url)


async def while_expiring(fleet: Fleet, point: str, tool: str) -> None:
    run_id = await fleet.start_run(tool, on_expiry="resume")
    await fleet.reaches(run_id, "parked")
    assert fleet.worker is not None
    others = [*fleet.servers, fleet.worker]
    process = await victim(fleet, "worker", point)
    for other in others:
        other.pause()
    try:
        await MovableClock(fleet.database_url).advance(31 * 86_400)
        await died(process)
    finally:
        for other in others:
            other.resume()
        await MovableClock(fleet.database_url).advance(-31 * 86_400)
    row = await fleet.reaches(run_id, "succeeded")
    assert "interaction_expired" in row["result"]
    assert await fleet.effects(run_id) == {"start": 1, "resume": 1}
    await assert_sound(fleet.database_url)


Flow = Callable[[Fleet, str, str], Coroutine[Any, Any, None]]
FLOWS: dict[str, Flow] = {
    "ask.recorded": while_asking,
    "ask.waiting": while_asking,
    "answer.validated": while_answering,
    "answer.committed": while_answering,
    "notify.sent": while_answering,
    "expiry.committed": while_expiring,
    "run.picked": while_starting,
    "run.entered": while_starting,
    "run.returned": while_starting,
    "park.sealed": while_starting,
    "resume.picked": while_resuming,
    "resume.entered": while_resuming,
    "resume.returned": while_resuming,
    "run.finished": while_resuming,
}
TOOLS: dict[Flow, tuple[str, ...]] = {
    while_starting: ("once", "again"),
    while_resuming: ("once", "again"),
    while_asking: ("blocked",),
}


#: Points inside an agent's run, where tests/integration/agents/test_deaths.py and test_paused_workers.py stop and replace
#: workers.
OF_AGENTS = {point for point in (*BEFORE, *AFTER) if point.startswith(("step.", "agent."))} | {
    "checkpoint.writing",
    "checkpoint.held",
    "step.interrupted",
}
#: Points between runs that call each other.
OF_CHAINS = {"nested.parked", "chain.settled"}
#: Points of a preset's change; tests/acceptance/test_presets.py.
OF_PRESETS = {"preset.seen", "preset.written"}
#: Points of taking a schedule's turns; tests/acceptance/test_schedules.py.
OF_SCHEDULES = {"schedule.planned", "schedule.taken"}

#: Points between an event and what hooks make of it; tests/acceptance/test_hooks.py.
OF_HOOKS = {
    "delivery.verified",
    "delivery.kept",
    "hook.taken",
    "hook.evaluated",
    "hook.started",
    "hook.judging",
}


def test_every_point_has_its_kill() -> None:
    assert set(FLOWS) | OF_SCHEDULES | OF_AGENTS | OF_CHAINS | OF_PRESETS | OF_HOOKS == POINTS


@pytest.mark.parametrize(
    ("point", "tool"), [(p, t) for p in sorted(FLOWS) for t in TOOLS.get(FLOWS[p], ("again",))]
)
async def test_kill(fleet: Fleet, point: str, tool: str) -> None:
    await asyncio.wait_for(FLOWS[point](fleet, point, tool), 140)
