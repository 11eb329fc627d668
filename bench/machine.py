"""The test bed: one embedded Postgres, fresh databases, our processes as a user starts them, and what they cost."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from bench.client import Connection
from rejoinder.access.keys import Access
from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.contract.settings import Settings
from rejoinder.launch.embedded import EmbeddedServer
from rejoinder.launch.paths import DataFolder
from rejoinder.store.database import Database
from rejoinder.store.events import Events
from rejoinder.store.migrate import migrate
from rejoinder.store.signals import Signals

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = Path(__file__).with_name("manifest.yaml")
PEERS = ROOT / ".venv-bench" / "bin" / "python"
TICK = os.sysconf("SC_CLK_TCK")
OURS = ("REJOINDER_", "INTERACTIONS_", "TAI_", "ACCESS_CONTROL_", "OTEL_", "PG", "DBOS_", "LANG")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours without anything that configures what is measured; compiled files are written, as after an install."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(OURS) and k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **(extra or {})}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# What a process costs, from /proc


def cpu_seconds(pid: int) -> float:
    """User and system time of the process and of the children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICK


def children(pid: int) -> list[int]:
    found = []
    for entry in Path(f"/proc/{pid}/task").iterdir():
        found += [int(one) for one in (entry / "children").read_text().split()]
    return found


def tree_cpu_seconds(pid: int) -> float:
    """The same with every living child; for Postgres: its backends."""
    total = cpu_seconds(pid)
    for child in children(pid):
        try:
            total += cpu_seconds(child)
        except (OSError, IndexError):
            continue
    return total


def resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


class Process:
    """One ``rejoinder serve`` or ``rejoinder worker``."""

    def __init__(self, command: str, url: str, log: Path, extra: Mapping[str, str]) -> None:
        self.port = free_port() if command == "serve" else 0
        words = [str(Path(sys.executable).with_name("rejoinder")), command, "--manifest", str(MANIFEST)]
        if self.port:
            words += ["--port", str(self.port)]
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env=environment({"REJOINDER_DATABASE_URL": url, **extra}),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def fail_if_ended(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"it ended with {self._process.returncode}:\n{self.log.read_text()[-3000:]}")

    async def ready(self, within: float = 60) -> float:
        """Wait for ``/ready``; returns the moment (``time.perf_counter()``)."""
        deadline = time.perf_counter() + within
        while time.perf_counter() < deadline:
            self.fail_if_ended()
            try:
                connection = await Connection.open(self.port, "none")
                reply = await asyncio.wait_for(connection.get("/ready"), 5)
                connection.close()
                if reply.status == 200:
                    return reply.at
            except (OSError, TimeoutError):
                pass
            await asyncio.sleep(0.005)
        raise RuntimeError(f"not ready:\n{self.log.read_text()[-3000:]}")

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()


class Bed:
    """The Postgres of one run of the benchmarks, with a migrated template for fresh databases."""

    def __init__(self, folder: Path, quick: bool, alone: bool = False, parked: int | None = None) -> None:
        self.folder = folder
        self.quick = quick
        #: Leave out what one would pick instead.
        self.alone = alone
        #: How many agents are parked to see what each costs, where that was said.
        self.parked = parked
        self._server = EmbeddedServer(DataFolder(folder / "data"))
        self._numbers = iter(range(1, 1000))
        #: Whether a commit waits 5 ms, as on a slow or a cloud disk.
        self.slow_disk = False

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    async def start(self) -> None:
        await asyncio.to_thread(self._server.start)
        template = self.url_of("bench_template")
        await self.admin("CREATE DATABASE bench_template")
        await migrate(Database(template))

    async def stop(self) -> None:
        await asyncio.to_thread(self._server.stop)

    def url_of(self, database: str) -> str:
        return self._server.url_of(database)

    @property
    def postmaster(self) -> int:
        assert self._server.pid is not None
        return self._server.pid

    async def admin(self, *statements: str) -> None:
        connection = await asyncpg.connect(self.url_of("postgres"))
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    @asynccontextmanager
    async def database(self, *, empty: bool = False) -> AsyncIterator[str]:
        """The URL of a fresh database: migrated, or with nothing in it."""
        name = f"bench_{next(self._numbers)}"
        await self.admin(f"CREATE DATABASE {name}" + ("" if empty else " TEMPLATE bench_template"))
        try:
            yield self.url_of(name)
        finally:
            await self.admin(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    @asynccontextmanager
    async def flush_of_5_ms(self) -> AsyncIterator[None]:
        """Every commit waits 5 ms before it flushes: the embedded server's disk here is quicker than a cloud's."""
        await self.admin(
            "ALTER SYSTEM SET commit_delay = 5000",
            "ALTER SYSTEM SET commit_siblings = 0",
            "SELECT pg_reload_conf()",
        )
        self.slow_disk = True
        try:
            yield
        finally:
            self.slow_disk = False
            await self.admin(
                "ALTER SYSTEM RESET commit_delay",
                "ALTER SYSTEM RESET commit_siblings",
                "SELECT pg_reload_conf()",
            )

    async def restart(self) -> float:
        """Stop Postgres under everybody's feet and start it again; returns the moment at which it was up."""
        os.kill(self.postmaster, signal.SIGINT)
        while self._server.pid is not None:
            await asyncio.sleep(0.005)
        await asyncio.to_thread(self._server.start)
        return time.perf_counter()

    @contextmanager
    def process(self, command: str, url: str, **extra: str) -> Iterator[Process]:
        """``rejoinder COMMAND`` on that database, with its default settings and ``extra`` ones."""
        made = Process(command, url, self.folder / f"{command}-{time.time_ns()}.log", extra)
        try:
            yield made
        finally:
            made.stop()

    @asynccontextmanager
    async def server(self, url: str, **extra: str) -> AsyncIterator[tuple[Process, str]]:
        """A ready server and an owner's key."""
        key = await owner_key(url)
        with self.process("serve", url, **extra) as made:
            await made.ready()
            yield made, key

    async def peer(self, module: str, *arguments: str, timeout: float = 240) -> dict[str, Any]:
        """What ``bench.peers.MODULE`` measured, run in the environment that has the other packages."""
        import orjson

        process = await asyncio.create_subprocess_exec(
            str(PEERS),
            "-m",
            f"bench.peers.{module}",
            *arguments,
            cwd=ROOT,
            env=environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise RuntimeError(f"{module} did not end within {timeout:g} s") from None
        if process.returncode:
            raise RuntimeError(f"{module} ended with {process.returncode}:\n{err.decode()[-2000:]}")
        found: dict[str, Any] = orjson.loads(out.splitlines()[-1])
        return found


async def owner_key(url: str) -> str:
    """An admin key of that database, made as the first start makes it."""
    settings = Settings.load(rejoinder_database_url=url)
    database = Database(url, pool=1)
    await database.open()
    try:
        access = Access(database, Events(database), Signals(database, lock_key=None), settings)
        _, secret = await access.create_key(
            name=f"bench-{time.time_ns()}", grants=["read", "write", "admin"], by=LOCAL_OWNER
        )
        return secret
    finally:
        await database.close()


async def worker_ready(url: str, count: int = 1) -> None:
    """Until so many workers have joined."""
    connection = await asyncpg.connect(url)
    try:
        while (
            await connection.fetchval(
                "SELECT count(*) FROM rejoinder.process WHERE kind = 'worker' AND ended_at IS NULL"
            )
            < count
        ):
            await asyncio.sleep(0.02)
    finally:
        await connection.close()


@contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="rj-", dir="/tmp"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def named(url: str, database: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))
