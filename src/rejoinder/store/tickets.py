"""Tickets in the store: who holds one may answer its question. The store knows digests only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from rejoinder.store.database import Database
from rejoinder.store.questions import Closed
from rejoinder.store.sql import sql

_sql = sql("tickets")

#: Tickets of one question: each time that a person is sent to its outside page makes one.
MOST = 100


@dataclass(frozen=True, slots=True)
class TicketAnswer:
    """``seen``: the delivery that carried the answer counted before; ``closed``: somebody else or the clock was there
    first. ``closed_question`` is what the answer moved out of pending."""

    status: Literal["answered", "seen", "closed"]
    closed_question: Closed | None


class Tickets:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def add(self, question_id: UUID, digest: bytes) -> Literal["made", "full", "closed"]:
        """One more ticket. ``full``: the question has as many as it may have; ``closed``: it is not open any more."""
        status: Literal["made", "full", "closed"] = await self._db.value(_sql.add, digest, question_id, MOST)
        return status

    async def answer(
        self,
        question_id: UUID,
        *,
        by: str,
        via: str,
        answer: Any,
        sealed: bytes | None,
        digest: bytes | None,
        reply: dict[str, Any] | None,
        delivery: bytes | None,
        window: float | None,
    ) -> TicketAnswer:
        """Answer an open question. ``delivery`` names what carried the answer, for ``window`` seconds."""
        row = await self._db.row(
            _sql.answer,
            question_id,
            by,
            via,
            answer,
            sealed,
            digest,
            reply,
            delivery,
            None if window is None else timedelta(seconds=window),
        )
        assert row is not None
        closed = None
        if row["status"] == "answered":
            closed = Closed(question_id, row["run_id"], row["park_id"], row["resumes"])
        return TicketAnswer(row["status"], closed)

    async def prune(self) -> int:
        """Forget deliveries that are stale by now. Returns how many."""
        return int((await self._db.execute(_sql.prune)).rpartition(" ")[2])
