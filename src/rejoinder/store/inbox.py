"""What the inbox lists: questions by how they stand, filtered, a page at a time. Any depth costs the same."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import UUID

from rejoinder.contract.questions import Question
from rejoinder.store.database import Database
from rejoinder.store.questions import to_question
from rejoinder.store.sql import sql

Standing = Literal["open", "answered", "lapsed", "withdrawn"]
#: The states behind each word of the inbox.
ENDS: dict[Standing, list[str]] = {
    "answered": ["answered"],
    "lapsed": ["expired"],
    "withdrawn": ["cancelled", "undelivered", "superseded"],
}
FACETS = 1_000
_FIRST = (datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))
_LAST = (datetime(9999, 1, 1, tzinfo=UTC), UUID(int=0))

_sql = sql("inbox")
_COLUMNS = sql("questions").columns
_OPEN = _sql.open.replace("{columns}", _COLUMNS)
_CLOSED = _sql.closed.replace("{columns}", _COLUMNS)

#: ``(timeout_at, id)`` of an open question, ``(closed_at, id)`` of a closed one.
Cursor = tuple[datetime, UUID]


@dataclass(frozen=True, slots=True)
class Filter:
    """What is left out is None. ``text`` is looked for in the question, whatever its case."""

    audience: str | None = None
    group_id: str | None = None
    tool: str | None = None
    mode: str | None = None
    text: str | None = None

    def values(self) -> tuple[str | None, ...]:
        pattern = None
        if self.text is not None:
            escaped = self.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            pattern = f"%{escaped}%"
        return self.audience, self.group_id, self.tool, self.mode, pattern


class Inbox:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def page(
        self, standing: Standing, filter: Filter, *, kept: float, limit: int, after: Cursor | None = None
    ) -> list[Question]:
        """Open ones by deadline, ended ones by their end, newest first. ``kept`` is seconds."""
        if standing == "open":
            rows = await self._db.rows(_OPEN, *(after or _FIRST), *filter.values(), limit)
        else:
            rows = await self._db.rows(
                _CLOSED, ENDS[standing], timedelta(seconds=kept), *(after or _LAST), *filter.values(), limit
            )
        return [to_question(row) for row in rows]

    async def facets(self, *, audience: str | None) -> tuple[list[str], list[str]]:
        """``(tools, audiences)`` that a filter may offer."""
        row = await self._db.row(_sql.facets, audience, FACETS)
        assert row is not None
        return list(row["tools"]), list(row["audiences"])

    async def now(self) -> datetime:
        """The clock that decides deadlines."""
        moment: datetime = await self._db.value(_sql.now)
        return moment
