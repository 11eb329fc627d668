"""The embedded Postgres as a product runs it: started by whoever comes first, shared, stopped by the last one.

Two locks in the data folder decide, and a killed process holds neither. ``lock`` is held alone while somebody starts
or stops the server. ``users`` is held, shared, by everyone who uses it; the one that can take it alone on leaving
was the last and stops the server. A server that outlived its users (they were killed) is attached to by the next.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from rejoinder.contract.errors import ConfigurationError, NotReadyError
from rejoinder.launch.cluster import Cluster
from rejoinder.launch.paths import DataFolder
from rejoinder.launch.programs import binaries

DATABASE = "rejoinder"


class EmbeddedServer:
    """The Postgres of one data folder, as used by this object. Blocking; from a coroutine use ``asyncio.to_thread``.

    ``wait`` is how many seconds a start may take, recovery after a crash included, and a stop. ``settings`` are
    lines of ``postgresql.conf`` that replace ours; they count only for the process that starts the server.
    """

    def __init__(
        self, data: DataFolder, *, wait: float = 120, settings: Mapping[str, str] | None = None
    ) -> None:
        self.data = data
        self._wait = wait
        self._cluster = Cluster(data.postgres, settings or {})
        self._use: int | None = None
        self._url: str | None = None
        self._guard = threading.Lock()

    @property
    def programs(self) -> Path:
        """The folder with ``pg_dump``, ``pg_restore`` and ``psql`` of the server's version."""
        return binaries()

    @property
    def pid(self) -> int | None:
        """The process number of the server, if one runs."""
        postmaster = self._cluster.postmaster()
        return postmaster.pid if postmaster is not None and postmaster.alive() else None

    def running(self) -> bool:
        """Whether a server on this data folder answers now, whoever started it."""
        return self._cluster.answers(DATABASE)

    def start(self) -> str:
        """Attach to the server of this folder, or start it, and return the URL of its database.

        May be called again at any time: it returns the same URL, or restarts a server that died. Raises
        ConfigurationError where this cannot work here, NotReadyError where it did not come up in time.
        """
        with self._guard:
            _check_platform()
            self.data.create()
            with self._alone():
                if not self._attach():
                    self._cluster.create()
                    self._cluster.start(wait=self._wait)
                self._url = self._database()
                if self._use is None:
                    self._use = _open(self.data.users)
                    _flock(self._use, shared=True, wait=None)
            return self._url

    def stop(self) -> bool:
        """Stop using the server. Returns True if it is stopped now, False if somebody else still uses it."""
        with self._guard:
            if self._use is None:
                return self.pid is None
            with self._alone():
                use, self._use, self._url = self._use, None, None
                try:
                    # From shared to alone on the same descriptor: possible only for the last user.
                    if not _flock(use, shared=False, wait=0):
                        return False
                    return self._cluster.stop(wait=self._wait)
                finally:
                    os.close(use)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The URL of the database while this object uses the server."""
        if self._url is None:
            raise NotReadyError("The embedded Postgres is not started.")
        return self._url

    def url_of(self, database: str) -> str:
        """The URL of another database of the same server."""
        url = self._cluster.url(database)
        if url is None:
            raise NotReadyError("The embedded Postgres is not started.")
        return url

    def sql(self, statement: str, *, database: str = DATABASE) -> str:
        """The plain output of one statement, for the few things that are about the server and not about our tables."""
        url = self._cluster.url(database)
        result = None if url is None else self._cluster.sql(url, statement)
        if result is None:
            raise NotReadyError("The embedded Postgres does not answer.")
        return result

    def _attach(self) -> bool:
        """True if a server answers. One that is starting, recovering or stopping is waited for."""
        deadline = time.monotonic() + self._wait
        while True:
            if self._cluster.answers():
                return True
            postmaster = self._cluster.postmaster()
            if postmaster is None or not postmaster.alive():
                return False
            if time.monotonic() > deadline:
                raise NotReadyError(
                    f"The embedded Postgres (process {postmaster.pid}) runs but does not answer yet. It may be "
                    f"recovering after a crash; its log is in {self.data.postgres / 'log'}. Try again in a while."
                )
            time.sleep(0.05)

    def _database(self) -> str:
        url = self._cluster.url(DATABASE)
        if url is None:
            raise NotReadyError("The embedded Postgres stopped while it was being attached to; try again.")
        if DATABASE not in self.sql("SELECT datname FROM pg_database", database="postgres").splitlines():
            self.sql(f"CREATE DATABASE {DATABASE}", database="postgres")
        return url

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        handle = _open(self.data.lock)
        try:
            if not _flock(handle, shared=False, wait=self._wait * 2):
                raise NotReadyError(
                    f"Another process has been starting or stopping the embedded Postgres of {self.data.root} for "
                    f"{self._wait * 2:.0f} seconds. Try again, or look what that process does."
                )
            yield
        finally:
            os.close(handle)


def _check_platform() -> None:
    if os.name != "posix":
        raise ConfigurationError(
            "The embedded Postgres runs on Linux and macOS. Name your own server in REJOINDER_DATABASE_URL."
        )


def _open(path: Path) -> int:
    # Not inherited by programs that we start: a lock lives exactly as long as this process means to hold it.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _flock(handle: int, *, shared: bool, wait: float | None) -> bool:
    """Take the lock, waiting ``wait`` seconds at most, or for ever."""
    import fcntl

    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    if wait is None:
        fcntl.flock(handle, kind)
        return True
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
