"""API keys and sign-in links. A secret is in the answer that makes it and nowhere else."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rejoinder.access.keys import SIGN_IN_SECONDS, KeyNotFoundError
from rejoinder.contract.errors import BadInputError
from rejoinder.contract.text import unstorable_text
from rejoinder.doors.admission import Door, caller_of, identity_of, needs
from rejoinder.doors.bodies import SMALL, read_object, reply
from rejoinder.doors.parameters import Words
from rejoinder.doors.schemas import body, gives
from rejoinder.node import Node

KEYS = frozenset(("name", "grants", "identity", "owner", "expires_at"))


def router(node: Node) -> APIRouter:
    api = APIRouter(route_class=Door, tags=["access"])

    @api.get("/api/keys", openapi_extra=needs("admin", **gives("Keys")), summary="List the keys")
    async def keys(revoked: Annotated[bool, Query()] = False) -> Response:
        """Never their secrets. ``revoked=true`` lists the revoked ones as well."""
        return reply({"items": [key.as_json() for key in await node.access.keys(revoked=revoked)]})

    @api.post(
        "/api/keys",
        status_code=201,
        openapi_extra=needs(
            "admin", refuses=(400, 404, 408, 409, 413), **body("NewKey"), **gives("CreatedKey", 201)
        ),
        summary="Create a key",
    )
    async def create(request: Request) -> Response:
        """``secret`` is shown this once. With ``owner`` the new key is restricted: it sees and answers only what is
        addressed to its identity, and may do at most what its owner may."""
        body = await read_object(request.scope, request.receive, SMALL, keys=KEYS)
        key, secret = await node.access.create_key(
            name=body.get("name"),
            grants=body.get("grants"),
            identity=body.get("identity"),
            owner=body.get("owner"),
            expires_at=_moment(body.get("expires_at")),
            by=identity_of(request),
        )
        return reply({"key": key.as_json(), "secret": secret}, status=201)

    @api.delete(
        "/api/keys/{name}",
        openapi_extra=needs("admin", refuses=(404,), **gives("RevokedKeys")),
        summary="Revoke a key",
    )
    async def revoke(request: Request) -> Response:
        """At once, everywhere, with the keys that it owns."""
        name = request.path_params["name"]
        if len(name) > 120 or unstorable_text(name):
            raise KeyNotFoundError(field="name")
        return reply({"revoked": await node.access.revoke_key(name, by=identity_of(request))})

    @api.post(
        "/api/sign-in-links",
        status_code=201,
        openapi_extra=needs("any", **gives("SignInLink", 201)),
        summary="Make a sign-in link",
    )
    async def sign_in_link(request: Request) -> Response:
        """A one-time link that signs a browser in as the caller, good for an hour."""
        token = await node.access.create_sign_in(caller_of(request).identity)
        base = node.settings.interactions_public_base_url or str(request.base_url)
        return reply(
            {
                "url": f"{base.rstrip('/')}/sign-in?token={quote(token, safe='')}",
                "expires_in_seconds": SIGN_IN_SECONDS,
            },
            status=201,
        )

    @api.get(
        "/api/scopes/public",
        openapi_extra=needs("admin", **gives("PublicRoutes")),
        summary="List the public routes",
    )
    async def public_routes() -> Response:
        """The doors outside ``/api`` that stand open to all. Where access control is off they all do."""
        return reply({"items": [route.as_json() for route in await node.public_routes.all()]})

    @api.put(
        "/api/scopes/public",
        openapi_extra=needs(
            "admin", refuses=(400, 404, 408, 413), **body("NewPublicRoute"), **gives("PublicRoute")
        ),
        summary="Pin a public route",
    )
    async def pin(request: Request) -> Response:
        """Opens what ``pattern`` names, everywhere and at once: ``/universal_webhook/*``, ``/universal_webhook/`` and
        one topic, or ``/trigger/*``."""
        body = await read_object(request.scope, request.receive, SMALL, keys=frozenset(("pattern",)))
        return reply((await node.public_routes.pin(body.get("pattern"), by=identity_of(request))).as_json())

    @api.delete(
        "/api/scopes/public",
        openapi_extra=needs("admin", refuses=(400, 404), **gives("UnpinnedRoute")),
        summary="Unpin a public route",
    )
    async def unpin(request: Request, pattern: Words = None) -> Response:
        """Closes it again, everywhere and at once."""
        await node.public_routes.unpin(pattern, by=identity_of(request))
        return reply({"pattern": pattern, "status": "unpinned"})

    return api


def _moment(value: object) -> datetime | None:
    if value is None:
        return None
    try:
        if not isinstance(value, str):
            raise ValueError
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise BadInputError(
            "expires_at must be a date and time with its zone, such as 2030-01-31T09:00:00+01:00",
            field="expires_at",
        ) from None
    if moment.tzinfo is not None and not 1970 <= moment.year <= 9990:
        raise BadInputError("expires_at is out of range", field="expires_at")
    return moment
