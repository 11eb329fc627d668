"""Answering from an outside system's own list what no event has answered: lost, refused or held ones.

What such a run comes to is five counts that add up. Only what points to a fault of the deployment makes it fail, and
only at its end, when everything that could be answered has been.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rejoinder.contract.errors import BadInputError, RejoinderError
from rejoinder.observe.logs import get_logger
from rejoinder.runs.context import current_run
from rejoinder.tools.bridge import Bridge, CallbackDoorError, CallbackUrlError

log = get_logger("reconciling")

#: Hours that a run may look back, both ends included.
SHORTEST, LONGEST = 1, 168
#: Seconds between two answers: a run is one address to a door that counts by address.
INTERVAL = 1.2
#: The names of what failed that an error tells; the rest is in the log.
TOLD = 20


class ReconcileFailedError(RejoinderError):
    """Some confirmations could not be answered, and it was no verdict on them."""

    code = "reconcile-failed"
    status = 502

    def __init__(self, summary: Summary) -> None:
        named = "; ".join(f"{name}: {why}" for name, why in summary.failed[:TOLD])
        more = f"; and {len(summary.failed) - TOLD} more" if len(summary.failed) > TOLD else ""
        counts = ", ".join(f"{key} {value}" for key, value in summary.counts().items())
        super().__init__(f"{len(summary.failed)} could not be answered ({counts}): {named}{more}")
        self.summary = summary


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that the outside system knows the answer to. ``name`` is what its operators know it by."""

    name: str
    callback_url: object
    payload: Mapping[str, Any]


@dataclass(slots=True)
class Summary:
    """``selected == answered + already_answered + expired + rejected + len(failed)``. ``expired`` are those whose ticket
    leads to no question any more; where that is every one of a run that should have answered something, the callback
    route itself is dead. ``rejected`` are names that the question's own schema refused."""

    answered: int = 0
    already_answered: int = 0
    expired: int = 0
    rejected: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def selected(self) -> int:
        return sum(self.counts().values())

    def counts(self) -> dict[str, int]:
        return {
            "answered": self.answered,
            "already_answered": self.already_answered,
            "expired": self.expired,
            "rejected": len(self.rejected),
            "failed": len(self.failed),
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "selected": self.selected,
            "answered": self.answered,
            "already_answered": self.already_answered,
            "expired": self.expired,
            "rejected": self.rejected,
            "failed": [{"name": name, "error": why} for name, why in self.failed],
        }


def hours_back(value: object, *, name: str = "lookback_hours") -> int:
    """A look-back within its bounds. Raises BadInputError naming it."""
    if isinstance(value, bool) or not isinstance(value, int) or not SHORTEST <= value <= LONGEST:
        raise BadInputError(f"{name} must be a whole number from {SHORTEST} to {LONGEST}", field=name)
    return value


async def reconcile(
    bridge: Bridge,
    found: Iterable[Found],
    *,
    interval: float = INTERVAL,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Summary:
    """Answer one after the other, ``interval`` seconds apart (0: at once). What has its answer here already is counted
    by one look at the database, and not posted.

    Raises ReconcileFailedError at the end, with the summary, where anything failed."""
    selected = list(found)
    summary, tickets = Summary(), {}
    for place, one in enumerate(selected):
        try:
            tickets[place] = bridge.ticket_of(one.callback_url)
        except CallbackUrlError as error:
            summary.failed.append((one.name, error.message))
    done = await current_run().asks.answered_tickets(tickets.values())
    due = [selected[place] for place, ticket in tickets.items() if ticket not in done]
    summary.already_answered = len(tickets) - len(due)
    for place, one in enumerate(due):
        if place and interval > 0:
            await sleep(interval)
        await _answer(bridge, one, summary)
    log.info("reconciled", selected=summary.selected, **summary.counts())
    if summary.failed:
        raise ReconcileFailedError(summary)
    return summary


async def _answer(bridge: Bridge, one: Found, summary: Summary) -> None:
    try:
        status = await bridge.answer(one.callback_url, one.payload)
    except CallbackDoorError as error:
        if error.status == 404:
            summary.expired += 1
        elif error.status == 400:
            summary.rejected.append(one.name)
            log.warning(
                "a question refused what the outside system says", name=one.name, reason=error.message
            )
        else:
            summary.failed.append((one.name, error.message))
    except RejoinderError as error:
        summary.failed.append((one.name, error.message))
    else:
        summary.answered += status == "answered"
        summary.already_answered += status == "already_answered"
