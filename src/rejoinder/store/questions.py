"""Questions in the store: recorded, read, and moved out of pending by the one transition."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Literal, cast
from uuid import UUID

from rejoinder.contract.media import detach
from rejoinder.contract.questions import AskRequest, Question
from rejoinder.store.database import Database, Row
from rejoinder.store.media import store_pictures
from rejoinder.store.sql import sql

_sql = sql("questions")
_COLUMNS = _sql.columns


def _with_columns(query: str) -> str:
    return query.replace("{columns}", _COLUMNS)


_BY_ID = _with_columns(_sql.by_id)
_BY_IDS = _with_columns(_sql.by_ids)
_FOR_ANSWER = _with_columns(_sql.for_answer)
_BY_TICKET = _with_columns(_sql.by_ticket)
_PAGE = _with_columns(_sql.page)
_PAGE_OF = _with_columns(_sql.page_of)


@cache
def _record_with(number: int) -> str:
    """Records a question together with its ticket, whose digest is the parameter of this number."""
    query = sql("tickets").recorded_with
    return query.replace("{record}", _sql.record).replace("{digest}", str(number))


FIRST = (datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))
SLOT_KIND = "user"
CALLER_SLOT_KIND = "caller"


@dataclass(frozen=True, slots=True)
class RunReference:
    """The run that asks: its id and fencing token, and what is written of it where it has no row yet."""

    id: UUID
    epoch: int
    tool: str
    identity: str
    owner_process: UUID
    new_run: dict[str, Any] | None
    """``{"arguments", "door", "key_id", "idempotent", "trace"}`` for a run whose first question this is."""


@dataclass(frozen=True, slots=True)
class Recorded:
    status: Literal["recorded", "limit", "fenced", "past", "nowhere"]
    created_at: datetime
    timeout_at: datetime


@dataclass(frozen=True, slots=True)
class Closed:
    """One question that this call moved out of pending. ``resumes``: its park is complete and a job was enqueued."""

    id: UUID
    run_id: UUID
    park_id: UUID | None
    resumes: bool


@dataclass(frozen=True, slots=True)
class ForAnswer:
    question: Question
    seal_key: bytes | None
    answer_digest: bytes | None
    late: bool
    gone: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a question ended, as a woken caller reads it."""

    id: UUID
    state: str
    answer: Any
    sealed_answer: bytes | None
    closed_at: datetime
    timeout_at: datetime
    reason: str | None
    closed_via: str | None
    reply: dict[str, Any] | None


def _recorded(row: Row | None) -> Recorded:
    assert row is not None
    return Recorded(row["status"], row["created_at"], row["timeout_at"])


def to_question(row: Row) -> Question:
    return Question(*(row[i] for i in range(_WIDTH)))


_WIDTH = len(_COLUMNS.split(","))


class Questions:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._caller_slots = False

    async def record(
        self,
        identifier: UUID,
        run: RunReference,
        ordinal: int,
        park_id: UUID | None,
        request: AskRequest,
        seal_key: bytes | None,
        cap: int | None,
    ) -> Recorded:
        media, pictures = detach(request.media)
        given = (
            identifier,
            run.id,
            run.epoch,
            run.new_run,
            park_id,
            ordinal,
            request.group_id,
            request.mode,
            request.answer_format,
            request.question,
            request.format_payload,
            media,
            request.audience,
            request.sensitive,
            seal_key,
            request.on_expiry,
            run.tool,
            run.identity,
            run.owner_process,
            timedelta(seconds=request.timeout) if request.timeout is not None else None,
            request.expiry_at,
            cap,
            SLOT_KIND if request.to == "user" else CALLER_SLOT_KIND,
        )
        query, values = _sql.record, cast(tuple[Any, ...], given)
        if request.to == "caller":
            if cap is not None and not self._caller_slots:
                # Made when they are first needed: they are many, and most deployments never need them.
                await self.ensure_slots(cap, CALLER_SLOT_KIND)
                self._caller_slots = True
            query, values = _sql.record_caller, (*given, request.payload)
        elif request.ticket is not None:
            query, values = _record_with(len(given) + 1), (*given, request.ticket)
        if not pictures:
            return _recorded(await self._db.row(query, *values))
        async with self._db.transaction() as connection:
            recorded = _recorded(await connection.fetchrow(query, *values))
            if recorded.status == "recorded":
                await store_pictures(connection, identifier, pictures)
        return recorded

    async def close(
        self,
        identifiers: list[UUID],
        verdict: Literal["answered", "expired", "cancelled", "undelivered", "superseded"],
        *,
        by: str,
        via: str | None = None,
        reason: str | None = None,
        answer: Any = None,
        sealed: bytes | None = None,
        digest: bytes | None = None,
    ) -> list[Closed]:
        """Move questions out of pending. Those that somebody or the clock moved before are not in the result."""
        rows = await self._db.rows(_sql.close, identifiers, verdict, by, via, reason, answer, sealed, digest)
        return [Closed(*row) for row in rows]

    async def expire_due(self, limit: int) -> list[Closed]:
        return [Closed(*row) for row in await self._db.rows(_sql.expire_due, limit)]

    async def seconds_to_next_deadline(self) -> float | None:
        seconds = await self._db.value(_sql.next_deadline)
        return None if seconds is None else float(seconds)

    async def by_id(self, identifier: UUID) -> Question | None:
        row = await self._db.row(_BY_ID, identifier)
        return None if row is None else to_question(row)

    async def for_answer(self, identifier: UUID, kept: float) -> ForAnswer | None:
        row = await self._db.row(_FOR_ANSWER, identifier, timedelta(seconds=kept))
        if row is None:
            return None
        return ForAnswer(
            to_question(row), row["seal_key"], row["answer_digest"], row["late"], bool(row["gone"])
        )

    async def by_ticket(self, digest: bytes, kept: float) -> ForAnswer | None:
        """The question that a ticket answers, however it stands."""
        row = await self._db.row(_BY_TICKET, digest, timedelta(seconds=kept))
        if row is None:
            return None
        return ForAnswer(
            to_question(row), row["seal_key"], row["answer_digest"], row["late"], bool(row["gone"])
        )

    async def answered_by_tickets(self, digests: list[bytes]) -> set[bytes]:
        """Of these tickets those whose question has its answer."""
        return {row["digest"] for row in await self._db.rows(_sql.answered_by_tickets, digests)}

    async def by_ids(self, identifiers: list[UUID]) -> dict[UUID, Question]:
        rows = await self._db.rows(_BY_IDS, identifiers)
        return {row["id"]: to_question(row) for row in rows}

    async def outcomes(self, identifiers: list[UUID]) -> list[Outcome]:
        return [Outcome(*row) for row in await self._db.rows(_sql.outcomes, identifiers)]

    async def forget_sealed(self, identifier: UUID) -> None:
        await self._db.execute(_sql.forget_sealed, identifier)

    async def page(
        self, *, audience: str | None, limit: int, offset: int = 0, after: tuple[datetime, UUID] = FIRST
    ) -> list[Question]:
        """Open questions by deadline. ``audience`` narrows to one; None is everybody's."""
        query = _PAGE if audience is None else _PAGE_OF
        rows = await self._db.rows(query, after[0], after[1], audience, limit, offset)
        return [to_question(row) for row in rows]

    async def count(self, *, audience: str | None, cap: int) -> int:
        if audience is None:
            return int(await self._db.value(_sql.count, cap))
        return int(await self._db.value(_sql.count_of, cap, audience))

    async def search(
        self,
        *,
        state: str | None,
        group_id: str | None,
        tool: str | None,
        audience: str | None,
        mode: str | None,
        text: str | None,
        limit: int,
        offset: int,
    ) -> list[Question]:
        pattern = (
            None
            if text is None
            else "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        )
        rows = await self._db.rows(
            _with_columns(_sql.search), state, group_id, tool, audience, mode, pattern, limit, offset
        )
        return [to_question(row) for row in rows]

    async def parked(self, *, audience: str | None, limit: int) -> list[Question]:
        return [to_question(row) for row in await self._db.rows(_with_columns(_sql.parked), limit, audience)]

    async def of_run(self, run_id: UUID) -> list[Question]:
        return [to_question(row) for row in await self._db.rows(_with_columns(_sql.of_run), run_id)]

    async def open_below(self, run_id: UUID) -> list[Question]:
        """What people are asked by a run and by those that it called, in the order asked."""
        return [to_question(row) for row in await self._db.rows(_with_columns(_sql.open_below), run_id)]

    async def of_park(self, park_id: UUID) -> list[Question]:
        return [to_question(row) for row in await self._db.rows(_with_columns(_sql.of_park), park_id)]

    async def ensure_slots(self, cap: int, kind: str = SLOT_KIND) -> None:
        await self._db.execute(_sql.ensure_slots, kind, cap)
