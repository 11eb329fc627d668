"""What those who run the deployment should see, until it is resolved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from rejoinder.store.database import Database
from rejoinder.store.sql import sql

_sql = sql("notifications")


@dataclass(frozen=True, slots=True)
class Notification:
    """``about`` is the id of what it is about: of a hook run where ``kind`` is ``hooks_run_failed``."""

    id: UUID
    kind: str
    about: UUID | None
    text: str
    created_at: datetime
    resolved_at: datetime | None

    def as_json(self) -> dict[str, Any]:
        return {
            "id": str(self.id),
            "kind": self.kind,
            "about": str(self.about) if self.about else None,
            "text": self.text,
            "created_at": self.created_at.isoformat(),
            "resolved_at": self.resolved_at.isoformat() if self.resolved_at else None,
        }


class Notifications:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def newest(self, *, unresolved: bool = False, limit: int = 50) -> list[Notification]:
        rows = await self._db.rows(_sql.newest, unresolved, limit)
        return [Notification(*row) for row in rows]

    async def prune(self, keep: timedelta) -> int:
        """Forget those that were resolved longer ago than ``keep``; one batch."""
        return int((await self._db.execute(_sql.prune, keep)).rpartition(" ")[2])
