"""``/universal_webhook/{topic}``: where outside systems post their events.

A request is read in one order: how large it is, whether the topic's verifier agrees with the raw bytes, what it says;
and it is answered once it is kept. A sender that reads 200 need not send again.
"""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from rejoinder.contract.errors import BadInputError, NotReadyError, RejoinderError, TooLargeError
from rejoinder.contract.verifiers import VerificationFailedError
from rejoinder.doors.admission import Door, needs, route_template
from rejoinder.doors.bodies import read_body, to_bytes
from rejoinder.doors.event_bodies import event_of
from rejoinder.doors.schemas import gives
from rejoinder.hooks.ingress import UNPROVEN, Proven, ReboundError
from rejoinder.node import Node
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics
from rejoinder.verifiers.registry import VerificationError

log = get_logger("webhooks")

#: Requests of one client in a minute, and in ten seconds.
BUDGET = (60, 10)
TOPIC = re.compile(r"[a-z0-9][a-z0-9_-]{0,119}", re.ASCII)
#: How often a request is verified anew because its topic was bound or unbound meanwhile.
TRIES = 3


class AcceptFailedError(RejoinderError):
    """accept failed: the database does not answer. Nothing was kept; send the event again."""

    code = "accept-failed"
    status = 503


class MethodNotAllowedError(RejoinderError):
    """Events are posted: a GET or HEAD changes nothing here."""

    code = "method-not-allowed"
    status = 405


def router(node: Node) -> APIRouter:
    api = APIRouter(route_class=Door, tags=["hooks"])
    path = "/universal_webhook/{topic}"
    door = Webhooks(node)
    refuses = (400, 401, 403, 408, 413, 500, 503)
    shown = needs("public", budget=BUDGET, refuses=(405, *refuses), **gives("Delivered", bare=True))

    @api.head(path, openapi_extra=needs("public", budget=BUDGET), include_in_schema=False)
    @api.get(
        path, openapi_extra=shown, summary="Say that a topic takes events by POST", response_class=Response
    )
    async def show(request: Request) -> Response:
        """405, and nothing is changed, whoever asks. Where ``WEBHOOK_GET_TOPICS`` names the topic, a GET is an event, and
        its query is what it says."""
        return await door.show(request)

    @api.post(
        path,
        openapi_extra=needs("public", budget=BUDGET, refuses=refuses, **gives("Delivered", bare=True)),
        summary="Post an event to a topic",
    )
    async def post(request: Request) -> Response:
        """Keeps the event and a run for each hook on the topic, then answers. Where the topic has a verifier, the request
        must prove itself, and a copy of one that counted is ``already_seen``."""
        return await door.post(request)

    return api


class Webhooks:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._cap = node.settings.webhook_ingress_max_body_bytes
        self._by_get = frozenset(node.settings.webhook_get_topics)

    async def show(self, request: Request) -> Response:
        self._check_query(request)
        topic = request.path_params["topic"]
        if request.method != "GET" or topic not in self._by_get:
            return _problem(MethodNotAllowedError(), allow="POST")
        return await self._taken(request, b"")

    async def post(self, request: Request) -> Response:
        self._check_query(request)
        return await self._taken(request, await read_body(request.scope, request.receive, self._cap))

    def _check_query(self, request: Request) -> None:
        query: bytes = request.scope.get("query_string", b"")
        if len(query) > self._cap:
            raise TooLargeError(
                f"The query is over {self._cap} bytes, which is the most that this door takes."
            )

    async def _taken(self, request: Request, raw: bytes) -> Response:
        topic = request.path_params["topic"]
        await self._node.public_routes.check(f"/universal_webhook/{topic}")
        try:
            if not TOPIC.fullmatch(topic):
                raise BadInputError(
                    "topic must be small letters, digits, _ and -, at most 120, and begin with a letter or digit",
                    field="topic",
                )
            return await self._accepted(request, topic, raw)
        except BadInputError as error:
            metrics.deliveries.labels("rejected").inc()
            return _problem(error, status="rejected")
        except VerificationFailedError as error:
            metrics.deliveries.labels("unverified").inc()
            log.warning(
                "refused",
                method=request.method,
                route=route_template(request.scope),
                status=401,
                reason=error.code,
                request_id=request.scope.get("rejoinder.request_id"),
            )
            return _problem(error)
        except VerificationError as error:
            metrics.deliveries.labels("unverifiable").inc()
            identifier = request.scope.get("rejoinder.request_id")
            log.error("an event could not be verified", topic=topic, request_id=identifier)
            return _problem(error, id=identifier)
        except NotReadyError:
            metrics.deliveries.labels("failed").inc()
            raise AcceptFailedError() from None

    async def _accepted(self, request: Request, topic: str, raw: bytes) -> Response:
        headers = _headers(request)
        query: bytes = request.scope.get("query_string", b"")
        for attempt in range(1, TRIES + 1):
            proven = await self._node.deliveries.prove(topic, raw, headers)
            if proven.post_only and request.method != "POST":
                return _problem(MethodNotAllowedError(), allow="POST")
            event = event_of(raw, _proven_query(query, proven), headers)
            try:
                outcome = await self._node.deliveries.accept(topic, event, proven=proven)
            except ReboundError:
                if attempt == TRIES:
                    raise
                continue
            break
        return _json({"status": outcome, "topic": topic}, 200)


def _proven_query(query: bytes, proven: Proven) -> bytes:
    """Only the body of a signed request was proven, so its query is nobody's word."""
    return query if proven is UNPROVEN or not proven.post_only else b""


def _headers(request: Request) -> dict[str, str]:
    """Every header by its lower-case name; one that comes twice is joined, so that it proves nothing by halves."""
    found: dict[str, str] = {}
    for name, value in request.scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _problem(error: RejoinderError, *, allow: str | None = None, **more: Any) -> Response:
    body = error.as_problem() | {key: value for key, value in more.items() if value is not None}
    response = _json(body, error.status)
    if allow is not None:
        response.headers["allow"] = allow
    return response


def _json(body: dict[str, Any], status: int) -> Response:
    return Response(
        to_bytes(body),
        status_code=status,
        media_type="application/json",
        headers={"cache-control": "no-store", "x-content-type-options": "nosniff"},
    )
