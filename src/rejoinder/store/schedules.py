"""Schedules and their slots in the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from rejoinder.store.database import Database
from rejoinder.store.sql import sql

_sql = sql("schedules")


def _query(text: str) -> str:
    return text.replace("{columns}", _sql.columns)


_BY_NAME, _PAGE, _ADD = (_query(text) for text in (_sql.by_name, _sql.page, _sql.add))
#: By whether they have an expression.
KINDS = {False: "IS NULL", True: "IS NOT NULL"}
_DUE = {evaluated: _query(_sql.due).replace("{kind}", kind) for evaluated, kind in KINDS.items()}
_NEXT_IN = {evaluated: _sql.next_in.replace("{kind}", kind) for evaluated, kind in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Schedule:
    """``cadence`` is as it was given, None for once. ``next_run_at`` is None where it does not run any more."""

    id: UUID
    name: str
    tool: str
    tool_kwargs: dict[str, Any]
    cadence: dict[str, Any] | None
    missed: Literal["once", "skip", "all"]
    start_expr: str | None
    subject: str | None
    digest: bytes
    identity: str
    key_id: UUID | None
    execution_key: str | None
    enabled: bool
    anchor_at: datetime
    next_run_at: datetime | None
    last_slot_at: datetime | None
    last_run_id: UUID | None
    error: str | None
    created_at: datetime
    created_by: str


@dataclass(frozen=True, slots=True)
class Taken:
    """One turn of the schedule ``id``, which waited for ``due_at``. Without a ``slot_at`` its slots are let go; without
    a ``run_id`` nothing is started. ``arguments`` None: the schedule's own. ``preset_version``: of the tool."""

    id: UUID
    due_at: datetime
    slot_at: datetime | None
    next_at: datetime | None
    run_id: UUID | None = None
    arguments: dict[str, Any] | None = None
    idempotent: bool = False
    checkpointed: bool = False
    error: str | None = None
    let_go: dict[str, Any] | None = None
    preset_version: UUID | None = None


class Schedules:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def now(self) -> datetime:
        """The database's clock."""
        at: datetime = await self._db.value(_sql.now)
        return at

    async def by_name(self, name: str) -> Schedule | None:
        row = await self._db.row(_BY_NAME, name)
        return None if row is None else Schedule(*row)

    async def page(self, *, after: str, identity: str | None, limit: int) -> list[Schedule]:
        """Ordered by name, those behind ``after``."""
        return [Schedule(*row) for row in await self._db.rows(_PAGE, after, identity, limit)]

    async def add(
        self,
        identifier: UUID,
        name: str,
        *,
        tool: str,
        tool_kwargs: dict[str, Any],
        cadence: dict[str, Any] | None,
        missed: str,
        start_expr: str | None,
        subject: str | None,
        digest: bytes,
        identity: str,
        key_id: UUID | None,
        execution_key: str | None,
        anchor_at: datetime,
        next_run_at: datetime,
        by: str,
        via: str,
        again: bool,
    ) -> Schedule | None:
        """None where the name is taken. ``again``: one of the same digest that was ordered once and has begun gives
        way."""
        async with self._db.transaction() as connection:
            if again:
                await connection.execute(_sql.clear, name, digest)
            row = await connection.fetchrow(
                _ADD,
                identifier,
                name,
                tool,
                tool_kwargs,
                cadence,
                missed,
                start_expr,
                subject,
                digest,
                identity,
                key_id,
                execution_key,
                anchor_at,
                next_run_at,
                by,
                via,
            )
        return None if row is None else Schedule(*row)

    async def delete(self, identifier: UUID, *, by: str, via: str) -> bool:
        """False where somebody was first."""
        return await self._db.value(_sql.delete, identifier, by, via) is not None

    async def enable(
        self, identifier: UUID, enabled: bool, next_run_at: datetime | None, *, by: str, via: str
    ) -> None:
        await self._db.execute(_sql.enable, identifier, enabled, next_run_at, by, via)

    async def due(
        self, now: datetime, tools: Sequence[str], *, evaluated: bool, skip: int, limit: int
    ) -> list[Schedule]:
        """Those that are due at ``now``, the longest waiting first, without the first ``skip``. ``evaluated``: those with
        an expression, and otherwise those without."""
        return [Schedule(*row) for row in await self._db.rows(_DUE[evaluated], now, list(tools), skip, limit)]

    async def seconds_to_next(self, tools: Sequence[str], *, evaluated: bool) -> float | None:
        """Until the next one is due: 0 or less where one is, None where none will be."""
        seconds: float | None = await self._db.value(_NEXT_IN[evaluated], list(tools))
        return seconds

    async def take(self, turns: Sequence[Taken]) -> tuple[int, int]:
        """Take these turns, all in one transaction: ``(how many were ours, how many runs began)``. What another process
        took meanwhile, or somebody changed, is left alone."""
        given = (
            [one.id for one in turns],
            [one.due_at for one in turns],
            [one.slot_at for one in turns],
            [one.next_at for one in turns],
            [one.run_id for one in turns],
            [one.arguments for one in turns],
            [one.idempotent for one in turns],
            [one.checkpointed for one in turns],
            [one.error for one in turns],
            [one.let_go for one in turns],
        )
        presets = [(one.run_id, one.preset_version) for one in turns if one.run_id and one.preset_version]
        if presets:
            async with self._db.transaction() as connection:
                row = await connection.fetchrow(_sql.take, *given)
                await connection.execute(_sql.pin_presets, *map(list, zip(*presets, strict=True)))
        else:
            row = await self._db.row(_sql.take, *given)
        assert row is not None
        return row["taken"], row["started"]

    async def prune(self, kept: timedelta) -> int:
        """Forget what became of slots that were taken longer ago than ``kept``, and orders for one run that has begun; one
        batch of each."""
        return int(await self._db.value(_sql.prune, kept))
