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
from tests.support import Process, client, running_processes

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
