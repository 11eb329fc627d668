"""What tests share: waiting for something to become true, and real processes to start, stop, pause and kill.

The only place of the tests that sleeps.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar, overload

import asyncpg
import httpx2

T = TypeVar("T")

#: Seconds. Long, because a busy machine is no failure; nothing waits for it when all is well.
WITHIN = 20.0
_EVERY = 0.02
#: What a shell or a CI may set and a test must not see.
OURS = ("REJOINDER_", "INTERACTIONS_", "TAI_", "ACCESS_CONTROL_", "OTEL_", "PG")


@overload
async def assert_eventually(
    predicate: Callable[[], Awaitable[T]], message: str = ..., within: float = ...
) -> T: ...
@overload
async def assert_eventually(predicate: Callable[[], T], message: str = ..., within: float = ...) -> T: ...
async def assert_eventually(
    predicate: Callable[[], object], message: str = "it did not become true", within: float = WITHIN
) -> object:
    """Call ``predicate`` (plain or async) until it returns something true, and return that. Fails after ``within`` s."""
    deadline = time.monotonic() + within
    while True:
        result = predicate()
        value = await result if inspect.isawaitable(result) else result
        if value:
            return value
        assert time.monotonic() < deadline, f"{message} (waited {within:g} s; the last value was {value!r})"
        await asyncio.sleep(_EVERY)


def wait_until(
    predicate: Callable[[], T], message: str = "it did not become true", within: float = WITHIN
) -> T:
    """``assert_eventually`` for tests that are not async."""
    deadline = time.monotonic() + within
    while True:
        value = predicate()
        if value:
            return value
        assert time.monotonic() < deadline, f"{message} (waited {within:g} s; the last value was {value!r})"
        time.sleep(_EVERY)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process' environment without what configures the product, and with ``extra``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**kept, "PYTHONUNBUFFERED": "1", **(extra or {})}


def client(url: str, key: str | None = None, *, timeout: float = 30) -> httpx2.AsyncClient:
    """An HTTP client for one of our servers; use it in ``async with``. ``key`` is sent as a bearer token."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx2.AsyncClient(base_url=url, headers=headers, timeout=timeout, trust_env=False)


async def execute(url: str, *statements: str) -> None:
    """Run statements on a connection of their own, each by itself."""
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


class MovableClock:
    """Moves the time that deadlines are read by, in one database, for every process that uses it."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def install(self) -> None:
        await execute(
            self._url,
            """
            CREATE SCHEMA rejoinder_test;
            CREATE TABLE rejoinder_test.clock (moved interval NOT NULL, held timestamptz);
            INSERT INTO rejoinder_test.clock VALUES (interval '0', NULL);
            CREATE OR REPLACE FUNCTION rejoinder.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS
                'SELECT COALESCE(held, clock_timestamp()) + moved FROM rejoinder_test.clock';
            """,
        )

    async def advance(self, seconds: float) -> None:
        """Move on by so many seconds (back, where negative)."""
        await self._update("moved = moved + make_interval(secs => $1)", float(seconds))

    async def set(self, moment: datetime) -> None:
        """Stop at ``moment`` (with a zone); ``advance`` still moves from there."""
        await self._update("moved = interval '0', held = $1", moment)

    async def hold(self) -> datetime:
        """Stop at what it shows now, so that a test can count on exact times."""
        await self._update("held = COALESCE(held, clock_timestamp())")
        return await self.now()

    async def now(self) -> datetime:
        connection = await asyncpg.connect(self._url)
        try:
            shown: datetime = await connection.fetchval("SELECT rejoinder.clock()")
            return shown
        finally:
            await connection.close()

    async def _update(self, change: str, *values: object) -> None:
        connection = await asyncpg.connect(self._url)
        try:
            await connection.execute(f"UPDATE rejoinder_test.clock SET {change}", *values)
        finally:
            await connection.close()


class Process:
    """One ``rejoinder`` process under test. Its output, both streams, is in ``log``."""

    def __init__(self, arguments: list[str], log: Path, environment: dict[str, str], url: str | None) -> None:
        self.log = log
        self.url = url or ""
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(Path(sys.executable).with_name("rejoinder")), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=log.parent,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative is the signal that ended it."""
        return self._process.poll()

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def ready(self) -> bool:
        """Whether ``/ready`` says yes. Fails at once if the process has ended."""
        assert self.returncode is None, f"it ended with {self.returncode}:\n{self.output()}"
        try:
            return httpx2.get(f"{self.url}/ready", timeout=5, trust_env=False).status_code == 200
        except httpx2.TransportError:
            return False

    async def wait_ready(self, within: float = 60) -> Process:
        await assert_eventually(lambda: asyncio.to_thread(self.ready), f"not ready:\n{self.output()}", within)
        return self

    async def wait_output(self, text: str, within: float = WITHIN) -> str:
        await assert_eventually(lambda: text in self.output(), f"{text!r} was never written", within)
        return self.output()

    async def wait_ended(self, within: float = WITHIN) -> int:
        await assert_eventually(
            lambda: self.returncode is not None, f"still running:\n{self.output()}", within
        )
        assert self.returncode is not None
        return self.returncode

    async def wait_paused(self, within: float = WITHIN) -> None:
        """Until it has stopped itself at a pause point (``name=stop``) or ``pause()`` took effect."""
        await assert_eventually(lambda: self._state() == "T", f"not paused:\n{self.output()}", within)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._signal(signal.SIGINT)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            self._process.send_signal(number)

    def _state(self) -> str:
        shown = subprocess.run(
            ["ps", "-o", "state=", "-p", str(self.pid)], capture_output=True, text=True, check=False
        )
        return shown.stdout.strip()[:1]


class Processes:
    """Starts processes and, at the end of the test, kills the ones that are left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._all: list[Process] = []

    def start(
        self,
        command: str,
        *arguments: str,
        database_url: str | None = None,
        port: int | None = None,
        pause: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """``rejoinder COMMAND ARGUMENTS``, without waiting for it.

        ``serve`` and ``up`` get ``--port`` (``port`` or a free one) and then have a ``url``. ``pause`` is
        REJOINDER_PAUSE, such as ``answer.committed=kill``.
        """
        extra = dict(env or {})
        if database_url is not None:
            extra["REJOINDER_DATABASE_URL"] = database_url
        if pause is not None:
            extra["REJOINDER_PAUSE"] = pause
        words, url = [command, *arguments], None
        if command in ("serve", "up") and "--port" not in arguments:
            port = port or free_port()
            words += ["--port", str(port)]
            url = f"http://127.0.0.1:{port}"
        log = self._folder / f"{len(self._all)}-{command}.log"
        process = Process(words, log, clean_environment(extra), url)
        self._all.append(process)
        return process

    def end(self) -> None:
        for process in self._all:
            process.kill()


@contextmanager
def running_processes(folder: Path) -> Iterator[Processes]:
    processes = Processes(folder)
    try:
        yield processes
    finally:
        processes.end()
