"""Hook runs in the store. Every write names the attempt that it means, so that two workers never both count."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from rejoinder.store.database import Database
from rejoinder.store.sql import sql

_sql = sql("hook_runs")
_COLUMNS = _sql.columns
_TAKE = _sql.take.replace("{columns}", _COLUMNS)
_PAGE = _sql.page.replace("{columns}", _COLUMNS)

HookRunStatus = Literal["outstanding", "acted", "skipped", "failed", "discarded"]
#: Before the newest row there can be.
FIRST = (datetime(9999, 1, 1, tzinfo=UTC), UUID(int=2**128 - 1))
#: How far the lists count.
MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class HookRun:
    """One hook on one delivery. ``run_id`` is the run of the attempt that goes on or was judged last."""

    id: UUID
    delivery_id: UUID
    topic: str
    hook: str
    status: HookRunStatus
    attempts: int
    attempts_before: int
    next_attempt_at: datetime | None
    run_id: UUID | None
    acted: bool
    acted_ids: list[UUID]
    claim_intent: Literal["start", "resume"] | None
    last_error: str | None
    last_error_kind: str | None
    created_at: datetime
    failed_at: datetime | None

    def as_json(self) -> dict[str, Any]:
        """What the list shows: nothing of the event itself, which may hold live tickets."""
        return {
            "id": str(self.id),
            "topic": self.topic,
            "hook": self.hook,
            "status": self.status,
            "attempts": self.attempts,
            "next_attempt_at": self.next_attempt_at.isoformat() if self.next_attempt_at else None,
            "acted": self.acted,
            "acted_ids": [str(one) for one in self.acted_ids],
            "claim_intent": self.claim_intent or "",
            "last_error": self.last_error,
            "last_error_kind": self.last_error_kind,
            "created_at": self.created_at.isoformat(),
            "failed_at": self.failed_at.isoformat() if self.failed_at else None,
        }


@dataclass(frozen=True, slots=True)
class Material:
    """What an attempt is made of. ``updated_at`` is when the hook was written last."""

    hook: str
    tool: str
    key_id: UUID | None
    tool_kwargs: dict[str, Any]
    condition: str | None
    start_expr: str | None
    updated_at: datetime
    payload: Any
    trigger_kwargs: dict[str, Any] | None


class HookRuns:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def take(self, process: UUID, limit: int, lease: float) -> list[HookRun]:
        """Due ones, which nobody else comes for within ``lease`` seconds while ``process`` lives."""
        rows = await self._db.rows(_TAKE, process, limit, timedelta(seconds=lease))
        return [HookRun(*row) for row in rows]

    async def next_due(self) -> float | None:
        """Seconds until the next one is due; less than none where one is."""
        seconds: float | None = await self._db.value(_sql.next_due)
        return seconds

    async def material(self, identifier: UUID) -> Material | None:
        """None where the hook was deleted, or moved to another topic."""
        row = await self._db.row(_sql.material, identifier)
        return None if row is None else Material(*row)

    async def start(
        self,
        identifier: UUID,
        attempt: int,
        run_id: UUID,
        *,
        hook_at: datetime,
        tool: str,
        arguments: dict[str, Any],
        identity: str,
        key_id: UUID,
        idempotent: bool,
        checkpointed: bool,
        trace: str | None,
        preset_version: UUID | None = None,
    ) -> Literal["started", "changed", "over"]:
        """Record this attempt's run and its job. ``changed``: the hook is not the one of ``hook_at`` any more.
        ``preset_version`` is what the arguments were checked against, where the tool is a preset."""
        given = (
            identifier,
            attempt,
            hook_at,
            run_id,
            tool,
            arguments,
            identity,
            key_id,
            idempotent,
            checkpointed,
            trace,
        )
        status: Literal["started", "changed", "over"]
        if preset_version is None:
            status = await self._db.value(_sql.start, *given)
            return status
        async with self._db.transaction() as connection:
            status = await connection.fetchval(_sql.start, *given)
            if status == "started":
                await connection.execute(_sql.pin_preset, run_id, preset_version)
        return status

    async def skip(self, identifier: UUID, attempt: int, why: str) -> bool:
        """End one that starts nothing. False: another worker was first."""
        return bool(await self._db.value(_sql.skip, identifier, attempt, why))

    async def fail(
        self,
        identifier: UUID,
        attempt: int,
        run_id: UUID | None,
        *,
        kind: str,
        error: str,
        again: float | None,
        acted: bool = False,
        intent: Literal["start", "resume"] | None = None,
    ) -> Literal["again", "held", "over"]:
        """An attempt failed: try once more after ``again`` seconds, or hold it for an operator."""
        status: Literal["again", "held", "over"] = await self._db.value(
            _sql.fail,
            identifier,
            attempt,
            run_id,
            kind,
            error,
            None if again is None else timedelta(seconds=again),
            acted,
            intent,
        )
        return status

    async def retry(self, identifier: UUID, by: str) -> Literal["queued", "unknown", "conflict", "discard"]:
        status: Literal["queued", "unknown", "conflict", "discard"] = await self._db.value(
            _sql.retry, identifier, by
        )
        return status

    async def discard(self, identifier: UUID, by: str) -> Literal["discarded", "unknown", "conflict"]:
        status: Literal["discarded", "unknown", "conflict"] = await self._db.value(
            _sql.discard, identifier, by
        )
        return status

    async def page(
        self, status: HookRunStatus, *, after: tuple[datetime, UUID] = FIRST, limit: int
    ) -> list[HookRun]:
        """Newest first, behind the place ``after``."""
        return [HookRun(*row) for row in await self._db.rows(_PAGE, status, *after, limit)]

    async def counts(self) -> tuple[int, int]:
        """How many are outstanding and how many are held as failed, each up to ``MOST_COUNTED``."""
        row = await self._db.row(_sql.counts, MOST_COUNTED)
        assert row is not None
        return row["outstanding"], row["failed"]

    async def held(self) -> int:
        """How many are held as failed, up to a thousand."""
        return int(await self._db.value(_sql.held))
