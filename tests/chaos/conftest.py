"""Workers that drive agents on a scripted model, and a Postgres of their own: all of it to be killed."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rejoinder.launch.embedded import EmbeddedServer
from rejoinder.launch.paths import DataFolder
from rejoinder.node import Node
from rejoinder.runs.manifest import load_manifest
from rejoinder.store.database import Database
from rejoinder.store.migrate import migrate
from tests.acceptance.conftest import SHORT
from tests.live.rig.model import Model
from tests.support import Process, Processes, assert_eventually, execute, running_processes

MANIFEST = f"""
tools:
  - module: {Path(__file__).with_name("tools_under_test.py")}
agents:
  - name: helper
    model: {{name: "openai:scripted", base_url_env: SCRIPTED_BASE_URL, api_key_env: SCRIPTED_API_KEY}}
    tools: [pay, look]
"""
EFFECTS = "CREATE TABLE effect (id uuid PRIMARY KEY, run_id uuid NOT NULL, name text NOT NULL)"


class Chaos:
    """What runs, and what may be done to it."""

    def __init__(
        self, server: EmbeddedServer, url: str, processes: Processes, manifest: Path, model: Model
    ) -> None:
        self.server = server
        self.url = url
        self.model = model
        self.manifest = manifest
        self.workers: list[Process] = []
        self._processes = processes
        self._random = random.Random(7)

    def environment(self) -> dict[str, str]:
        return {
            **SHORT,
            "SCRIPTED_BASE_URL": self.model.url,
            "SCRIPTED_API_KEY": "none",
            "LANGSMITH_TRACING": "false",
            # However often one and the same run is hit, it is no fault of its own.
            "REJOINDER_RUN_MAX_STARTS": "50",
            # A paused one keeps its lock: only its silence tells.
            "REJOINDER_HALF_OPEN_SECONDS": "4",
            "REJOINDER_LOG_LEVEL": "warning",
            "INTERACTIONS_MAX_CONCURRENT": "none",
        }

    def add_worker(self) -> None:
        arguments = ["--manifest", str(self.manifest)]
        self.workers.append(
            self._processes.start("worker", *arguments, database_url=self.url, env=self.environment())
        )

    def _some_worker(self) -> Process:
        return self._random.choice([one for one in self.workers if one.returncode is None])

    async def kill_a_worker(self) -> None:
        victim = self._some_worker()
        await asyncio.to_thread(victim.kill)
        self.workers.remove(victim)
        self.add_worker()

    async def pause_a_worker(self) -> None:
        """Stop one until the others have taken it for dead, and wake it."""
        async with self.connected() as database:

            async def a_standing_one() -> Process | None:
                # One that has just been started has no row yet, and nobody could find it dead.
                one = self._some_worker()
                stands = await database.value(
                    "SELECT count(*) > 0 FROM rejoinder.process WHERE pid = $1 AND ended_at IS NULL", one.pid
                )
                return one if stands else None

            victim = await assert_eventually(a_standing_one, "no worker has started", 120)
            assert victim is not None
            victim.pause()
            try:
                # All of its rows: one that was taken for dead before goes on as another process.
                await assert_eventually(
                    lambda: database.value(
                        "SELECT bool_and(ended_at IS NOT NULL) FROM rejoinder.process WHERE pid = $1",
                        victim.pid,
                    ),
                    "a paused worker was not found dead",
                    120,
                )
            finally:
                victim.resume()

    async def kill_postgres(self) -> None:
        """kill -9 of the server and of all that serves a connection, and a start from what it had written."""
        pid = self.server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await assert_eventually(lambda: self.server.pid is None, "Postgres did not die")
        url = await asyncio.to_thread(self.server.start)
        assert url == self.url

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Database]:
        database = Database(self.url, pool=2)
        await database.open()
        try:
            yield database
        finally:
            await database.close()


@pytest.fixture
async def chaos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Chaos, Node]]:
    folder = Path(tempfile.mkdtemp(prefix="rj-suite-", dir="/tmp"))
    folder.chmod(0o711)
    server = EmbeddedServer(DataFolder(folder), settings={"fsync": "off", "full_page_writes": "off"})
    model = Model().start()
    try:
        url = await asyncio.to_thread(server.start)
        await migrate(Database(url))
        await execute(url, EFFECTS)
        manifest = tmp_path / "manifest.yaml"
        manifest.write_text(MANIFEST, encoding="utf-8")
        with running_processes(tmp_path) as processes:
            made = Chaos(server, url, processes, manifest, model)
            for name, value in made.environment().items():
                monkeypatch.setenv(name, value)
            from rejoinder.contract.settings import Settings

            settings = Settings.load(rejoinder_database_url=url)
            node = Node(settings, load_manifest(manifest), "server")
            await node.start()
            try:
                yield made, node
            finally:
                await node.stop()
    finally:
        model.stop()
        await asyncio.to_thread(server.stop)
        shutil.rmtree(folder, ignore_errors=True)
