"""A resumable tool under real processes: its workers are killed one after the other, each at another point."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import SHORT, Fleet
from tests.integration.core.support import assert_sound
from tests.support import Process, assert_eventually, running_processes

TOOLS = '''
import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from rejoinder import ask, current_run, step, tool

LOG = Path(__file__).with_name("effects")


@step
async def effect(name: str) -> str:
    with LOG.open("a") as log:
        log.write(f"{name} {current_run().idempotency_key}\\n")
    return name


async def sure(text: str) -> bool:
    answer = await ask(
        text, answer_format="confirm", mode="async", expiry_at=datetime.now(UTC) + timedelta(days=2)
    )
    return answer.answer


@tool(resumable=True)
async def deliver():
    """Two rounds of an effect, two questions at once, and an effect after each."""
    said = []
    for round in range(2):
        await effect(f"begin {round}")

        async def branch(number: int):
            await asyncio.sleep(0)
            return await sure(f"{round}.{number}?")

        for number, answer in enumerate(await asyncio.gather(branch(1), branch(2)), 1):
            said.append(await effect(f"{round}.{number} {answer}"))
    return said
'''
#: At these the function of a step may have run and not be recorded. Checkpoints are written beside the next step.
INSIDE = {"step.returned", "checkpoint.writing", "checkpoint.held"}
POINTS = (
    "run.entered",
    "resume.entered",
    "step.entered",
    "step.returned",
    "step.recorded",
    "ask.recorded",
    "checkpoint.writing",
    "checkpoint.held",
    "agent.stopped",
    "park.sealed",
    "resume.returned",
)


async def moved(fleet: Fleet, run_id: str, worker: Process, known: set[str]) -> None:
    """Until the worker has died, the run has ended, or it asks something new."""

    async def found() -> bool:
        rows = await fleet.rows(
            "SELECT q.id::text FROM rejoinder.question q JOIN rejoinder.run r ON r.id = q.run_id "
            "WHERE q.state = 'pending' AND r.state = 'parked'"
        )
        ended = (await fleet.state_of(run_id))["state"] not in ("running", "parked")
        return ended or worker.returncode is not None or bool({row[0] for row in rows} - known)

    await assert_eventually(found, "the run does not move", 60)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2])
async def test_each_step_is_done_once_whatever_is_killed(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text("tools: [{module: ./tools.py}]\n", encoding="utf-8")
    chance = random.Random(seed)
    points = chance.sample(POINTS, 3)
    with running_processes(tmp_path) as processes:
        fleet = Fleet(database_url, processes, manifest, [], None)

        def start(command: str, **more: Any) -> Process:
            words = ("--manifest", str(manifest))
            return processes.start(command, *words, database_url=database_url, env=SHORT, **more)

        server = start("serve")
        fleet.servers = [server]
        await server.wait_ready()
        run_id = await fleet.start_run("deliver")
        known: set[str] = set()
        # Each dies at its point, wherever in the run it comes to it first.
        dying = start("worker", pause=f"{points[0]}=kill")
        killed = []
        while (await fleet.state_of(run_id))["state"] not in ("succeeded", "failed", "lost"):
            if dying.returncode is not None and points:
                killed.append(points.pop(0))
                dying = start("worker", pause=f"{points[0]}=kill" if points else "")
            rows = await fleet.rows(
                "SELECT q.id::text FROM rejoinder.question q JOIN rejoinder.run r ON r.id = q.run_id "
                "WHERE q.state = 'pending' AND r.state = 'parked'"
            )
            new = [row[0] for row in rows if row[0] not in known]
            chance.shuffle(new)
            for question in new[:1]:
                known.add(question)
                assert (await fleet.answer(server, question)).status_code == 200
            if not new:
                await moved(fleet, run_id, dying, known)
        ended = await fleet.state_of(run_id)
        assert ended["state"] == "succeeded", ended["error"]
    lines = (tmp_path / "effects").read_text(encoding="utf-8").splitlines()
    names = Counter(line.rsplit(" ", 1)[0] for line in lines)
    expected = {f"begin {r}" for r in range(2)} | {f"{r}.{n} True" for r in range(2) for n in (1, 2)}
    assert set(names) == expected
    # Only a worker that was killed inside of a step makes it run again, under the same key.
    again = sum(names.values()) - len(expected)
    assert again <= sum(point in INSIDE for point in killed)
    assert len(set(lines)) == len(expected)
    assert killed
    await assert_sound(database_url)
