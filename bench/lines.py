"""A measured row as the table shows it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Line:
    """``met`` is None where no budget was set, or where a quick run measured less than the budget is about."""

    what: str
    ours: str
    budget: str = ""
    met: bool | None = None
    floor: str = ""
    dbos: str = ""
    langgraph: str = ""
    raw: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def ms(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def spread_text(measured: dict[str, Any]) -> str:
    """``p50 / p90 / p99 / max`` in milliseconds."""
    return " / ".join(ms(measured[name]) for name in ("p50", "p90", "p99", "max"))
