"""What those who hold on to a call are told: what its tool reports, what it asks, and how its run ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from rejoinder.contract.questions import Question
from rejoinder.store.runs import Run


@dataclass(frozen=True, slots=True)
class Progress:
    """One report of a tool, the ``number``-th."""

    number: int
    done: float
    total: float | None
    message: str | None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended. ``value`` is its result, its sentinel (parked), or the problem (error)."""

    run_id: UUID
    kind: str
    value: Any


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run waits for, and its caller may answer."""

    questions: list[Question]


def ended(run_id: UUID, run: Run | None, kept: float) -> Ended:
    """The end of a run as its row has it; ``kept`` is for how many seconds results are."""
    if run is None:
        return Ended(run_id, "error", {"error": "The run is no longer kept.", "code": "run-not-found"})
    if run.state != "succeeded":
        known = run.error or {"error": f"The run ended as {run.state}.", "code": "run-failed"}
        return Ended(run_id, "error", known)
    if run.result is not None:
        return Ended(run_id, "result", run.result)
    if run.finished_at is not None and datetime.now(UTC) - run.finished_at > timedelta(seconds=kept):
        gone = {"error": "The run succeeded; its result is no longer kept.", "code": "result-gone"}
        return Ended(run_id, "error", gone)
    return Ended(run_id, "none", None)


def internal_problem(reference: UUID) -> dict[str, object]:
    return {
        "error": f"Something went wrong here; the log has it under {reference}.",
        "code": "internal",
        "id": str(reference),
    }
