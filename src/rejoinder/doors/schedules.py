"""Schedules: tools that run at set times."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rejoinder.contract.errors import BadInputError
from rejoinder.contract.text import unstorable_text
from rejoinder.doors.admission import VIA, Door, identity_of, needs
from rejoinder.doors.bodies import LARGE, SMALL, read_object, reply
from rejoinder.doors.parameters import Words
from rejoinder.doors.schemas import body, gives
from rejoinder.node import Node
from rejoinder.schedules.order import KEYS, MAX_NAME, NOT_SERVED
from rejoinder.schedules.service import ScheduleNotFoundError


def router(node: Node) -> APIRouter:
    api = APIRouter(route_class=Door, tags=["schedules"])

    @api.get(
        "/api/schedules",
        openapi_extra=needs("read", refuses=(501,), **gives("Schedules")),
        summary="List the schedules",
    )
    async def listed(
        request: Request, after: Words = None, limit: Annotated[int, Query(ge=1, le=500)] = 100
    ) -> Response:
        """By name. ``next_after`` is the ``after`` of the next page, null on the last one. ``error`` says why the last
        turn started nothing, or why the next one would not come. A restricted key sees those that run as itself."""
        found = await node.schedules.page(by=identity_of(request), after=after or "", limit=limit + 1)
        more = len(found) > limit
        items = found[:limit]
        return reply({"items": items, "next_after": items[-1]["name"] if more else None})

    @api.get(
        "/api/schedules/server-datetime",
        openapi_extra=needs("read", refuses=(501,), **gives("ServerTime")),
        summary="Show the clock that schedules go by",
    )
    async def server_datetime() -> Response:
        """The database's clock, in UTC."""
        now = (await node.schedules.now()).astimezone(UTC)
        return reply({"server_datetime": now.isoformat(), "timestamp": now.timestamp(), "timezone": "UTC"})

    @api.post(
        "/api/schedules",
        status_code=201,
        openapi_extra=needs(
            "write",
            refuses=(400, 404, 408, 409, 413, 501, 503),
            **body("NewSchedule"),
            **_both(gives("Schedule", 201), gives("Schedule")),
        ),
        summary="Schedule a tool",
    )
    async def create(request: Request) -> Response:
        """201 for a new schedule, 200 where the same order is there under this name, 409 where another one is."""
        given = await read_object(request.scope, request.receive, LARGE, keys=KEYS, not_served=NOT_SERVED)
        made, new = await node.schedules.create(given, by=identity_of(request), via=VIA)
        return reply(node.schedules.as_json(made), status=201 if new else 200)

    @api.patch(
        "/api/schedules/{name}",
        openapi_extra=needs(
            "write", refuses=(400, 404, 408, 413, 501), **body("ScheduleChange"), **gives("Schedule")
        ),
        summary="Switch a schedule off or on",
    )
    async def change(request: Request) -> Response:
        """What would have run while it was off is not made up for."""
        name = _name(request)
        given = await read_object(request.scope, request.receive, SMALL, keys=frozenset(("enabled",)))
        enabled = given.get("enabled")
        if not isinstance(enabled, bool):
            raise BadInputError("enabled must be true or false", field="enabled")
        return reply(await node.schedules.enable(name, enabled, by=identity_of(request), via=VIA))

    @api.delete(
        "/api/schedules/{name}",
        openapi_extra=needs("write", refuses=(404, 501), **gives("ScheduleDeleted")),
        summary="Delete a schedule",
    )
    async def delete(request: Request) -> Response:
        """Runs that it has started go on."""
        name = _name(request)
        await node.schedules.delete(name, by=identity_of(request), via=VIA)
        return reply({"name": name, "status": "deleted"})

    return api


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    if len(name) > MAX_NAME or unstorable_text(name):
        raise ScheduleNotFoundError(field="name")
    return name


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {"responses": one["responses"] | other["responses"]}
