"""What public doors were called how often, for all processes together: one row a client, door and window.

The table is unlogged: a crash of the database forgets who knocked, and writing costs no wait for a disk.
"""

from __future__ import annotations

from collections.abc import Sequence

from rejoinder.store.database import Database
from rejoinder.store.sql import sql

_sql = sql("flood")

#: ``(key of the row, requests, when the window ends in seconds since 1970)``
Hit = tuple[bytes, int, float]


class Hits:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def add(self, hits: Sequence[Hit]) -> dict[bytes, int]:
        """Add these to the rows, in one statement, and return what each row then holds: from all processes."""
        rows = await self._db.rows(_sql.add, *(list(column) for column in zip(*hits, strict=True)))
        return {row["bucket"]: row["hits"] for row in rows}

    async def prune(self) -> int:
        """Take away rows of windows that ended, one batch. Returns how many."""
        return int((await self._db.execute(_sql.prune)).rpartition(" ")[2])
