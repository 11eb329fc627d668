"""What the doctor finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One check. ``mend`` says what to do, where something is to be done."""

    check: str
    level: Level
    what: str
    mend: str | None = None
