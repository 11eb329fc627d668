"""Who is alive: a row with a beat, and a session lock on the notification connection."""

from __future__ import annotations

import os
import secrets
import socket
import time
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Any
from uuid import UUID, uuid4

from rejoinder.contract.errors import NotReadyError
from rejoinder.store.database import Database
from rejoinder.store.sql import sql

_sql = sql("processes")


class ThisProcess:
    """This process' row. ``lock_key`` is held by the notification connection while it lives."""

    def __init__(self, database: Database, kind: str, *, stale: float = 2.5) -> None:
        self._db = database
        self.kind = kind
        self._stale = stale
        self._beat_at = 0.0
        self._steady_since: float | None = None
        self.id: UUID = uuid4()
        self.lock_key = secrets.randbits(62)

    def renew(self) -> None:
        """Become another process, after this one was found dead."""
        self.id = uuid4()
        self.lock_key = secrets.randbits(62)

    async def join(self) -> None:
        await self._db.execute(
            _sql.join,
            self.id,
            self.kind,
            socket.gethostname(),
            os.getpid(),
            version("rejoinder"),
            self.lock_key,
        )

    async def beat(self) -> bool:
        """False: somebody found this process dead. Its questions are withdrawn; it must not go on as if they were not."""
        try:
            up = await self._db.value(_sql.beat, self.id)
        except NotReadyError:
            self._steady_since = None
            raise
        if up is None:
            return False
        now = time.monotonic()
        if self._steady_since is None:
            self._steady_since = now if self._beat_at else now - up
        elif now - self._beat_at > self._stale:
            self._steady_since = now
        self._beat_at = now
        return True

    @property
    def may_judge(self) -> bool:
        """Whether this process has seen the database so steadily that the others would have beaten by now. Where the
        database or this process was away, the others may have been cut off just the same, and come back a moment later.
        """
        if self._steady_since is None:
            return False
        now = time.monotonic()
        return now - self._beat_at <= self._stale and now - self._steady_since >= 2 * self._stale

    async def leave(self, reason: str) -> list[UUID]:
        """Withdraw what this process still asks. Returns those questions' ids."""
        return list(await self._db.value(_sql.leave, self.id, reason) or ())


async def bury_dead(database: Database, *, stale: float, half_open: float) -> list[tuple[UUID, list[UUID]]]:
    """Processes found dead, each with the questions that were withdrawn for it."""
    buried: list[tuple[UUID, list[UUID]]] = []
    while row := await database.row(_sql.bury_dead, timedelta(seconds=stale), timedelta(seconds=half_open)):
        buried.append((row["process_id"], list(row["withdrawn"] or ())))
    return buried


async def alive(database: Database) -> list[dict[str, Any]]:
    """``id, kind, host, pid, version, started_at, beat_at`` of each process that has not ended."""
    rows = await database.rows(_sql.alive)
    return [
        {
            key: value.isoformat()
            if isinstance(value, datetime)
            else str(value)
            if isinstance(value, UUID)
            else value
            for key, value in dict(row).items()
        }
        for row in rows
    ]
