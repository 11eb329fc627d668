"""Presets, for those who run the deployment: what each fixes, whether it can be used here, and its versions."""

from __future__ import annotations

from starlette.responses import Response

from rejoinder.contract.errors import ForbiddenError
from rejoinder.language.spoken import later
from rejoinder.web.site import Visit

LIMIT = 200
VERSIONS = 100


async def show_all(visit: Visit) -> Response:
    _check(visit)
    found = await visit.node.presets.page(limit=LIMIT + 1)
    return visit.draw(
        "presets.html",
        presets=found[:LIMIT],
        full=len(found) > LIMIT,
        limit=LIMIT,
        command="rejoinder presets create",
    )


async def show_one(visit: Visit) -> Response:
    _check(visit)
    name = visit.request.path_params["name"]
    preset = await visit.node.presets.get(name)
    versions = await visit.node.presets.versions(name, limit=VERSIONS)
    referees = await visit.node.presets.referees(name)
    return visit.draw(
        "preset.html",
        preset=preset,
        document=preset.version.document,
        versions=versions,
        cut=len(versions) >= VERSIONS,
        limit=VERSIONS,
        referees=referees,
        kinds=KINDS,
    )


KINDS = {"agent": later("Agent"), "hook": later("Hook"), "schedule": later("Schedule")}


def _check(visit: Visit) -> None:
    if visit.identity.restricted:
        raise ForbiddenError(later("A restricted key sees only what is addressed to it."))
