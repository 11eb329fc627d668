"""Steps of a run: what was begun and what it came to, so that code that is played again does nothing twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from rejoinder.store.database import Database
from rejoinder.store.sql import sql

_sql = sql("steps")

Status = Literal["entered", "asked", "done", "interrupted", "fenced"]


@dataclass(frozen=True, slots=True)
class Step:
    """How a step stands. ``round`` counts how often it has asked, ``starts`` how often this round's code was entered."""

    status: Status
    starts: int
    round: int
    question_ids: list[UUID]
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

    async def standing(self, run_id: UUID) -> tuple[UUID | None, int]:
        """The run's park that is not sealed yet, if any, and how many questions it has asked so far."""
        row = await self._db.row(_sql.standing, run_id)
        assert row is not None
        return row["park_id"], row["asked"]
