"""What is wrong with one place of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One sentence for the person. ``required``: nothing was given where something is required; ``unavailable``: a day
    that cannot be chosen."""

    sentence: str
    kind: Literal["required", "unavailable", "other"] = "other"
