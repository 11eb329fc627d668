"""What happened: the stream's frames and the audit trail are the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from rejoinder.store.database import Database, Row
from rejoinder.store.sql import sql

_sql = sql("events")

#: The kinds that the stream shows; every other kind is for the audit trail only.
STREAMED = ("interaction.add", "interaction.answered", "interaction.removed")


@dataclass(frozen=True, slots=True)
class Event:
    seq: int
    xid: int
    at: datetime
    kind: str
    interaction_id: UUID | None
    group_id: str | None
    run_id: UUID | None
    audience: str | None
    actor: str | None
    via: str | None
    reason: str | None
    detail: dict[str, Any] | None

    def as_json(self) -> dict[str, Any]:
        return {
            "seq": self.seq,
            "at": self.at.isoformat(),
            "kind": self.kind,
            "interaction_id": str(self.interaction_id) if self.interaction_id else None,
            "group_id": self.group_id,
            "run_id": str(self.run_id) if self.run_id else None,
            "audience": self.audience,
            "actor": self.actor,
            "via": self.via,
            "reason": self.reason,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a reader stands: after the event ``seq`` of the transaction ``xid``."""

    xid: int
    seq: int


def _to_event(row: Row) -> Event:
    return Event(*row)


class Events:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def add(
        self,
        kind: str,
        *,
        interaction_id: UUID | None = None,
        group_id: str | None = None,
        run_id: UUID | None = None,
        audience: str | None = None,
        actor: str | None = None,
        via: str | None = None,
        reason: str | None = None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        await self._db.execute(
            _sql.add, kind, interaction_id, group_id, run_id, audience, actor, via, reason, detail
        )

    async def since(self, place: Place, limit: int) -> list[Event]:
        return [_to_event(row) for row in await self._db.rows(_sql.since, str(place.xid), place.seq, limit)]

    async def unseen_age(self, place: Place) -> float | None:
        """Seconds since the oldest event after ``place`` was written, or None where there is none."""
        age = await self._db.value(_sql.unseen, str(place.xid), place.seq)
        return None if age is None else float(age)

    async def tip(self) -> Place:
        xid = int(await self._db.value(_sql.tip))
        return Place(xid, int(await self._db.value(_sql.tip_seq, str(xid))))

    async def place_of(self, seq: int) -> Place | None:
        row = await self._db.row(_sql.place, seq)
        return None if row is None else Place(row["xid"], row["seq"])

    async def page(
        self,
        *,
        before: int | None = None,
        interaction_id: UUID | None = None,
        run_id: UUID | None = None,
        kind: str | None = None,
        actor: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        audience: str | None = None,
        limit: int = 100,
    ) -> list[Event]:
        """The audit trail, newest first. ``kind`` is a whole kind or its first word (``interaction``, ``run``)."""
        rows = await self._db.rows(
            _sql.page, before, interaction_id, run_id, kind, actor, since, until, audience, limit
        )
        return [_to_event(row) for row in rows]

    async def prune(self, keep: timedelta) -> int:
        """Forget what is older than ``keep``; one batch. Returns how many rows went."""
        gone = 0
        for query in (_sql.prune, _sql.prune_questions):
            gone += int((await self._db.execute(query, keep)).rsplit(" ", 1)[-1])
        gone += int(
            (await self._db.execute(_sql.prune_queue_log, min(keep, timedelta(days=7)))).rsplit(" ", 1)[-1]
        )
        return gone
