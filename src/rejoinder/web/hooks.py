"""Hooks, for those who run the deployment: which topics stand open, what runs on them, and which links lead to them."""

from __future__ import annotations

from starlette.responses import Response

from rejoinder.contract.errors import ForbiddenError
from rejoinder.language.spoken import later
from rejoinder.web.reasons import KINDS
from rejoinder.web.site import Visit

LIMIT = 200
LINK_STATES = {
    "live": later("Live"),
    "expired": later("Expired"),
    "out_of_service": later("Out of service"),
    "key_gone": later("Its key is gone"),
}


async def show(visit: Visit, *, message: str | None = None, status: int = 200) -> Response:
    if visit.identity.restricted:
        raise ForbiddenError(later("A restricted key sees only what is addressed to it."))
    store = visit.node.hook_store
    topics = await store.topics(after=None, limit=LIMIT + 1)
    hooks = await store.hooks(topic=None, after=None, limit=LIMIT + 1)
    links = await store.links(limit=LIMIT + 1)
    held = await visit.node.kept_runs.page("failed", limit=LIMIT)
    return visit.draw(
        "hooks.html",
        status=status,
        message=message,
        held=held.items,
        kinds=KINDS,
        topics=topics[:LIMIT],
        hooks=hooks[:LIMIT],
        links=links[:LIMIT],
        full=max(len(topics), len(hooks), len(links)) > LIMIT,
        limit=LIMIT,
        exposed=[one.topic for one in topics if one.verifier is None and one.hooks],
        verified={one.topic for one in topics if one.verifier is not None},
        link_states=LINK_STATES,
        command="rejoinder hooks register",
    )
