"""For operators: the audit trail, the processes that are alive, health, readiness and metrics."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import PlainTextResponse, Response

from rejoinder.doors.admission import Door, identity_of, needs, unrestricted
from rejoinder.doors.bodies import reply, to_bytes
from rejoinder.doors.parameters import Id, Moment, Words
from rejoinder.doors.schemas import gives
from rejoinder.node import Node
from rejoinder.observe.metrics import metrics
from rejoinder.store.processes import alive

READY: dict[str, Any] = {
    "responses": {**gives("Ready", bare=True)["responses"], **gives("Ready", 503, bare=True)["responses"]}
}
EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"


def router(node: Node) -> APIRouter:
    api = APIRouter(route_class=Door, tags=["operations"])

    @api.get("/api/audit", openapi_extra=needs("read", **gives("Events")), summary="Read the audit trail")
    async def audit(
        request: Request,
        interaction_id: Id = None,
        run_id: Id = None,
        kind: Words = None,
        actor: Words = None,
        since: Moment = None,
        until: Moment = None,
        before: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """Newest first. ``kind`` is a whole kind or its first word (``interaction``, ``answer``, ``run``, ``key``).
        ``next_before`` goes on from here. A restricted key reads what is about questions addressed to it."""
        by = identity_of(request)
        found = await node.events.page(
            before=before,
            interaction_id=UUID(interaction_id) if interaction_id else None,
            run_id=UUID(run_id) if run_id else None,
            kind=kind,
            actor=actor,
            since=since,
            until=until,
            audience=by.name if by.restricted else None,
            limit=limit + 1,
        )
        shown = found[:limit]
        return reply(
            {
                "items": [event.as_json() for event in shown],
                "next_before": shown[-1].seq if len(found) > limit else None,
            }
        )

    @api.get(
        "/api/processes",
        openapi_extra=needs("read", **gives("Processes")),
        summary="List the processes that are alive",
    )
    async def processes(request: Request) -> Response:
        """Servers and workers on this database. Not for restricted keys."""
        unrestricted(request)
        return reply({"items": await alive(node.database)})

    @api.post(
        "/api/checkpoints/sweep",
        openapi_extra=needs("admin", **gives("Swept")),
        summary="Sweep agents' checkpoints",
    )
    async def sweep() -> Response:
        """Delete the checkpoints of agents' runs that ended longer ago than they are kept, now instead of within a
        minute. Runs that wait longer than checkpoints are kept (their retention was shortened) are ended."""
        return reply(await node.agents.sweep(node.asks))

    @api.get(
        "/metrics",
        response_class=PlainTextResponse,
        openapi_extra=needs("read"),
        summary="Metrics for Prometheus",
    )
    async def exposition(request: Request) -> Response:
        """In Prometheus' text form. It takes a key like every other door: behind a proxy on this machine, the
        loopback address would prove nothing. Not for restricted keys."""
        unrestricted(request)
        return Response(metrics.render(), media_type=EXPOSITION)

    @api.head("/health", openapi_extra=needs("public"), include_in_schema=False)
    @api.get("/health", openapi_extra=needs("public", **gives("Health", bare=True)), summary="Alive")
    async def health() -> Response:
        """This process answers. Nothing else is looked at."""
        return Response(b'{"status":"ok"}', media_type="application/json")

    @api.head("/ready", openapi_extra=needs("public"), include_in_schema=False)
    @api.get("/ready", openapi_extra=needs("public", **READY), summary="Ready")
    async def ready() -> Response:
        """200 when this process can serve, 503 with the check that fails when it cannot."""
        checks = await node.ready()
        good = all(checks.values())
        return Response(
            to_bytes({"status": "ready" if good else "not ready", "checks": checks}),
            status_code=200 if good else 503,
            media_type="application/json",
        )

    return api
