"""``/trigger/{token}``: what a trigger link leads to. A GET shows a button, a POST posts to the link's topic.

A link travels through chats and mails, where previews and scanners open it unasked: so no GET starts anything.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from rejoinder.contract.errors import (
    AuthenticationError,
    BadInputError,
    NotReadyError,
    RejoinderError,
    TooLargeError,
)
from rejoinder.doors.admission import Door, needs
from rejoinder.doors.bodies import read_body, to_bytes
from rejoinder.doors.event_bodies import event_of
from rejoinder.doors.openapi import REASONS
from rejoinder.doors.schemas import gives
from rejoinder.hooks.links import LinkGoneError, LinkNeedsKeyError
from rejoinder.language.spoken import speaking
from rejoinder.node import Node
from rejoinder.store.hooks import LiveLink
from rejoinder.web import trigger as pages
from rejoinder.web.speech import language_of

#: Requests of one client in a minute, and in ten seconds.
BUDGET = (60, 10)


def router(node: Node) -> APIRouter:
    api = APIRouter(route_class=Door, tags=["hooks"])
    path = "/trigger/{token}"
    door = _TriggerDoor(node)
    shown = needs(
        "public",
        budget=BUDGET,
        responses={
            "200": {"description": "A page", "content": {"text/html": {}}},
            "403": {"description": REASONS[403], "content": {"text/plain": {}, "text/html": {}}},
            "404": {"description": REASONS[404], "content": {"text/plain": {}}},
            "503": {"description": REASONS[503], "content": {"text/plain": {}}},
        },
    )

    @api.head(path, openapi_extra=needs("public", budget=BUDGET), include_in_schema=False)
    @api.get(path, openapi_extra=shown, summary="Show what a trigger link is", response_class=Response)
    async def show(request: Request) -> Response:
        """A page with a button. Starts nothing, whoever asks. One constant 404 for every token that is unknown, revoked,
        expired or out of service."""
        return await door.show(request)

    @api.post(
        path,
        openapi_extra=needs(
            "public",
            budget=BUDGET,
            refuses=(400, 403, 404, 408, 413, 503),
            **gives("Triggered", bare=True),
        ),
        summary="Fire a trigger link",
    )
    async def fire(request: Request) -> Response:
        """The body, whatever its type, is the event, with the query's parameters beside it; both may be empty. It is kept
        when this answers. A link that requires an API key is fired with one that may write."""
        return await door.fire(request)

    return api


class _TriggerDoor:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._links = node.trigger_links
        self._cap = node.settings.webhook_ingress_max_body_bytes
        self._gone = node.settings.interactions_callback_gone_text

    async def show(self, request: Request) -> Response:
        try:
            await self._node.public_routes.check("/trigger/link")
            link, _ = await self._links.find(request.path_params["token"])
            with speaking(language_of(request, self._node.settings.rejoinder_language)):
                # A browser sends no key: there is no button for it to press.
                response = pages.needs_a_key() if link.require_api_key else pages.asked()
        except NotReadyError:
            response = pages.plain(pages.AWAY, 503)
        except RejoinderError as error:
            response = pages.plain(self._gone if error.status == 404 else error.message, error.status)
        if request.method == "HEAD":
            response.body = b""
        return response

    async def fire(self, request: Request) -> Response:
        query: bytes = request.scope.get("query_string", b"")
        await self._node.public_routes.check("/trigger/link")
        if len(query) > self._cap:
            raise TooLargeError(
                f"The query is over {self._cap} bytes, which is the most that this door takes."
            )
        raw = await read_body(request.scope, request.receive, self._cap)
        person = pages.is_from_page(request.headers.get("content-type", ""), raw)
        with speaking(language_of(request, self._node.settings.rejoinder_language)):
            try:
                await self._fired(request, b"" if person else raw, query)
            except LinkGoneError as error:
                return pages.plain(self._gone, 404) if person else _json(error.as_problem(), 404)
            except NotReadyError:
                if person:
                    return pages.plain(pages.AWAY, 503)
                raise
            except BadInputError as error:
                return _json(error.as_problem() | {"status": "rejected"}, error.status)
            return pages.done() if person else _json({"status": "accepted"}, 200)

    async def _fired(self, request: Request, raw: bytes, query: bytes) -> None:
        link, digest = await self._links.find(request.path_params["token"])
        if link.require_api_key:
            await self._check_key(request, link)
        event = event_of(raw, query, request.headers)
        if await self._node.deliveries.accept(link.topic, event, link=digest) == "gone":
            # Revoked, or its topic bound, since it was found.
            raise LinkGoneError()

    async def _check_key(self, request: Request, link: LiveLink) -> None:
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        try:
            if scheme.lower() != "bearer":
                raise AuthenticationError()
            identity = await self._node.access.identify(secret.strip())
        except AuthenticationError:
            raise LinkNeedsKeyError() from None
        if not identity.may("write"):
            raise LinkNeedsKeyError()


def _json(body: dict[str, Any], status: int) -> Response:
    return Response(to_bytes(body), status_code=status, media_type="application/json")
