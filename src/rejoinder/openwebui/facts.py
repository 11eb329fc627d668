"""The lines above a finished reply: what the session works towards, what is left of the limits, how full it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rejoinder.openclaw.standing import Limit, Standing, resetting


def lines(standing: Standing | None, limits: Sequence[Limit], now: float) -> list[str]:
    """One line for each fact; the page shows the last one while they are folded. now: seconds since 1970."""
    found = []
    if standing is not None and standing.goal:
        state = f" ({standing.goal_status.replace('_', ' ')})" if standing.goal_status else ""
        found.append(f"Goal: {_short(standing.goal)}{state}")
    timed = resetting(limits)
    found += [f"{name(one)}: {left(one)}, resets {when(one, now)}" for one in timed]
    last = []
    if standing is not None and (full := context(standing)):
        last.append(full)
    if timed:
        last.append(f"{name(timed[0])} {left(timed[0])}")
    if last:
        found.append(" · ".join(last))
    return found


def new_lines(message: Mapping[str, Any], told: Iterable[str]) -> list[dict[str, Any]]:
    """Lines as a message has them; only those that it does not have yet."""
    known = {one.get("description") for one in _lines_of(message) if isinstance(one, dict)}
    return [{"description": line, "done": True} for line in told if line not in known]


def with_lines(message: Mapping[str, Any], told: Iterable[str]) -> dict[str, Any]:
    """The field of a message that has these lines as well; no field where nothing is new."""
    new = new_lines(message, told)
    return {"statusHistory": [*_lines_of(message), *new]} if new else {}


def _lines_of(message: Mapping[str, Any]) -> list[Any]:
    found = message.get("statusHistory")
    return found if isinstance(found, list) else []


def context(standing: Standing) -> str:
    """How full the context is; empty if it is not known, or nothing was counted yet."""
    if not standing.used or not standing.size:
        return ""
    share = f"{standing.percent} %" if standing.percent else "under 1 %"
    return f"Context {tokens(standing.used)} of {tokens(standing.size)} ({share})"


def tokens(count: int) -> str:
    """A number of tokens, short: 950, 12.5k, 128k, 1M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            value = count / size
            return f"{value:.0f}{letter}" if value >= 100 or value == int(value) else f"{value:.1f}{letter}"
    return str(count)


def name(limit: Limit) -> str:
    """A limit as a person knows it."""
    return " ".join(part for part in (limit.provider, limit.label) if part) or "Limit"


def left(limit: Limit) -> str:
    """How much of a limit is left."""
    return f"{max(0, round(100 - limit.used))} % left"


def when(limit: Limit, now: float) -> str:
    """When a limit resets, roughly."""
    if limit.resets_at is None:
        return "at an unknown time"
    seconds = limit.resets_at / 1000 - now
    if seconds <= 60:
        return "within a minute"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"in {minutes} minutes"
    if minutes < 48 * 60:
        return f"in {round(minutes / 60)} hours"
    return f"in {round(minutes / 1440)} days"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 120 else f"{line[:119].rstrip()}…"
