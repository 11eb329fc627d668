"""Times as a table shows them: in this machine's zone, and how far away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

_STEPS: tuple[tuple[float, float, str], ...] = (
    (90, 1, "second"),
    (90 * 60, 60, "minute"),
    (36 * 3600, 3600, "hour"),
    (float("inf"), 86_400, "day"),
)


def local(text: Any) -> Any:
    """``2026-11-30 08:15:02``; anything that is no time stays as it is."""
    try:
        return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S}"
    except (TypeError, ValueError, OverflowError, OSError):
        return text


def away(text: Any, now: datetime | None = None) -> Any:
    """``in 2 hours``, ``5 minutes ago``."""
    try:
        moment = datetime.fromisoformat(text)
        seconds = (moment - (now or datetime.now(moment.tzinfo))).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return text
    size = abs(seconds)
    for below, unit, name in _STEPS:
        if size < below:
            count = round(size / unit)
            words = f"{count} {name}{'' if count == 1 else 's'}"
            return f"in {words}" if seconds >= 0 else f"{words} ago"
    return text


def shown(item: Mapping[str, Any], **how: Callable[[Any], Any]) -> dict[str, Any]:
    """The item with some of its values shown by a function."""
    return {key: how[key](value) if key in how else value for key, value in item.items()}
