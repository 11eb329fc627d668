"""Times for people: absolute in UTC (the page's script writes them in the reader's zone), and roughly how far away."""

from __future__ import annotations

from datetime import UTC, datetime

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def absolute(moment: datetime) -> str:
    """``30 Nov 2026, 14:05 UTC``."""
    m = moment.astimezone(UTC)
    return f"{m.day} {_MONTHS[m.month - 1]} {m.year}, {m:%H:%M} UTC"


def exact(moment: datetime) -> str:
    """The same to the second, for a trail."""
    m = moment.astimezone(UTC)
    return f"{m.day} {_MONTHS[m.month - 1]} {m.year}, {m:%H:%M:%S} UTC"


def distance(seconds: float) -> str:
    """``about 2 hours``: coarse on purpose, so that nothing has to be read out every second."""
    minutes = abs(seconds) / 60
    if minutes < 1:
        return "less than a minute"
    if minutes < 90:
        return _count(minutes, "minute")
    hours = minutes / 60
    if hours < 36:
        return "about " + _count(hours, "hour")
    return "about " + _count(hours / 24, "day")


def relative(moment: datetime, now: datetime) -> str:
    """``in about 2 hours`` or ``3 minutes ago``."""
    seconds = (moment - now).total_seconds()
    return f"in {distance(seconds)}" if seconds >= 0 else f"{distance(seconds)} ago"


def brief(moment: datetime, now: datetime) -> str:
    """The shortest form, for a list: ``2 h``, ``5 min``, ``3 d``."""
    minutes = abs((moment - now).total_seconds()) / 60
    if minutes < 1:
        return "<1 min"
    if minutes < 90:
        return f"{round(minutes)} min"
    hours = minutes / 60
    return f"{round(hours)} h" if hours < 36 else f"{round(hours / 24)} d"


def _count(number: float, unit: str) -> str:
    whole = round(number)
    return f"{whole} {unit}" + ("" if whole == 1 else "s")
