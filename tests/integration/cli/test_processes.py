"""``serve``, ``worker``, ``migrate``, ``doctor``, ``owner-key``, ``backup`` and ``restore`` as processes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rejoinder.store.database import Database
from tests.support import Process, Processes, assert_eventually, clean_environment, client, execute, free_port

MANIFEST = "tools:\n  - module: rejoinder.demo.tools\n  - module: rejoinder.tools.interactions\n"


async def command(
    *words: str, code: int = 0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = await asyncio.to_thread(
        subprocess.run,
        [str(Path(sys.executable).with_name("rejoinder")), *words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=clean_environment(env),
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    file = tmp_path / "manifest.yaml"
    file.write_text(MANIFEST, encoding="utf-8")
    return str(file)


@pytest.fixture
async def key(database_url: str) -> str:
    return (await command("owner-key", env={"REJOINDER_DATABASE_URL": database_url})).stdout.strip()


async def checks(database_url: str, *, code: int = 0, **env: str) -> dict[str, Any]:
    done = await command("doctor", "--json", code=code, env={"REJOINDER_DATABASE_URL": database_url, **env})
    return {check["check"]: check for check in json.loads(done.stdout)["checks"]}


async def serving(processes: Processes, database_url: str, manifest: str, **env: str) -> Process:
    return await processes.start(
        "serve", "--manifest", manifest, database_url=database_url, env=env
    ).wait_ready()


async def test_a_server_and_a_worker_run_a_parked_run_to_its_end(
    processes: Processes, database_url: str, manifest: str, key: str
) -> None:
    server = await serving(processes, database_url, manifest)
    health = free_port()
    worker = processes.start(
        "worker", "--manifest", manifest, "--health-port", str(health), database_url=database_url
    )
    await worker.wait_output("worker ready", 60)
    worker.url = f"http://127.0.0.1:{health}"
    assert worker.ready()
    assert "rejoinder_runs_finished" in httpx2.get(f"{worker.url}/metrics", trust_env=False).text
    assert httpx2.get(f"{worker.url}/api/interactions", trust_env=False).status_code == 404
    remote = {"REJOINDER_SERVER": server.url, "REJOINDER_API_KEY": key}
    await command("tools", "run", "demo_release_check", "--background", env=remote)

    async def parked() -> list[dict[str, Any]]:
        done = await command("interactions", "pending", "--json", env=remote)
        items: list[dict[str, Any]] = json.loads(done.stdout)["items"]
        return items

    items = await assert_eventually(parked, "it did not park", 40)
    said = await command("interactions", "answer", items[0]["interaction_id"], "3", env=remote)
    assert "Answered." in said.stdout

    async def over() -> bool:
        done = await command("tools", "run-show", items[0]["run_id"], "--json", env=remote)
        return bool(json.loads(done.stdout)["result"] == "Release 2.4.0 is held back.")

    await assert_eventually(over, "it did not go on", 40)
    found = await checks(database_url)
    assert found["processes"]["what"].startswith("2 on this database")
    assert {name for name, check in found.items() if check["level"] == "fail"} == set()
    for process in (server, worker):
        process.terminate()
        assert await process.wait_ended() == 0


async def test_a_server_that_stops_ends_streams_and_tells_blocked_callers(
    processes: Processes, database_url: str, manifest: str, key: str
) -> None:
    server = await serving(processes, database_url, manifest, TAI_TOOL_RUNS_SHUTDOWN_DRAIN_SECONDS="0.2")
    async with client(server.url, key) as caller:
        call = asyncio.create_task(caller.post("/api/run-tool", json={"tool_name": "demo_clean_up"}))
        frames: list[str] = []

        async def follow() -> None:
            async with caller.stream("GET", "/api/interactions/stream") as response:
                async for line in response.aiter_lines():
                    frames.append(line)  # noqa: PERF401 - each as it comes

        stream = asyncio.create_task(follow())
        await assert_eventually(lambda: frames, "no stream", 40)

        async def asked() -> bool:
            return bool((await caller.get("/api/interactions")).json()["data"]["items"])

        await assert_eventually(asked, "nothing was asked", 40)
        server.terminate()
        answer = await call
        await stream
    assert answer.status_code == 503
    assert answer.json()["code"] == "stopping"
    assert await server.wait_ended() == 0
    database = Database(database_url)
    await database.open()
    try:
        assert await database.value("SELECT state FROM rejoinder.question") == "cancelled"
    finally:
        await database.close()


async def test_an_idle_connection_does_not_hold_up_a_stop(
    processes: Processes, database_url: str, manifest: str
) -> None:
    server = await serving(processes, database_url, manifest)
    async with client(server.url) as caller:
        await caller.get("/health")
        server.terminate()
        assert await server.wait_ended(10) == 0


@pytest.mark.parametrize("what", ["serve", "worker"])
async def test_a_database_that_is_not_migrated_is_refused(
    processes: Processes, empty_database_url: str, manifest: str, what: str
) -> None:
    process = processes.start(what, "--manifest", manifest, database_url=empty_database_url)
    assert await process.wait_ended(40) == 1
    assert "rejoinder migrate" in process.output()


async def test_migrate(empty_database_url: str) -> None:
    env = {"REJOINDER_DATABASE_URL": empty_database_url}
    before = await command("migrate", "--check", code=1, env=env)
    assert "0001_tables.sql" in before.stdout
    assert (await checks(empty_database_url, code=1))["migrations"]["level"] == "fail"
    assert "0001_tables.sql" in (await command("migrate", env=env)).stdout
    assert "up to date" in (await command("migrate", env=env)).stdout
    assert "up to date" in (await command("migrate", "--check", env=env)).stdout
    none = await command("migrate", code=1)
    assert "REJOINDER_DATABASE_URL" in none.stderr


async def test_the_doctor_names_what_is_wrong(database_url: str) -> None:
    found = await checks(database_url, code=1, INTERACTIONS_PUBLIC_BASE_URL="http://ask.example.org")
    assert found["keys"]["level"] == "fail"
    assert "rejoinder owner-key" in found["keys"]["mend"]
    assert found["workers"]["level"] == "warn"
    assert found["public address"]["level"] == "fail"
    await execute(
        database_url,
        "INSERT INTO rejoinder.pgqueuer (priority, queue_manager_id, status, entrypoint, payload, execute_after) "
        "VALUES (0, NULL, 'queued', 'run', '\\x00', clock_timestamp() - interval '1 hour')",
        "INSERT INTO rejoinder.process (id, kind, host, pid, version, lock_key, started_at, beat_at) VALUES "
        "(gen_random_uuid(), 'worker', 'there', 1, '0', 1, clock_timestamp(), clock_timestamp() - interval '1 hour')",
    )
    found = await checks(database_url, code=1)
    assert found["workers"]["level"] == "fail"
    shown = await command("doctor", code=1, env={"REJOINDER_DATABASE_URL": database_url})
    assert "-> Start one with: rejoinder worker" in shown.stdout


@pytest.mark.parametrize(
    "url",
    ["postgresql://ann:hunter2@127.0.0.1:1/x", "postgresql://ann:hunter2@nowhere.invalid/x", "hunter2"],
)
async def test_the_doctor_keeps_the_password(url: str) -> None:
    done = await command("doctor", code=1, env={"REJOINDER_DATABASE_URL": url})
    assert "database" in done.stdout
    assert "ann:hunter2" not in done.stdout + done.stderr


async def test_the_doctor_without_any_database(tmp_path: Path) -> None:
    done = await command("doctor", env={"REJOINDER_DATA": str(tmp_path / "none")})
    assert "rejoinder up" in done.stdout


async def test_backup_and_restore_need_a_store(tmp_path: Path) -> None:
    for what in ("backup", "restore"):
        done = await command(what, "file", "--data", str(tmp_path / "none"), code=1)
        assert "--data" in done.stderr


async def test_serve_says_when_its_port_is_taken(
    processes: Processes, database_url: str, manifest: str
) -> None:
    server = await serving(processes, database_url, manifest)
    port = server.url.rpartition(":")[2]
    second = processes.start("serve", "--manifest", manifest, "--port", port, database_url=database_url)
    assert await second.wait_ended(40) == 1
    assert "--port" in second.output()
    assert os.path.exists(manifest)


async def test_a_stream_is_taken_up_again_by_the_next_server(
    processes: Processes, database_url: str, manifest: str, key: str
) -> None:
    server = await serving(processes, database_url, manifest)
    remote = {"REJOINDER_SERVER": server.url, "REJOINDER_API_KEY": key}
    stream = processes.start("interactions", "stream", "--json", env=remote)

    async def park() -> str:
        done = await command("tools", "run", "demo_release_check", "--json", env=remote)
        result: dict[str, Any] = json.loads(done.stdout)["result"]
        return str(result["tai42:suspended_interaction"]["interaction_id"])

    async def connected() -> bool:
        async with client(server.url, key) as caller:
            text = (await caller.get("/metrics")).text
        return "rejoinder_streams_open 1.0" in text

    await assert_eventually(connected, "it never subscribed", 40)
    await stream.wait_output(await park(), 40)
    server.kill()
    port = int(server.url.rpartition(":")[2])
    await processes.start("serve", "--manifest", manifest, database_url=database_url, port=port).wait_ready()
    missed_or_not = await park()
    await stream.wait_output(missed_or_not, 40)
    assert stream.output().count(missed_or_not) == 1
    assert stream.returncode is None
