"""An agent that asks five people in one step, two of them through subagents, and everything is killed meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import SHORT, Fleet
from tests.integration.agents.support import asking
from tests.integration.core.support import assert_sound
from tests.live.rig.model import Model, prompt, say
from tests.live.rig.model import tool as call
from tests.support import Process, assert_eventually, client, running_processes

MANIFEST = """
tools:
  - module: rejoinder.tools.interactions
agents:
  - name: chief
    kind: deep
    model: {name: "openai:scripted", base_url_env: SCRIPTED_BASE_URL, api_key_env: SCRIPTED_API_KEY}
    instructions: Do what you are told.
    tools: [ask]
    subagents:
      - {name: clerk, description: Asks a clerk., instructions: Do what you are told., tools: [ask]}
      - {name: scout, description: Asks a scout., instructions: Do what you are told., tools: [ask]}
"""


@pytest.fixture
def model() -> Iterator[Model]:
    started = Model().start()
    yield started
    started.stop()


@pytest.mark.timeout(240)
async def test_five_people_asked_in_one_step_and_every_process_killed(
    database_url: str, model: Model, tmp_path: Path
) -> None:
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(MANIFEST, encoding="utf-8")
    env = {
        **SHORT,
        "SCRIPTED_BASE_URL": model.url,
        "SCRIPTED_API_KEY": "none",
        "LANGSMITH_TRACING": "false",
    }
    with running_processes(tmp_path) as processes:
        fleet = Fleet(database_url, processes, manifest, [], None)

        async def start(command: str) -> Process:
            started = processes.start(
                command, "--manifest", str(manifest), database_url=database_url, env=env
            )
            await fleet.joined(started)
            return started

        going = [await start("serve"), await start("worker")]
        fleet.servers = [await going[0].wait_ready()]
        run_id = await fleet.start_run("chief", message=_said())
        await fleet.reaches(run_id, "parked")
        # One park, as rows, and nothing else: nobody is there any more.
        for process in going:
            process.kill()
        rows = await fleet.rows(
            "SELECT q.id::text, q.question, q.park_id, p.open, p.members FROM rejoinder.question q "
            "JOIN rejoinder.park p ON p.id = q.park_id WHERE q.run_id = $1::uuid AND q.state = 'pending'",
            run_id,
        )
        assert sorted(row["question"] for row in rows) == ["Five?", "Four?", "One?", "Three?", "Two?"]
        assert {(row["open"], row["members"]) for row in rows} == {(5, 5)}
        assert len({row["park_id"] for row in rows}) == 1

        # Answered in any order at a server that knows nothing of before; killed again between the answers.
        order = random.Random(3).sample(rows, len(rows))
        for i, row in enumerate(order):
            server = await start("serve")
            await server.wait_ready()
            async with client(server.url) as http:
                reply = await http.post(
                    f"/api/interactions/{row['id']}/answer", json={"answer": row["question"].lower()}
                )
            assert reply.status_code == 200, reply.text
            server.kill()
            assert (await fleet.state_of(run_id))["state"] == "parked", f"after {i + 1} answers"
        assert await fleet.value("SELECT count(*) FROM rejoinder.resume WHERE run_id = $1::uuid", run_id) == 1

        # The first worker that takes it dies with the answers in its hands; the next one goes on.
        before = len(model.asked)
        dying = processes.start(
            "worker",
            "--manifest",
            str(manifest),
            database_url=database_url,
            env=env,
            pause="resume.entered=kill",
        )
        await dying.wait_ended(60)
        await start("worker")
        ended = await fleet.reaches(run_id, "succeeded", "failed", "lost")
        assert ended["state"] == "succeeded", ended["error"]
        assert "All told." in str(ended["result"])
        # Once: the chief's last line, and one of each subagent.
        assert len(model.asked) - before == 3
        told = {m["content"] for m in model.asked[-1].body["messages"] if m["role"] == "tool"}
        for number in ("one?", "two?", "three?", "clerk: four?", "scout: five?"):
            assert sum(number in one for one in told) == 1, (number, told)
    await assert_sound(database_url)


def _said() -> str:
    def sub(name: str, question: str) -> Any:
        inner = prompt(say(tools=[asking(question)]), say(f"{name}: {question.lower()}"))
        return call("task", description=inner, subagent_type=name)

    return prompt(
        say(
            tools=[
                asking("One?"),
                asking("Two?"),
                asking("Three?"),
                sub("clerk", "Four?"),
                sub("scout", "Five?"),
            ]
        ),
        say("All told."),
    )


TOOLS = '''
from datetime import UTC, datetime, timedelta
from rejoinder import ask, call_tool, tool


@tool
async def measure():
    return await ask("How long?", mode="async", expiry_at=datetime.now(UTC) + timedelta(days=2))


@measure.continuation
async def measured(ask_result):
    return ask_result.answer


@tool(idempotent=True)
async def order():
    """Order something."""
    return await call_tool("measure")


@order.continuation
async def ordered(ask_result):
    return "ordered: " + ask_result.answer
'''


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("place", "calls"), [("nested.parked", 2), ("step.recorded", 1)])
async def test_a_worker_that_dies_over_a_called_run_leaves_one_chain(
    database_url: str, model: Model, tmp_path: Path, place: str, calls: int
) -> None:
    """Before the wait is recorded the call is made anew and the old one ends; after that it is found again."""
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(
        "tools: [{module: ./tools.py}]\nagents: [{name: helper, tools: [order], model: "
        '{name: "openai:scripted", base_url_env: SCRIPTED_BASE_URL, api_key_env: SCRIPTED_API_KEY}}]\n',
        encoding="utf-8",
    )
    env = {
        **SHORT,
        "SCRIPTED_BASE_URL": model.url,
        "SCRIPTED_API_KEY": "none",
        "LANGSMITH_TRACING": "false",
    }
    with running_processes(tmp_path) as processes:
        fleet = Fleet(database_url, processes, manifest, [], None)

        def start(command: str, **more: Any) -> Process:
            words = ("--manifest", str(manifest))
            return processes.start(command, *words, database_url=database_url, env=env, **more)

        fleet.servers = [start("serve")]
        await fleet.servers[0].wait_ready()
        said = prompt(say(tools=[call("order")]), say("All done."))
        run_id = await fleet.start_run("helper", message=said)
        dying = start("worker", pause=f"{place}=kill")
        await dying.wait_ended(60)
        start("worker")
        await fleet.reaches(run_id, "parked")

        async def states() -> list[str]:
            rows = await fleet.rows("SELECT state FROM rejoinder.run WHERE tool = 'measure' ORDER BY state")
            return [row["state"] for row in rows]

        wanted = ["cancelled"] * (calls - 1) + ["parked"]

        async def settled() -> bool:
            return await states() == wanted

        await assert_eventually(settled, f"the called runs are not {wanted}", 40)
        open_ids = await fleet.rows(
            "SELECT id::text FROM rejoinder.question WHERE state = 'pending' AND to_kind = 'user'"
        )
        assert len(open_ids) == 1
        await fleet.answer(fleet.servers[0], open_ids[0]["id"], "2 m")
        ended = await fleet.reaches(run_id, "succeeded", "failed", "lost")
        assert (ended["state"], ended["result"]) == ("succeeded", '"All done."'), ended["error"]
        told = [m["content"] for m in model.asked[-1].body["messages"] if m["role"] == "tool"]
        assert told == ["ordered: 2 m"]
    await assert_sound(database_url)
