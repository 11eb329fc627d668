"""The OpenAPI document."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response

from rejoinder.doors.admission import Door, needs
from rejoinder.doors.bodies import to_bytes

DOCUMENT = "/openapi.json"


def document(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
    return app.openapi_schema


def router(app: FastAPI) -> APIRouter:
    api = APIRouter(route_class=Door)

    @api.get(DOCUMENT, openapi_extra=needs("public"), include_in_schema=False)
    async def shown() -> Response:
        return Response(to_bytes(document(app)), media_type="application/json")

    return api
