"""``rejoinder up`` as a newcomer meets it: start, be asked, answer, see the run go on - and find it all again."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rejoinder.launch.embedded import EmbeddedServer
from rejoinder.launch.paths import DataFolder
from tests.support import Process, Processes, assert_eventually, clean_environment, client, free_port

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def data() -> Iterator[DataFolder]:
    folder = Path(tempfile.mkdtemp(prefix="rju-", dir="/tmp"))
    folder.chmod(0o711)
    made = DataFolder(folder)
    yield made
    server = EmbeddedServer(made)
    if server.pid is not None:
        # Its users were killed; who attaches and leaves again is the last one.
        server.start()
        server.stop()
    shutil.rmtree(folder, ignore_errors=True)


class Desk:
    """A data folder, the ``up`` on it, and a second terminal."""

    def __init__(self, processes: Processes, data: DataFolder) -> None:
        self._processes = processes
        self.data = data

    async def up(self, *words: str, ready: bool = True, **env: str) -> Process:
        folder = [] if "--data" in words else ["--data", str(self.data.root)]
        process = self._processes.start("up", *folder, *words, env=env)
        if ready:
            await process.wait_ready()
            await process.wait_output("What happens is written here:")
        return process

    async def run(self, *words: str) -> str:
        done = await asyncio.to_thread(
            subprocess.run,
            [str(Path(sys.executable).with_name("rejoinder")), *words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env=clean_environment({"REJOINDER_DATA": str(self.data.root)}),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def open_questions(self) -> dict[str, str]:
        """The open questions' ids by the tool that asks."""
        listed = json.loads(await self.run("interactions", "list", "--json"))
        return {item["tool"]: item["interaction_id"] for item in listed["items"]}

    async def question_of(self, tool: str) -> str:
        async def found() -> str | None:
            return (await self.open_questions()).get(tool)

        identifier = await assert_eventually(found, f"{tool} asked nothing", 40)
        assert identifier is not None
        return identifier

    async def audit(self, kind: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(await self.run("audit", "--kind", kind, "--json"))["items"]
        return items


@pytest.fixture
def desk(processes: Processes, data: DataFolder) -> Desk:
    return Desk(processes, data)


async def test_a_newcomer_is_asked_answers_and_sees_the_run_go_on(desk: Desk) -> None:
    up = await desk.up()
    # The next start, with tools of one's own, must find the same folder.
    await up.wait_output(f"up --manifest manifest.yaml --data {desk.data.root}\n")
    blocked = await desk.question_of("demo_clean_up")
    parked = await desk.question_of("demo_release_check")

    await desk.run("interactions", "answer", blocked, "yes")
    await up.wait_output("owner answered demo_clean_up: yes")
    await up.wait_output("demo_clean_up finished: 3 branches deleted.")

    shown = await desk.run("interactions", "answer", parked[:8], "1")
    assert "Answered." in shown
    await up.wait_output("demo_release_check went on with the answer and finished: Release 2.4.0 goes out")

    # The agent asks two things in one step, and goes on once when both are answered.
    listed = json.loads(await desk.run("interactions", "list", "--json"))["items"]
    for item in listed:
        assert item["tool"] == "demo_agent"
        await desk.run("interactions", "answer", item["interaction_id"], "1")
    assert len(listed) == 2
    await up.wait_output("demo_agent went on with the answer and finished: Train, 9 hours, 178 euro.")

    link = re.search(r"http://\S+/sign-in\?token=(\S+)", up.output())
    assert link is not None
    async with client(up.url) as browser:
        assert (await browser.get(link[0])).status_code == 200
    assert stat.S_IMODE(desk.data.owner_key.stat().st_mode) == 0o600
    assert desk.data.read_endpoint() == up.url

    up.interrupt()
    assert await up.wait_ended() == 0
    assert "Stopped." in up.output()
    assert "Traceback" not in up.output()
    assert desk.data.read_endpoint() is None
    assert EmbeddedServer(desk.data).pid is None


async def test_everything_is_found_again_after_an_orderly_stop(desk: Desk) -> None:
    first = await desk.up()
    parked = await desk.question_of("demo_release_check")
    blocked = await desk.question_of("demo_clean_up")
    key = desk.data.read_owner_key()
    first.terminate()
    assert await first.wait_ended() == 0

    second = await desk.up()
    # The parked question stayed the very same; the blocked one is asked anew, by the same run.
    assert (await desk.open_questions())["demo_release_check"] == parked
    assert await desk.question_of("demo_clean_up") != blocked
    assert desk.data.read_owner_key() == key
    assert len(json.loads(await desk.run("tools", "runs", "--json"))["items"]) == 3
    await desk.run("interactions", "answer", parked, "--answer", '"Hold it back"')
    await second.wait_output(
        "demo_release_check went on with the answer and finished: Release 2.4.0 is held back."
    )


async def test_a_parked_run_survives_kill_9_of_everything_and_resumes_once(desk: Desk) -> None:
    up = await desk.up()
    parked = await desk.question_of("demo_release_check")
    postgres = EmbeddedServer(desk.data).pid
    assert postgres is not None
    up.kill()
    os.kill(postgres, signal.SIGKILL)

    again = await desk.up()
    assert (await desk.open_questions())["demo_release_check"] == parked
    await desk.run("interactions", "answer", parked, "To everybody")
    await again.wait_output("demo_release_check went on with the answer and finished")
    run_id = json.loads(await desk.run("interactions", "show", parked, "--json"))["run_id"]
    assert [e["run_id"] for e in await desk.audit("run.resumed")] == [run_id]
    assert [e["run_id"] for e in await desk.audit("run.succeeded")] == [run_id]


async def test_the_demo_can_be_run_again_and_left_out(desk: Desk) -> None:
    up = await desk.up("--no-demo")
    assert await desk.open_questions() == {}
    assert json.loads(await desk.run("tools", "list", "--json"))["items"] == []
    up.interrupt()
    await up.wait_ended()
    up = await desk.up()
    await desk.question_of("demo_release_check")
    await desk.run("tools", "run", "demo_plan_maintenance", "--background")
    form = await desk.question_of("demo_plan_maintenance")
    await desk.run("interactions", "answer", form, "day=2030-05-01\nhour=4\ntell_customers=no")
    await up.wait_output("demo_plan_maintenance went on with the answer and finished")
    assert '"hour": 4' in up.output()


async def test_own_tools_from_a_manifest(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from rejoinder import ask, tool\n\n@tool\nasync def greet() -> str:\n"
        "    return 'Hello ' + (await ask('Who are you?')).answer\n",
        encoding="utf-8",
    )
    (tmp_path / "manifest.yaml").write_text("tools:\n  - module: ./mine.py\n", encoding="utf-8")
    up = await desk.up("--manifest", str(tmp_path / "manifest.yaml"))
    running = asyncio.create_task(desk.run("tools", "run", "greet"))
    await desk.run("interactions", "answer", await desk.question_of("greet"), "Ann")
    assert await running == "Hello Ann\n"
    assert "greet asks: Who are you?" in up.output()


async def test_a_second_up_and_a_taken_port_are_explained(desk: Desk) -> None:
    first = await desk.up()
    second = await desk.up(ready=False)
    assert await second.wait_ended() == 1
    assert "--data" in second.output()
    assert first.url in second.output()
    port = first.url.rpartition(":")[2]
    other = DataFolder(desk.data.root.with_name(desk.data.root.name + "-other"))
    try:
        taken = desk._processes.start("up", "--data", str(other.root), "--port", port)
        assert await taken.wait_ended() == 1
        assert "--port" in taken.output()
        assert not other.postgres.exists()
    finally:
        shutil.rmtree(other.root, ignore_errors=True)
    for output in (second.output(), taken.output()):
        assert output.startswith("rejoinder: ")
        assert len(output.splitlines()) == 1
    # The first one is not disturbed.
    assert first.ready()
    assert desk.data.read_endpoint() == first.url


@pytest.mark.parametrize(
    ("words", "env", "named"),
    [
        (["--host", "0.0.0.0"], {"ACCESS_CONTROL_ENABLE": "false"}, "loopback"),
        (["--host", "nowhere.invalid"], {}, "--host"),
        (["--manifest", "nothing.yaml"], {}, "nothing.yaml"),
        (["--data", "/dev/null"], {}, "/dev/null"),
        ([], {"REJOINDER_POLL_SECONDS": "-1"}, "REJOINDER_POLL_SECONDS"),
        ([], {"REJOINDER_DATABASE_URL": "mysql://x/y"}, "REJOINDER_DATABASE_URL"),
        ([], {"REJOINDER_DATABASE_URL": "postgresql://a:hunter2@127.0.0.1:1/x"}, "database"),
    ],
)
async def test_what_cannot_start_says_why(
    desk: Desk, words: list[str], env: dict[str, str], named: str
) -> None:
    process = await desk.up(*words, ready=False, **env)
    assert await process.wait_ended(40) == 1
    assert named in process.output()
    assert len(process.output().splitlines()) == 1
    assert "hunter2" not in process.output()


async def test_the_second_ctrl_c_ends_it_at_once_and_loses_nothing(desk: Desk) -> None:
    up = await desk.up(TAI_TOOL_RUNS_SHUTDOWN_DRAIN_SECONDS="600")
    parked = await desk.question_of("demo_release_check")
    await desk.question_of("demo_clean_up")
    up.interrupt()
    await up.wait_output("Stopping.")
    up.interrupt()
    assert await up.wait_ended() == 130
    await desk.up()
    assert (await desk.open_questions())["demo_release_check"] == parked


async def test_without_access_control_no_key_is_needed_on_this_machine(desk: Desk) -> None:
    up = await desk.up("--port", str(free_port()), ACCESS_CONTROL_ENABLE="false", ready=False)
    await up.wait_output("/inbox", 60)
    assert not desk.data.owner_key.exists()
    await desk.run("interactions", "answer", await desk.question_of("demo_clean_up"), "no")
    await up.wait_output("demo_clean_up finished: The branches were kept.")


async def test_a_database_that_dies_under_it_is_started_again(desk: Desk) -> None:
    up = await desk.up()
    parked = await desk.question_of("demo_release_check")
    postgres = EmbeddedServer(desk.data).pid
    assert postgres is not None
    os.kill(postgres, signal.SIGKILL)
    await up.wait_output("starting it again")
    await up.wait_ready()
    await desk.run("interactions", "answer", parked, "1")
    await up.wait_output("demo_release_check went on with the answer and finished")


async def test_a_postgres_of_ones_own(desk: Desk, empty_database_url: str) -> None:
    up = await desk.up(REJOINDER_DATABASE_URL=empty_database_url)
    assert not desk.data.postgres.exists()
    await desk.run("interactions", "answer", await desk.question_of("demo_release_check"), "1")
    await up.wait_output("demo_release_check went on with the answer and finished")
    up.interrupt()
    assert await up.wait_ended() == 0
    # A folder that lost its key gets a new one.
    desk.data.owner_key.unlink()
    await desk.up(REJOINDER_DATABASE_URL=empty_database_url)
    assert len(json.loads(await desk.run("keys", "list", "--json"))["items"]) == 2
