"""Runs and parks in the store. Every write that matters carries the run's epoch, and writes nothing under an old one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from rejoinder.store.database import Database
from rejoinder.store.sql import sql

_sql = sql("runs")
_COLUMNS = _sql.columns
_BRIEF = _COLUMNS.replace("result,", "NULL::jsonb AS result,").replace(
    "arguments,", "NULL::jsonb AS arguments,"
)
_BY_ID = _sql.by_id.replace("{columns}", _COLUMNS)
_OF_PARK = _sql.of_park.replace("{columns}", _COLUMNS)
_NEWEST = _sql.newest.replace("{brief}", _BRIEF)

RunState = Literal["running", "parked", "succeeded", "failed", "lost", "cancelled"]
Entered = Literal["entered", "busy", "interrupted", "exhausted", "over"]


@dataclass(frozen=True, slots=True)
class Run:
    id: UUID
    tool: str
    arguments: dict[str, Any] | None
    door: str
    state: RunState
    phase: Literal["start", "resume"]
    identity: str
    key_id: UUID | None
    owner_process: UUID | None
    epoch: int
    starts: int
    idempotent: bool
    held: bool
    result: Any
    error: dict[str, Any] | None
    trace: str | None
    created_at: datetime
    entered_at: datetime | None
    finished_at: datetime | None
    parent_run_id: UUID | None
    preset_version: UUID | None = None
    subject: str | None = None

    def as_json(self, *, bodies: bool = True) -> dict[str, Any]:
        """What ``GET /api/tool-runs/{id}`` answers; ``bodies=False`` leaves arguments, result and error out."""
        item: dict[str, Any] = {
            "run_id": str(self.id),
            "tool_name": self.tool,
            "status": self.state,
            "held": self.held,
            "identity": self.identity,
            "created_at": self.created_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
            "subject": self.subject,
        }
        if bodies:
            item["arguments"] = self.arguments
            item["result"] = self.result
            item["error"] = self.error
        return item


@dataclass(frozen=True, slots=True)
class Claim:
    """``lost_run`` is an earlier run of the same call that ended with its process a short while ago."""

    status: Literal["claimed", "joined", "fenced"]
    run_id: UUID
    lost_run: UUID | None


class Runs:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def by_id(self, identifier: UUID) -> Run | None:
        row = await self._db.row(_BY_ID, identifier)
        return None if row is None else Run(*row)

    async def newest(
        self,
        *,
        tool: str | None = None,
        identity: str | None = None,
        state: str | None = None,
        held: bool | None = None,
        subject: str | None = None,
        limit: int = 50,
    ) -> list[Run]:
        return [
            Run(*row) for row in await self._db.rows(_NEWEST, tool, identity, state, held, subject, limit)
        ]

    async def start(
        self,
        identifier: UUID,
        *,
        tool: str,
        arguments: dict[str, Any],
        door: str,
        identity: str,
        key_id: UUID | None,
        idempotent: bool,
        trace: str | None,
        checkpointed: bool = False,
        subject: str | None = None,
        preset_version: UUID | None = None,
    ) -> datetime:
        """Record a background run and its job, together. ``checkpointed``: its questions outlive its workers.
        ``preset_version``: the version of a preset that was accepted, whatever counts when a worker takes it."""
        given = (
            identifier,
            tool,
            arguments,
            door,
            identity,
            key_id,
            idempotent,
            trace,
            checkpointed,
            subject,
        )
        at: datetime
        if preset_version is None:
            at = await self._db.value(_sql.start, *given)
            return at
        async with self._db.transaction() as connection:
            at = await connection.fetchval(_sql.start, *given)
            await connection.execute(_sql.pin_preset, identifier, preset_version)
        return at

    async def begin(
        self,
        identifier: UUID,
        process: UUID,
        *,
        tool: str,
        arguments: dict[str, Any],
        door: str,
        identity: str,
        key_id: UUID | None,
        idempotent: bool,
        trace: str | None,
    ) -> None:
        """Record a checkpointed run that this process drives itself, in epoch 1. Repeated, it finds itself done."""
        await self._db.execute(
            _sql.begin, identifier, tool, arguments, door, identity, key_id, idempotent, trace, process
        )

    async def enter(
        self,
        identifier: UUID,
        park_id: UUID | None,
        process: UUID,
        entry: UUID,
        max_starts: int,
        stale: float,
    ) -> tuple[Entered, int]:
        """Take a run under a new epoch. ``entry`` names the call: the same one twice is one entering."""
        row = await self._db.row(
            _sql.enter, identifier, park_id, process, entry, max_starts, timedelta(seconds=stale)
        )
        assert row is not None
        return row["status"], row["epoch"]

    async def seal(
        self, identifier: UUID, epoch: int, park_id: UUID
    ) -> tuple[Literal["parked", "fenced", "empty"], bool]:
        """Park the run. The flag says that everything was answered already and the resume job is enqueued."""
        row = await self._db.row(_sql.seal, identifier, epoch, park_id)
        assert row is not None
        return row["status"], row["resumes"]

    async def finish(
        self,
        identifier: UUID,
        epoch: int,
        state: RunState,
        *,
        held: bool = False,
        result: Any = None,
        error: dict[str, Any] | None = None,
    ) -> tuple[bool, list[UUID]]:
        """End the run and withdraw what it still asks. False: another worker drives it, and nothing was written."""
        row = await self._db.row(_sql.finish, identifier, epoch, state, held, result, error)
        assert row is not None
        return row["status"] == "finished", list(row["withdrawn"] or ())

    async def finish_many(self, ends: list[tuple[UUID, int, RunState, dict[str, Any] | None]]) -> list[UUID]:
        """End runs whose results nobody reads from here. Returns the questions that were withdrawn with them."""
        ids, epochs, states, errors = (list(column) for column in zip(*ends, strict=True))
        return list(await self._db.value(_sql.finish_many, ids, epochs, states, errors) or ())

    async def release(self, identifier: UUID, epoch: int, error: dict[str, Any]) -> bool:
        return bool(await self._db.value(_sql.release, identifier, epoch, error))

    async def retry(self, identifier: UUID, by: str) -> Literal["queued", "conflict", "unknown"]:
        status: Literal["queued", "conflict", "unknown"] = await self._db.value(_sql.retry, identifier, by)
        return status

    async def discard(self, identifier: UUID, by: str) -> bool:
        return await self._db.value(_sql.discard, identifier, by) is not None

    async def of_park(self, park_id: UUID) -> Run | None:
        """The run that this park's resumption carries on, or None where it has none."""
        row = await self._db.row(_OF_PARK, park_id)
        return None if row is None else Run(*row)

    async def going(self, stale: float) -> tuple[int, int]:
        """How many background runs are going, and how many workers are there."""
        row = await self._db.row(_sql.going, timedelta(seconds=stale))
        assert row is not None
        return row["runs"], row["workers"]

    async def prune(self, *, results: float, rows: float) -> int:
        """Forget results older than ``results`` seconds and whole runs older than ``rows``; one batch of each."""
        dropped = await self._db.execute(_sql.prune_results, timedelta(seconds=results))
        return int(dropped.rsplit(" ", 1)[-1]) + int(
            await self._db.value(_sql.prune, timedelta(seconds=rows))
        )

    async def claim(
        self,
        digest: bytes,
        identifier: UUID,
        *,
        tool: str,
        arguments: dict[str, Any],
        door: str,
        identity: str,
        key_id: UUID | None,
        owner: UUID,
        idempotent: bool,
        checkpointed: bool,
        trace: str | None,
        keep: timedelta,
        tell_loss: timedelta,
    ) -> Claim:
        """Record a run that this process drives in epoch 1, or find the one that this call, known by its digest, is
        already: going, or ended less than ``keep`` ago and not told. The same identifier twice is one claim."""
        row = await self._db.row(
            _sql.claim,
            digest,
            identifier,
            tool,
            arguments,
            door,
            identity,
            key_id,
            owner,
            idempotent,
            checkpointed,
            trace,
            keep,
            tell_loss,
        )
        assert row is not None
        return Claim(row["status"], row["run_id"], row["lost_run"])

    async def told(self, identifier: UUID) -> None:
        """The run's end was told to the caller that had claimed it."""
        await self._db.execute(_sql.told, identifier)

    async def pin_preset(self, identifier: UUID, version: UUID) -> UUID:
        """The version of a preset that a run began with: this one, where no other was written down before."""
        found: UUID | None = await self._db.value(_sql.pin_preset, identifier, version)
        return version if found is None else found
