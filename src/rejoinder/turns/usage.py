"""What a run used: the tokens that the transcript's rows of its answers name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. `input` has those that came from a cache, which are `cached`, in it."""

    input: int = 0
    output: int = 0
    cached: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input + other.input, self.output + other.output, self.cached + other.cached)

    def __bool__(self) -> bool:
        return bool(self.input or self.output)

    @property
    def told(self) -> dict[str, Any]:
        """As a Responses-style answer names them."""
        found: dict[str, Any] = {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "total_tokens": self.input + self.output,
        }
        if self.cached:
            found["input_tokens_details"] = {"cached_tokens": self.cached}
        return found


def usage_of(rows: Iterable[Mapping[str, Any]]) -> Usage:
    """What the rows of one run used together. Rows that name nothing, or nonsense, add nothing."""
    total = Usage()
    for row in rows:
        named = row.get("usage")
        if row.get("role") == "assistant" and isinstance(named, Mapping):
            cached = _count(named.get("cacheRead"))
            fresh = _count(named.get("input")) + _count(named.get("cacheWrite"))
            total += Usage(fresh + cached, _count(named.get("output")), cached)
    return total


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
