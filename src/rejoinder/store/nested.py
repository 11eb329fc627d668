"""Runs that call runs, in the store: a called run's row, the wait for it, and what its end means for its caller."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from rejoinder.contract.questions import Question
from rejoinder.store.database import Database
from rejoinder.store.questions import Recorded, RunReference, to_question
from rejoinder.store.sql import sql

_sql = sql("nested")
_COLUMNS = sql("questions").columns
_BY_ID = sql("questions").by_id.replace("{columns}", _COLUMNS)
_ASKS = _sql.asks.replace("{columns}", _COLUMNS)
_ASKS_OF = _sql.asks_of.replace("{columns}", _COLUMNS)


@dataclass(frozen=True, slots=True)
class Settled:
    """One step of carrying a change to the runs around it. ``what``: ``run``, ``question`` or ``resumption``."""

    what: Literal["run", "question", "resumption"]
    id: UUID


@dataclass(frozen=True, slots=True)
class Chain:
    """A run and those that it waits for. ``active``: something goes on there that waits for nobody."""

    runs: list[UUID]
    active: bool


class Nested:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def start(
        self,
        identifier: UUID,
        parent: RunReference,
        *,
        tool: str,
        arguments: dict[str, Any],
        idempotent: bool,
        checkpointed: bool,
        key_id: UUID | None,
        trace: str | None,
        deepest: int,
    ) -> Literal["started", "fenced", "deep"]:
        """Give a called run its row, and its caller one where it has none yet."""
        status: Literal["started", "fenced", "deep"] = await self._db.value(
            _sql.start,
            identifier,
            tool,
            arguments,
            idempotent,
            checkpointed,
            parent.id,
            parent.epoch,
            parent.tool,
            parent.new_run,
            parent.identity,
            key_id,
            parent.owner_process,
            trace,
            deepest,
        )
        return status

    async def wait(
        self,
        identifier: UUID,
        parent: RunReference,
        nested: UUID,
        *,
        park_id: UUID,
        ordinal: int,
        group_id: str,
        question: str,
        on_failure: str,
        horizon: float,
    ) -> Recorded:
        """Make the wait for ``nested`` a member of its caller's park. ``horizon`` is seconds."""
        row = await self._db.row(
            _sql.wait,
            identifier,
            parent.id,
            parent.epoch,
            park_id,
            ordinal,
            nested,
            group_id,
            question,
            on_failure,
            parent.tool,
            parent.identity,
            parent.owner_process,
            timedelta(seconds=horizon),
        )
        assert row is not None
        return Recorded(row["status"], row["created_at"], row["timeout_at"])

    async def waits(self, identifier: UUID) -> Question | None:
        """A wait that is recorded already."""
        row = await self._db.row(_BY_ID, identifier)
        return None if row is None else to_question(row)

    async def settle(self, run_id: UUID) -> list[Settled]:
        """One step; call again until it is empty."""
        return [Settled(*row) for row in await self._db.rows(_sql.settle, run_id)]

    async def chain(self, run_id: UUID) -> Chain:
        rows = await self._db.rows(_sql.chain, run_id)
        return Chain([row["id"] for row in rows], any(row["active"] for row in rows))

    async def asks(self, run_id: UUID) -> list[Question]:
        """What the caller of this run is asked, by it and by the runs that it waits for."""
        return [to_question(row) for row in await self._db.rows(_ASKS, run_id)]

    async def is_above(self, run_id: UUID, other: UUID) -> bool:
        """Whether ``other`` is this run or was called by it, however deep."""
        return bool(await self._db.value(_sql.is_above, run_id, other))

    async def asks_of(self, identity: str, limit: int) -> list[Question]:
        return [to_question(row) for row in await self._db.rows(_ASKS_OF, identity, limit)]
