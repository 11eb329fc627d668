"""Presets: tools with some of their arguments fixed, in versions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rejoinder.doors.admission import Door, identity_of, needs
from rejoinder.doors.bodies import LARGE, SMALL, read_object, reply
from rejoinder.doors.parameters import Words
from rejoinder.doors.schemas import body, gives
from rejoinder.node import Node
from rejoinder.presets.document import FIELDS, NAME, TAG
from rejoinder.presets.faults import PresetVersionNotFoundError

NEW = FIELDS | {"name"}
CHANGE = FIELDS | {"expected_version"}
ROLLBACK = frozenset(("version", "expected_version"))
#: Spelled out: what such a place of a path cannot be is then known too.
_NAME = {
    "name": "name",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": f"^{NAME.pattern}$"},
}
_WORD = {
    "name": "tag",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": f"^{TAG.pattern}$"},
}
_NUMBER = {
    "name": "version",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[1-9][0-9]{0,8}$"},
}
_ONE = "/api/presets/{name}"
_TAG = _ONE + "/version-tags/{tag}"


def router(node: Node) -> APIRouter:
    api = APIRouter(route_class=Door, tags=["presets"])

    @api.get("/api/presets", openapi_extra=needs("read", **gives("Presets")), summary="List the presets")
    async def listed(after: Words = None, limit: Annotated[int, Query(ge=1, le=200)] = 50) -> Response:
        """By name, each with the version that counts. ``next_after`` is the ``after`` of the next page, null on the last
        one."""
        found = await node.presets.page(after=after, limit=limit + 1)
        more = found[limit - 1].row.name if len(found) > limit else None
        return reply({"items": [one.as_json() for one in found[:limit]], "next_after": more})

    @api.post(
        "/api/presets",
        status_code=201,
        openapi_extra=needs(
            "write", refuses=(400, 408, 409, 413), **body("NewPreset"), **gives("Preset", 201)
        ),
        summary="Create a preset",
    )
    async def create(request: Request) -> Response:
        """From now on it is a tool everywhere."""
        given = await read_object(request.scope, request.receive, LARGE, keys=NEW)
        return reply((await node.presets.create(given, by=identity_of(request))).as_json(), status=201)

    @api.post(
        "/api/presets/validate",
        openapi_extra=needs(
            "read", refuses=(400, 408, 409, 413), **body("NewPreset"), **gives("PresetValid")
        ),
        summary="Try a preset without creating it",
    )
    async def validate(request: Request) -> Response:
        """Refuses what a creation would refuse; ``input_schema`` is what callers would give. Nothing is kept."""
        given = await read_object(request.scope, request.receive, LARGE, keys=NEW)
        made = await node.presets.try_out(given)
        return reply({"name": made.name, "input_schema": made.input_schema, "locked": made.document.pins})

    @api.get(
        _ONE,
        openapi_extra=needs("read", parameters=[_NAME], refuses=(404,), **gives("Preset")),
        summary="Show a preset",
    )
    async def show(request: Request) -> Response:
        """The version that counts. References to the environment are shown as they were written."""
        return reply((await node.presets.get(request.path_params["name"])).as_json())

    @api.delete(
        _ONE,
        openapi_extra=needs("write", parameters=[_NAME], refuses=(404, 409), **gives("PresetDeleted")),
        summary="Delete a preset",
    )
    async def delete(request: Request) -> Response:
        """Refused while hooks, schedules or agents name it. Runs that began with it are carried on."""
        name = request.path_params["name"]
        await node.presets.delete(name, by=identity_of(request))
        return reply({"name": name, "status": "deleted"})

    @api.get(
        _ONE + "/versions",
        openapi_extra=needs("read", parameters=[_NAME], refuses=(404,), **gives("PresetVersions")),
        summary="List a preset's versions",
    )
    async def versions(
        request: Request,
        before: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 50,
    ) -> Response:
        """Newest first. ``next_before`` is the ``before`` of the next page, null on the last one."""
        found = await node.presets.versions(request.path_params["name"], before=before, limit=limit + 1)
        more = found[limit - 1].number if len(found) > limit else None
        return reply({"items": [one.as_json() for one in found[:limit]], "next_before": more})

    @api.post(
        _ONE + "/versions",
        status_code=201,
        openapi_extra=needs(
            "write",
            parameters=[_NAME],
            refuses=(400, 404, 408, 409, 413),
            **body("PresetChange"),
            **gives("Preset", 201),
        ),
        summary="Save a version of a preset",
    )
    async def save(request: Request) -> Response:
        """It counts from now on, in every process. Its number is one above the highest, also after a rollback."""
        given = await read_object(request.scope, request.receive, LARGE, keys=CHANGE)
        made = await node.presets.save(request.path_params["name"], given, by=identity_of(request))
        return reply(made.as_json(), status=201)

    @api.get(
        _ONE + "/versions/{version}",
        openapi_extra=needs("read", parameters=[_NAME, _NUMBER], refuses=(404,), **gives("PresetVersion")),
        summary="Show a version of a preset",
    )
    async def version(request: Request) -> Response:
        """As it was saved."""
        number = request.path_params["version"]
        if not (number.isascii() and number.isdecimal()) or not 1 <= len(number) <= 9:
            raise PresetVersionNotFoundError(field="version")
        return reply((await node.presets.version(request.path_params["name"], int(number))).as_json())

    @api.post(
        _ONE + "/rollback",
        openapi_extra=needs(
            "write",
            parameters=[_NAME],
            refuses=(400, 404, 408, 409, 413),
            **body("PresetRollback"),
            **gives("Preset"),
        ),
        summary="Let an earlier version count again",
    )
    async def roll_back(request: Request) -> Response:
        """No version is lost by it."""
        given = await read_object(request.scope, request.receive, SMALL, keys=ROLLBACK)
        made = await node.presets.roll_back(request.path_params["name"], given, by=identity_of(request))
        return reply(made.as_json())

    @api.post(
        _ONE + "/rename",
        openapi_extra=needs(
            "write",
            parameters=[_NAME],
            refuses=(400, 404, 408, 409, 413),
            **body("PresetRename"),
            **gives("Preset"),
        ),
        summary="Rename a preset",
    )
    async def rename(request: Request) -> Response:
        """Refused while hooks, schedules or agents name it. Runs that began under the old name are carried on."""
        given = await read_object(request.scope, request.receive, SMALL, keys=frozenset(("new_name",)))
        made = await node.presets.rename(request.path_params["name"], given, by=identity_of(request))
        return reply(made.as_json())

    @api.get(
        _ONE + "/referees",
        openapi_extra=needs("read", parameters=[_NAME], refuses=(404,), **gives("PresetReferees")),
        summary="Say what names a preset",
    )
    async def referees(request: Request) -> Response:
        """The hooks and schedules that are kept, and the agents of this server's manifest."""
        found = await node.presets.referees(request.path_params["name"])
        return reply({"items": [{"kind": kind, "name": name} for kind, name in found]})

    @api.put(
        _TAG,
        openapi_extra=needs(
            "write",
            parameters=[_NAME, _WORD],
            refuses=(400, 404, 408, 413),
            **body("PresetTag"),
            **gives("Preset"),
        ),
        summary="Tag a version of a preset",
    )
    async def tag(request: Request) -> Response:
        """The tag is that version's alone: another one loses it."""
        given = await read_object(request.scope, request.receive, SMALL, keys=frozenset(("version",)))
        made = await node.presets.tag(
            request.path_params["name"],
            request.path_params["tag"],
            given.get("version"),
            by=identity_of(request),
        )
        return reply(made.as_json())

    @api.delete(
        _TAG,
        openapi_extra=needs("write", parameters=[_NAME, _WORD], refuses=(400, 404), **gives("Preset")),
        summary="Take a tag off a preset's version",
    )
    async def untag(request: Request) -> Response:
        """The version stays."""
        made = await node.presets.untag(
            request.path_params["name"], request.path_params["tag"], by=identity_of(request)
        )
        return reply(made.as_json())

    return api
