"""The commands that the README shows for a deployment, on a Postgres that is not the embedded one of a data folder."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, read
from tests.docs.runner import BIN, SHARED_MANIFEST
from tests.support import Processes, assert_eventually, clean_environment, client

pytestmark = pytest.mark.timeout(180)


def _commands() -> dict[str, list[str]]:
    """``{command: its arguments}`` of the README's block."""
    block = next(b for b in read(ROOT / "README.md").blocks if "rejoinder migrate" in b.text)
    lines = [shlex.split(line) for line in block.text.splitlines()]
    assert lines[0][0] == "export"
    assert lines[0][1].startswith("REJOINDER_DATABASE_URL=postgresql://")
    return {words[1]: words[2:] for words in lines[1:]}


async def test_a_deployment_serves_and_works(
    empty_database_url: str, processes: Processes, tmp_path: Path
) -> None:
    commands = _commands()
    assert list(commands) == ["migrate", "owner-key", "serve", "worker"]
    where = clean_environment({"REJOINDER_DATABASE_URL": empty_database_url})

    async def run(command: str) -> str:
        words = [str(BIN / "rejoinder"), command, *commands[command]]
        done = await asyncio.to_thread(
            subprocess.run, words, capture_output=True, text=True, check=False, env=where, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def manifest(command: str) -> list[str]:
        return [str(SHARED_MANIFEST) if word == "manifest.yaml" else word for word in commands[command]]

    await run("migrate")
    key = (await run("owner-key")).strip()
    server = processes.start("serve", *manifest("serve"), database_url=empty_database_url)
    worker = processes.start("worker", *manifest("worker"), database_url=empty_database_url)
    await server.wait_ready()
    await worker.wait_output("worker ready")
    async with client(server.url, key) as http:

        async def data(method: str, path: str, body: Any = None) -> Any:
            response = await http.request(method, path, json=body)
            assert response.status_code < 300, response.text
            return response.json()["data"]

        wanted = {"tool_name": "release", "arguments": {"version": "2.4.0"}}
        run_id = (await data("POST", "/api/tool-runs", wanted))["run_id"]

        async def question() -> Any:
            return (await data("GET", "/api/interactions"))["items"]

        asked = (await assert_eventually(question, within=60))[0]
        path = f"/api/interactions/{asked['interaction_id']}/answer"
        await data("POST", path, {"answer": "To everybody"})

        async def ended() -> Any:
            found = await data("GET", f"/api/tool-runs/{run_id}")
            return found if found["status"] == "succeeded" else None

        assert (await assert_eventually(ended, within=60))["result"] == "Version 2.4.0 goes to everybody."
