"""What is wrong with one place of an answer."""

from __future__ import annotations

from dataclasses import dataclass

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One sentence for the person. ``missing``: nothing was given where something is required."""

    sentence: str
    missing: bool = False
