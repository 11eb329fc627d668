"""The requests of calls over MCP, in the store: which of them were told their call's end, and which were given up."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from rejoinder.store.database import Database
from rejoinder.store.sql import sql

_sql = sql("legs")


class Legs:
    """``request`` is what names a request in the whole deployment. ``tell`` and ``give_up`` may be repeated after a lost
    reply."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def begin(self, request: bytes, run_id: UUID) -> bool:
        """The request holds on to this run, and can be given up by its name. True where it was, before it came."""
        given_up: bool = await self._db.value(_sql.begin, request, run_id)
        return given_up

    async def tell(self, request: bytes, run_id: UUID) -> bool:
        """Hand the run's end to the request: the same call then means a new run. False where it was given up, and the
        end stays the call's answer."""
        told: bool = await self._db.value(_sql.tell, request, run_id)
        return told

    async def give_up(self, request: bytes) -> UUID | None:
        """Nobody listens to the request any more: an end that was handed to it alone is the call's answer again. Returns
        the run that it held on to; None where the request has not come yet."""
        run_id: UUID | None = await self._db.value(_sql.give_up, request)
        return run_id

    async def prune(self, keep: timedelta) -> int:
        """Forget those that came longer ago than ``keep``; one batch."""
        return int((await self._db.execute(_sql.prune, keep)).rpartition(" ")[2])
