"""How far ahead a parked question's deadline may lie: no further than what its run goes on from is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rejoinder.contract.errors import AskArgumentError

#: Characters of a question that a refusal quotes.
QUOTED = 80


@dataclass(frozen=True, slots=True)
class Horizon:
    """``retention`` is how long a waiting run's checkpoint is kept, ``margin`` how long after the deadline an answer or
    a lapse may still be carried to the run; both in seconds."""

    retention: float
    margin: float

    @property
    def longest(self) -> float:
        """Seconds from now to a deadline that fits for sure."""
        return max(1.0, self.retention - self.margin - 60.0)

    def check(self, question: str, deadline: datetime) -> None:
        """Raises AskArgumentError, with the question, its deadline and the latest one that fits."""
        latest = datetime.now(UTC) + timedelta(seconds=self.retention - self.margin)
        if deadline <= latest:
            return
        shown = question if len(question) <= QUOTED else question[: QUOTED - 1] + "…"
        raise AskArgumentError(
            f"expiry_at of “{shown}” is {deadline.isoformat()}, later than {latest.isoformat(timespec='seconds')}: a "
            f"waiting agent's checkpoint is kept {self.retention / 60:g} minutes, and {self.margin / 60:g} minutes of "
            "that are left for an answer to arrive",
            field="expiry_at",
        )
