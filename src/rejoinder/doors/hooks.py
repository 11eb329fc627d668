"""Topics, their verifiers, hooks and trigger links, as people write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rejoinder.doors.admission import Door, identity_of, needs, unrestricted
from rejoinder.doors.bodies import SMALL, read_object, reply
from rejoinder.doors.parameters import Words
from rejoinder.doors.schemas import body, gives
from rejoinder.hooks.links import KEYS as LINK_KEYS
from rejoinder.hooks.records import KEYS as HOOK_KEYS
from rejoinder.hooks.records import NOT_SERVED
from rejoinder.node import Node

Limit = Annotated[int, Query(ge=1, le=500)]
LIMIT = 100
_REFUSES = (400, 404, 408, 413)


def router(node: Node) -> APIRouter:
    api = APIRouter(route_class=Door, tags=["hooks"])
    _hooks(api, node)
    _topics(api, node)
    _links(api, node)
    return api


#: 201 where it is new, 200 where it took another's place.
_written = {"responses": gives("Hook")["responses"] | gives("Hook", 201)["responses"]}


def _hooks(api: APIRouter, node: Node) -> None:
    @api.get("/api/hooks", openapi_extra=needs("read", **gives("Hooks")), summary="List the hooks")
    async def hooks(
        request: Request, topic: Words = None, after: Words = None, limit: Limit = LIMIT
    ) -> Response:
        """By name; ``after`` goes on where the last page ended."""
        unrestricted(request)
        return _page(await node.hook_store.hooks(topic=topic, after=after, limit=limit + 1), limit, "name")

    @api.post(
        "/api/hooks",
        openapi_extra=needs("write", refuses=_REFUSES, **body("NewHook"), **_written),
        summary="Register a hook",
    )
    async def register(request: Request) -> Response:
        """In the place of one of the same name. From the next event on, ``tool`` runs on every event of ``topic`` for which
        ``condition`` holds. Only an admin registers a hook of an internal tool, and only behind a verifier."""
        by = unrestricted(request)
        given = await read_object(
            request.scope, request.receive, SMALL, keys=HOOK_KEYS, not_served=NOT_SERVED
        )
        hook, new = await node.hook_records.register(given, by=by)
        return reply(hook.as_json(), status=201 if new else 200)

    @api.delete(
        "/api/hooks/{name}",
        openapi_extra=needs("write", refuses=(400, 404), **gives("HookDeleted")),
        summary="Delete a hook",
    )
    async def delete(request: Request) -> Response:
        """Events that were accepted for it and have not begun start nothing any more."""
        name = request.path_params["name"]
        await node.hook_records.delete(name, by=unrestricted(request))
        return reply({"name": name, "status": "deleted"})

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


def _topics(api: APIRouter, node: Node) -> None:
    @api.get("/api/hooks/topics", openapi_extra=needs("read", **gives("Topics")), summary="List the topics")
    async def topics(request: Request, after: Words = None, limit: Limit = LIMIT) -> Response:
        """Those with a verifier, a hook or a trigger link. An event to any other topic is accepted and runs nothing."""
        unrestricted(request)
        return _page(await node.hook_store.topics(after=after, limit=limit + 1), limit, "topic")

    @api.put(
        "/api/hooks/topics/{topic}/verifier",
        openapi_extra=needs("admin", refuses=_REFUSES, **body("NewTopicVerifier"), **gives("TopicVerifier")),
        summary="Put a verifier before a topic",
    )
    async def bind(request: Request) -> Response:
        """In the place of the one that is there. From then on only what it vouches for gets in, and trigger links to the
        topic are out of service. ``config`` names the environment variable of a secret, and never holds one."""
        keys = frozenset(("verifier", "config"))
        given = await read_object(request.scope, request.receive, SMALL, keys=keys)
        found = await node.hook_records.bind(request.path_params["topic"], given, by=identity_of(request))
        return reply(found.binding_as_json())

    @api.delete(
        "/api/hooks/topics/{topic}/verifier",
        openapi_extra=needs("admin", refuses=(400, 404, 409), **gives("TopicUnbound")),
        summary="Take a topic's verifier away",
    )
    async def unbind(request: Request) -> Response:
        """Refused while hooks run on the topic: without its verifier anybody could start them."""
        topic = request.path_params["topic"]
        await node.hook_records.unbind(topic, by=identity_of(request))
        return reply({"topic": topic, "status": "unbound"})


def _links(api: APIRouter, node: Node) -> None:
    @api.get(
        "/api/hooks/trigger-links",
        openapi_extra=needs("read", **gives("TriggerLinks")),
        summary="List the trigger links",
    )
    async def links(
        request: Request, topic: Words = None, after: Words = None, limit: Limit = LIMIT
    ) -> Response:
        """Those that were not revoked, and whether each counts now. Never their tokens, which are not kept."""
        unrestricted(request)
        return _page(await node.hook_store.links(topic=topic, after=after, limit=limit + 1), limit, "name")

    @api.post(
        "/api/hooks/trigger-links",
        status_code=201,
        openapi_extra=needs(
            "write",
            refuses=(*_REFUSES, 409),
            **body("NewTriggerLink"),
            **gives("MintedTriggerLink", 201),
        ),
        summary="Make a trigger link",
    )
    async def mint(request: Request) -> Response:
        """Whoever has ``url`` posts to the topic. ``token`` and ``url`` are shown this once. Refused for a topic that a
        verifier stands before."""
        given = await read_object(request.scope, request.receive, SMALL, keys=LINK_KEYS)
        link, token = await node.trigger_links.mint(given, by=unrestricted(request))
        base = node.settings.interactions_public_base_url or str(request.base_url)
        url = f"{base.rstrip('/')}/trigger/{token}"
        return reply({"link": link.as_json(), "token": token, "url": url}, status=201)

    @api.delete(
        "/api/hooks/trigger-links/{name}",
        openapi_extra=needs("write", refuses=(400, 404), **gives("TriggerLinkRevoked")),
        summary="Revoke a trigger link",
    )
    async def revoke(request: Request) -> Response:
        """For ever; its name is free again."""
        name = request.path_params["name"]
        await node.trigger_links.revoke(name, by=unrestricted(request))
        return reply({"name": name, "status": "revoked"})


def _page(found: Sequence[Any], limit: int, key: str) -> Response:
    """One more than ``limit`` was asked for, to know whether there are more."""
    shown = found[:limit]
    after = getattr(shown[-1], key) if len(found) > limit else None
    return reply({"items": [one.as_json() for one in shown], "next_after": after})
