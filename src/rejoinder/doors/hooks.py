"""Webhook verifiers: which ones this deployment knows."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from rejoinder.doors.admission import Door, needs
from rejoinder.doors.bodies import reply
from rejoinder.doors.schemas import gives
from rejoinder.node import Node


def router(node: Node) -> APIRouter:
    api = APIRouter(route_class=Door, tags=["hooks"])

    @api.get(
        "/api/hooks/verifiers",
        openapi_extra=needs("read", **gives("Verifiers")),
        summary="List the webhook verifiers",
    )
    async def verifiers() -> Response:
        """Those that come with it, and those of the manifest. ``post_only``: the body is what is signed."""
        known = node.registry.verifiers
        found = [(name, known.get(name)) for name in known.names()]
        return reply(
            {"items": [{"name": name, "post_only": bool(one and one.post_only)} for name, one in found]}
        )

    return api
