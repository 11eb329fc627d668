"""What becomes of slots that nobody was there for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from rejoinder.schedules.cadence import Cadence

Missed = Literal["once", "skip", "all"]
POLICIES: tuple[Missed, ...] = get_args(Missed)

#: With ``skip``, a slot that nobody took for so long was missed.
LATE = timedelta(seconds=60)
#: With ``all``, slots older than this are let go: what waits must have an end.
HORIZON = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Turn:
    """What to do with a schedule that is due: run ``slot`` (None: nothing), and be due again at ``next_at`` (None:
    never). ``let_go`` are the first and the last of the slots that are not run."""

    slot: datetime | None
    next_at: datetime | None
    let_go: tuple[datetime, datetime] | None = None


def turn(cadence: Cadence, anchor: datetime, due_at: datetime, now: datetime, missed: Missed) -> Turn:
    """``due_at`` is the slot that the schedule waits for, at or before ``now``."""
    latest = cadence.until(now, anchor)
    if latest is None or latest < due_at:
        latest = due_at
    if missed == "all":
        slot = due_at
        if due_at < now - HORIZON and latest > due_at:
            slot = cadence.after(now - HORIZON, anchor) or latest
            slot = min(max(slot, due_at), latest)
        return Turn(slot, cadence.after(slot, anchor), _before(cadence, anchor, due_at, slot))
    next_at = cadence.after(latest, anchor)
    if missed == "skip" and now - latest > LATE:
        return Turn(None, next_at, (due_at, latest))
    return Turn(latest, next_at, _before(cadence, anchor, due_at, latest))


def _before(
    cadence: Cadence, anchor: datetime, first: datetime, slot: datetime
) -> tuple[datetime, datetime] | None:
    if first == slot:
        return None
    last = cadence.until(slot - timedelta(microseconds=1), anchor)
    return first, max(first, last) if last is not None else first
