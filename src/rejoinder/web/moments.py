"""Times for people: absolute in UTC (the page's script writes them in the reader's zone), and roughly how far away."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from markupsafe import Markup

from rejoinder.language.spoken import later, n, t

Style = Literal["absolute", "exact", "brief", "relative"]

_MONTHS = (
    later("Jan"), later("Feb"), later("Mar"), later("Apr"), later("May"), later("Jun"), later("Jul"), later("Aug"),
    later("Sep"), later("Oct"), later("Nov"), later("Dec"),
)  # fmt: skip


def written(moment: datetime, now: datetime, style: Style = "absolute") -> Markup:
    """A ``<time>``: UTC in words, which the script rewrites in the reader's own zone."""
    match style:
        case "absolute":
            text = absolute(moment)
        case "exact":
            text = exact(moment)
        case "brief":
            text = brief(moment, now)
        case _:
            text = relative(moment, now)
    return Markup('<time datetime="{}" data-style="{}">{}</time>').format(
        moment.isoformat(timespec="seconds"), style, text
    )


def absolute(moment: datetime) -> str:
    """``30 Nov 2026, 14:05 UTC``."""
    m = moment.astimezone(UTC)
    return f"{_day(m)}, {m:%H:%M} UTC"


def exact(moment: datetime) -> str:
    """The same to the second, for a trail."""
    m = moment.astimezone(UTC)
    return f"{_day(m)}, {m:%H:%M:%S} UTC"


def distance(seconds: float) -> str:
    """``about 2 hours``: coarse on purpose, so that nothing has to be read out every second."""
    minutes = abs(seconds) / 60
    if minutes < 1:
        return t("less than a minute")
    if minutes < 90:
        return n("{count} minute", "{count} minutes", round(minutes))
    hours = minutes / 60
    if hours < 36:
        return n("about {count} hour", "about {count} hours", round(hours))
    return n("about {count} day", "about {count} days", round(hours / 24))


def relative(moment: datetime, now: datetime) -> str:
    """``in about 2 hours`` or ``3 minutes ago``."""
    seconds = (moment - now).total_seconds()
    return t("in {distance}" if seconds >= 0 else "{distance} ago", distance=distance(seconds))


def brief(moment: datetime, now: datetime) -> str:
    """The shortest form, for a list: ``2 h``, ``5 min``, ``3 d``."""
    minutes = abs((moment - now).total_seconds()) / 60
    if minutes < 1:
        return "<1 min"
    if minutes < 90:
        return f"{round(minutes)} min"
    hours = minutes / 60
    return f"{round(hours)} h" if hours < 36 else f"{round(hours / 24)} d"


def _day(moment: datetime) -> str:
    return t("{day} {month} {year}", day=moment.day, month=t(_MONTHS[moment.month - 1]), year=moment.year)
