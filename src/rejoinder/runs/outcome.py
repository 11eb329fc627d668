"""How a run's code ended, before it is written down."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from rejoinder.contract.answers import SuspendedInteraction


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a door answers: ``{"kind", "result"}``. ``parked`` carries the sentinel of its questions, ``asks`` that
    and what the caller is asked; ``expiry_at`` is then the earliest of their deadlines."""

    run_id: UUID
    kind: Literal["result", "asks", "parked", "none"]
    result: Any
    expiry_at: datetime | None = None

    @property
    def parked(self) -> bool:
        return self.kind in ("parked", "asks")

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "result": self.result}


@dataclass(frozen=True, slots=True)
class Parked:
    """What code that goes on from checkpoints returns where its run waits for these questions."""

    questions: tuple[SuspendedInteraction, ...]
