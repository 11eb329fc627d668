"""Steps of a run: what was begun and what it came to, so that code that is played again does nothing twice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

import asyncpg

from rejoinder.contract.errors import LeaseLostError
from rejoinder.store.database import Database
from rejoinder.store.sql import sql

_sql = sql("steps")

#: What ``hold_run_v1`` raises.
FENCED = "RJ001"

Status = Literal["entered", "asked", "done", "interrupted", "fenced"]


@dataclass(frozen=True, slots=True)
class Step:
    """How a step stands. ``round`` counts how often it has asked, ``starts`` how often this round's code was entered."""

    status: Status
    starts: int
    round: int
    question_ids: list[UUID]
    outcome: Any


@dataclass(frozen=True, slots=True)
class Kept:
    """A step as it is recorded; ``outcome`` is what it came to, where its ``state`` is done."""

    name: str
    state: Literal["entered", "asked", "done", "interrupted"]
    starts: int
    outcome: Any


class Steps:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def enter(
        self, identifier: UUID, run_id: UUID, epoch: int, name: str, *, repeatable: bool, go_on: bool = False
    ) -> Step:
        """Begin a step's code, or go on with its answers where ``go_on``; or learn how it stands. ``repeatable``: code
        that an earlier worker died in may be entered again."""
        row = await self._db.row(_sql.enter, identifier, run_id, epoch, name, repeatable, go_on)
        assert row is not None
        return Step(row["status"], row["starts"], row["round"], list(row["question_ids"]), row["outcome"])

    async def record_asked(
        self, identifier: UUID, run_id: UUID, epoch: int, round_: int, questions: list[UUID]
    ) -> bool:
        """The step waits for these questions. False: another worker drives the run, and nothing was written."""
        return bool(
            await self._db.value(_sql.record, identifier, run_id, epoch, "asked", round_, questions, None)
        )

    async def record_done(
        self, identifier: UUID, run_id: UUID, epoch: int, round_: int, questions: list[UUID], outcome: Any
    ) -> bool:
        """The step has come to ``outcome``. False: another worker drives the run, and nothing was written."""
        return bool(
            await self._db.value(_sql.record, identifier, run_id, epoch, "done", round_, questions, outcome)
        )

    async def of_run(self, run_id: UUID) -> dict[UUID, Kept]:
        """Every step that the run has begun, by its id."""
        rows = await self._db.rows(_sql.of_run, run_id)
        return {row["id"]: Kept(row["name"], row["state"], row["starts"], row["outcome"]) for row in rows}

    async def forget(self, run_id: UUID, epoch: int, identifiers: list[UUID]) -> None:
        """These steps are to be done anew. Nothing happens where another worker drives the run."""
        await self._db.execute(_sql.forget, run_id, epoch, identifiers)

    async def hold(self, run_id: UUID, epoch: int) -> None:
        """Raises LeaseLostError unless the run is driven in this epoch."""
        try:
            await self._db.execute(_sql.hold, run_id, epoch)
        except asyncpg.PostgresError as error:
            if error.sqlstate == FENCED:
                raise LeaseLostError(
                    "another worker drives this run now; its checkpoint was not written"
                ) from None
            raise

    async def sweepable(self, finished: float, limit: int) -> list[UUID]:
        """Runs that ended more than ``finished`` seconds ago and still have checkpoints."""
        return [row[0] for row in await self._db.rows(_sql.sweepable, timedelta(seconds=finished), limit)]

    async def swept(self, runs: list[UUID]) -> None:
        """The checkpoints of these runs are gone; their steps go too."""
        await self._db.execute(_sql.swept, runs)

    async def stranded(self, waiting: float, limit: int) -> list[UUID]:
        """Open questions of runs that wait longer than ``waiting`` seconds, which is how long checkpoints are kept."""
        return [row[0] for row in await self._db.rows(_sql.stranded, timedelta(seconds=waiting), limit)]

    async def standing(self, run_id: UUID) -> tuple[UUID | None, int]:
        """The run's park that is not sealed yet, if any, and how many questions it has asked so far."""
        row = await self._db.row(_sql.standing, run_id)
        assert row is not None
        return row["park_id"], row["asked"]

    async def pin_preset(self, identifier: UUID, version: UUID) -> UUID:
        """The version of a preset that a step began with: this one, where no other was written down before."""
        found: UUID | None = await self._db.value(_sql.pin_preset, identifier, version)
        return version if found is None else found
