"""Deliveries in the store: what topics accepted, kept before it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from rejoinder.contract.deliveries import Delivery
from rejoinder.contract.verifiers import Binding
from rejoinder.store.database import Database
from rejoinder.store.sql import sql

_sql = sql("deliveries")


@dataclass(frozen=True, slots=True)
class Kept:
    """``rebound``: the topic's binding changed since it was read. ``gone``: the trigger link does not count. ``full``:
    the open topic has as many hook runs that are not done as it may have. ``hooks`` run on it."""

    status: Literal["accepted", "seen", "rebound", "gone", "full"]
    hooks: int


class Deliveries:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def binding(self, topic: str) -> Binding | None:
        """The verifier before a topic, or None where the topic is open."""
        row = await self._db.row(_sql.binding, topic)
        return None if row is None else Binding(row["verifier"], row["config"])

    async def accept(
        self,
        identifier: UUID,
        topic: str,
        payload: Any,
        *,
        binding: Binding | None,
        link: bytes | None,
        claim: bytes | None,
        window: float | None,
        most: int,
    ) -> Kept:
        """Keep an event and a run for each hook on its topic, in one transaction. ``claim`` names the delivery for
        ``window`` seconds; ``link`` is the digest of the trigger link that it came through."""
        row = await self._db.row(
            _sql.accept,
            identifier,
            topic,
            None if binding is None else binding.verifier,
            None if binding is None else dict(binding.config),
            link,
            payload,
            claim,
            None if window is None else timedelta(seconds=window),
            most,
        )
        assert row is not None
        return Kept(row["status"], row["hooks"])

    async def of_run(self, run_id: UUID) -> Delivery | None:
        """The delivery that a hook started this run on, or None."""
        row = await self._db.row(_sql.of_run, run_id)
        return None if row is None else Delivery(*row)

    async def vouches(self, run_id: UUID) -> bool:
        """Whether a hook of an admin's started this run, on a delivery that a verifier vouched for."""
        return bool(await self._db.value(_sql.vouches, run_id))

    async def prune(self, *, verified: float, open_ones: float) -> int:
        """Forget deliveries that are older than so many seconds and done with; one batch. Returns how many."""
        done = await self._db.execute(_sql.prune, timedelta(seconds=verified), timedelta(seconds=open_ones))
        return int(done.rpartition(" ")[2])
