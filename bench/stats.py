"""Percentiles, and nothing else: also imported where only the standard library is installed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any


def quantile(ordered: list[float], share: float) -> float:
    """Nearest rank: a value that was really measured."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(seconds: Iterable[float]) -> dict[str, Any]:
    """``{"n", "p50", "p90", "p99", "max"}`` of durations in seconds, told in milliseconds."""
    ordered = sorted(seconds)
    if not ordered:
        return {"n": 0}
    return {
        "n": len(ordered),
        **{f"p{round(share * 100)}": round(quantile(ordered, share) * 1000, 3) for share in (0.5, 0.9, 0.99)},
        "max": round(ordered[-1] * 1000, 3),
    }


def median(values: Iterable[float]) -> float:
    return quantile(sorted(values), 0.5)
