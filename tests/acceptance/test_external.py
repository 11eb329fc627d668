"""An outside system answers a parked run: after every process was killed, and while the one that takes it is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.acceptance.conftest import SHORT
from tests.integration.core.support import assert_sound
from tests.support import Process, Processes, assert_eventually, client, free_port

pytestmark = pytest.mark.timeout(150)

TOOLS = """
from datetime import UTC, datetime, timedelta
from pathlib import Path
from rejoinder import AskAnswer, SuspendedInteraction, ask, tool

HERE = Path(__file__).parent

@tool(idempotent=True)
async def sign() -> SuspendedInteraction:
    return await ask(
        "Sign it?",
        answer_format="external",
        link="https://sign.example/?back={callback_url}",
        schema={"type": "object", "properties": {"signed": {"const": True}}, "required": ["signed"]},
        verifier={"verifier": "shared_secret", "config": {"header": "X-Bridge", "secret_env": "BRIDGE_SECRET"}},
        mode="async",
        expiry_at=datetime.now(UTC) + timedelta(hours=1),
    )

@sign.continuation
async def signed(ask_result: AskAnswer[dict], run_id) -> dict:
    with (HERE / "done").open("a") as done:
        done.write(f"{run_id}\\n")
    return ask_result.answer
"""
GOOD = {"signed": True}


class Deployment:
    def __init__(self, processes: Processes, database_url: str, folder: Path) -> None:
        self._processes = processes
        self._database_url = database_url
        self._folder = folder
        self._port = free_port()
        (folder / "signing.py").write_text(TOOLS)
        (folder / "manifest.yaml").write_text("tools:\n  - module: ./signing.py\n")

    def start(self, command: str, pause: str | None = None) -> Process:
        env = SHORT | {
            "INTERACTIONS_PUBLIC_BASE_URL": f"http://127.0.0.1:{self._port}",
            "BRIDGE_SECRET": "4711",
        }
        port = self._port if command == "serve" else None
        manifest = str(self._folder / "manifest.yaml")
        return self._processes.start(
            command, "--manifest", manifest, database_url=self._database_url, port=port, pause=pause, env=env
        )

    async def parked(self, server: Process) -> tuple[str, str]:
        """``(run id, the path of its callback URL)`` of a run that waits for the outside system."""
        async with client(server.url) as http:
            run = (await http.post("/api/tool-runs", json={"tool_name": "sign", "arguments": {}})).json()[
                "data"
            ]["run_id"]

            async def open_one() -> Any:
                items = (await http.get("/api/interactions")).json()["data"]["items"]
                return next((one["interaction_id"] for one in items if one["run_id"] == run), None)

            question = await assert_eventually(open_one, "nothing was asked", 40)
            url = (await http.post(f"/api/interactions/{question}/open")).json()["data"]["url"]
            return run, urlsplit(url.partition("back=")[2]).path

    async def ended(self, server: Process, run: str) -> Any:
        async with client(server.url) as http:

            async def over() -> Any:
                found = (await http.get(f"/api/tool-runs/{run}")).json()["data"]
                return found if found["status"] == "succeeded" else None

            return await assert_eventually(over, "the run did not go on", 40)

    @property
    def done(self) -> list[str]:
        return (self._folder / "done").read_text().split()


async def posted(server: Process, path: str, secret: str = "4711") -> Any:
    async with client(server.url) as http:
        reply = await http.post(path, json=GOOD, headers={"x-bridge": secret})
        return reply.json()["data"]["status"] if reply.status_code == 200 else reply.status_code


async def test_an_answer_after_everything_was_killed_and_one_that_its_server_does_not_survive(
    database_url: str, processes: Processes, tmp_path: Path
) -> None:
    here = Deployment(processes, database_url, tmp_path)
    server, worker = here.start("serve"), here.start("worker")
    await server.wait_ready()
    first, first_path = await here.parked(server)
    second, second_path = await here.parked(server)
    for process in (server, worker):
        process.kill()

    # The next server dies between the commit of an answer and its reply.
    doomed = here.start("serve", pause="answer.committed=kill")
    await doomed.wait_ready()
    assert await posted(doomed, first_path, secret="guessed") == 401
    with pytest.raises(httpx2.TransportError):
        await posted(doomed, first_path)
    assert await doomed.wait_ended(40) == -9

    server, worker = here.start("serve"), here.start("worker")
    await server.wait_ready()
    assert await posted(server, first_path) == "already_answered"
    said = await asyncio.gather(*(posted(server, second_path) for _ in range(5)))
    assert sorted(said) == ["already_answered"] * 4 + ["answered"]
    for run in (first, second):
        assert (await here.ended(server, run))["result"] == GOOD
    assert sorted(here.done) == sorted([first, second])
    await assert_sound(database_url)
