"""Schedules, to look at: what runs when, and what keeps one from running."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from starlette.responses import Response

from rejoinder.schedules.cadence import FIELDS
from rejoinder.web.site import Visit

LIMIT = 200


async def show(visit: Visit) -> Response:
    """A restricted identity sees those that run as itself."""
    found = await visit.node.schedules.page(by=visit.identity, after="", limit=LIMIT + 1)
    return visit.draw(
        "schedules.html",
        schedules=[_shown(one) for one in found[:LIMIT]],
        full=len(found) > LIMIT,
        limit=LIMIT,
        command="rejoinder schedules add",
    )


def _shown(schedule: dict[str, Any]) -> dict[str, Any]:
    next_at, cadence = schedule["next_run_at_iso"], schedule["cadence"] or {}
    crontab = cadence.get("expression") or " ".join(str(cadence.get(name, "*")) for name in FIELDS)
    return {
        **schedule,
        "next_at": None if next_at is None else datetime.fromisoformat(next_at),
        "seconds": f"{cadence['every']:g}" if "every" in cadence else None,
        "crontab": crontab if cadence.get("kind") == "crontab" else None,
    }
