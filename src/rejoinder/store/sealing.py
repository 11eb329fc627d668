"""Keys that all processes of a deployment share, kept in its database, by what they are for.

The highest number seals, every one opens: a key is changed by adding one, and the old one is removed once nothing that
it sealed is still in use.
"""

from __future__ import annotations

import os
import time

from rejoinder.store.database import Database
from rejoinder.store.sql import sql

_sql = sql("tickets")

KEY_BYTES = 32
#: Seconds between two looks for a key that is not known here: junk must not make us read for each piece of it.
LOOK_AGAIN = 1.0


class SealingKeys:
    """The keys of one purpose. They are read once and then kept; a new one is found when it is first needed."""

    def __init__(self, database: Database, purpose: str) -> None:
        self._db = database
        self._purpose = purpose
        self._keys: dict[int, bytes] = {}
        self._looked = -LOOK_AGAIN

    async def current(self) -> tuple[int, bytes]:
        """``(number, secret)`` to seal with. The first one is made where there is none yet."""
        if not self._keys:
            await self._db.execute(_sql.first_key, self._purpose, os.urandom(KEY_BYTES))
        if time.monotonic() >= self._looked + LOOK_AGAIN or not self._keys:
            await self._look()
        number = max(self._keys)
        return number, self._keys[number]

    async def get(self, number: int) -> bytes | None:
        """The key that something was sealed with, or None where there is none of this number."""
        known = self._keys.get(number)
        if known is None and time.monotonic() >= self._looked + LOOK_AGAIN:
            await self._look()
            known = self._keys.get(number)
        return known

    def known(self, number: int) -> bytes | None:
        """The same, of those that were read already."""
        return self._keys.get(number)

    async def _look(self) -> None:
        rows = await self._db.rows(_sql.keys, self._purpose)
        self._looked = time.monotonic()
        self._keys = {row["number"]: row["secret"] for row in rows}
