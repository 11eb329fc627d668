"""How a run's code ended, before it is written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a door answers: ``{"kind", "result"}``. ``parked`` carries the sentinel of its questions."""

    run_id: UUID
    kind: Literal["result", "parked", "none"]
    result: Any

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "result": self.result}
