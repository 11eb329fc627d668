"""Clients of the older generation are asked on the stream of their own call, and answer with a message of its own.

The protocol's library wants both in one process, in a session that it remembers. Here the session is a sealed text that
the client carries, the question is a row, and the answer may reach any server of the deployment.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import UUID

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from rejoinder.contract.identity import Identity
from rejoinder.mcp.answering import ACTIONS, take
from rejoinder.mcp.calls import DOOR
from rejoinder.mcp.handover import handover_of, request_of
from rejoinder.mcp.offers import Offer, Shows, offer_of, site_of
from rejoinder.mcp.sealed import Sealer
from rejoinder.node import Node
from rejoinder.store import signals as s

SESSION_HEADER = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"
#: Versions are dates: this one and later ones ask in another way, without sessions.
FIRST_MODERN = "2026-07-28"
#: Under which a call's stream travels in the request's scope, where its client can be asked on it.
WIRE = "rejoinder.wire"
#: A client that comes back later than this begins a new session.
SESSION_SECONDS = 30 * 86_400.0
#: What is read of a message before it is passed on; a larger one is refused there.
MOST_BYTES = 4 * 2**20
_SESSION = "session"


class Wire:
    """The response stream of one call. ``say`` puts a message of ours between those of the protocol's library."""

    def __init__(self, send: Send, shows: Shows) -> None:
        self.shows = shows
        self._send = send
        self._begun = asyncio.Event()
        self._over = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._over = True
        await self._send(message)
        if message["type"] == "http.response.start":
            self._begun.set()

    async def say(self, message: dict[str, Any]) -> None:
        await self._begun.wait()
        if not self._over:
            text = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
            frame = f"event: message\r\ndata: {text}\r\n\r\n".encode()
            await self._send({"type": "http.response.body", "body": frame, "more_body": True})

    async def ask(self, offer: Offer) -> None:
        identifier = str(offer.question.id)
        params = offer.params()
        if offer.url is not None:
            params["elicitationId"] = identifier
        await self.say({"id": identifier, "method": "elicitation/create", "params": params})

    async def complete(self, question_id: UUID) -> None:
        """Tell that what the person went to a page for is done."""
        params = {"elicitationId": str(question_id)}
        await self.say({"method": "notifications/elicitation/complete", "params": params})

    async def withdraw(self, question_id: UUID) -> None:
        """Tell that the question was answered elsewhere, or ended."""
        params = {"requestId": str(question_id), "reason": "The question is no longer open."}
        await self.say({"method": "notifications/cancelled", "params": params})


class Handshake:
    """What stands before the protocol's library for messages of the older generation."""

    def __init__(self, node: Node, sealer: Sealer) -> None:
        self._node = node
        self._sealer = sealer

    async def pass_on(self, app: Any, scope: Scope, receive: Receive, send: Send, identity: Identity) -> None:
        body, again = await _read(receive)
        message = _decoded(body)
        session = Request(scope).headers.get(SESSION_HEADER)
        if message.get("method") == "initialize":
            # Also for a client that shows nothing: its requests' numbers count in its session.
            sealed = await self._sealer.seal(_SESSION, _shown_by(message), _bound(identity), SESSION_SECONDS)
            send = _with_header(send, SESSION_HEADER, sealed)
        elif session is not None:
            said = await self._sealer.open(_SESSION, session, _bound(identity))
            if said is None:
                await _problem("Session not found", 404)(scope, receive, send)
                return
            if "method" not in message and ("result" in message or "error" in message):
                await (await self._answered(message, identity, self._shows(said)))(scope, receive, send)
                return
            if message.get("method") == "notifications/cancelled":
                await self._given_up(message, identity, session)
            elif (request := request_of(identity, session, message.get("id"))) is not None:
                handover_of(scope).name(request)
            wire = Wire(send, self._shows(said))
            scope[WIRE] = wire
            send = wire.send
        await app(scope, again, send)

    async def _given_up(self, message: dict[str, Any], by: Identity, session: str) -> None:
        """The client wants no answer to one of its requests any more, which any server may hold."""
        params = message.get("params")
        number = params.get("requestId") if isinstance(params, dict) else None
        request = request_of(by, session, number)
        if request is not None and by.may("write"):
            await self._node.legs.give_up(request)
            self._node.signals.tell(s.leg(request))

    def _shows(self, said: dict[str, Any]) -> Shows:
        # A session of before clients were sent to pages says nothing of forms, and means them.
        return Shows(said.get("form", True), site_of(self._node.settings) if said.get("url") else None)

    async def _answered(self, message: dict[str, Any], by: Identity, shows: Shows) -> Response:
        """202 whatever becomes of an answer, as the protocol has it; 400 where the person could answer otherwise."""
        offer = await self._offer(message.get("id"), by, shows)
        result = message.get("result")
        if offer is None or not isinstance(result, dict):
            return Response(status_code=202)
        action = result.get("action")
        if action not in ACTIONS:
            return _problem("The result's action must be accept, decline or cancel", 400)
        taken = await take(self._node.asks, offer, action, result.get("content"), by=by)
        if taken.refused is not None:
            return _problem(taken.refused, 400)
        return Response(status_code=202)

    async def _offer(self, identifier: Any, by: Identity, shows: Shows) -> Offer | None:
        """The question that the id names, where this caller's own call asks it."""
        try:
            question = await self._node.questions.by_id(UUID(identifier))
        except (ValueError, TypeError, AttributeError):
            return None
        run = await self._node.runs.by_id(question.run_id) if question is not None else None
        # A run that the call's own run called asks for it.
        while run is not None and run.parent_run_id is not None:
            run = await self._node.runs.by_id(run.parent_run_id)
        if question is None or run is None or not by.may("write"):
            return None
        if (run.door, run.identity, run.key_id) != (DOOR, by.name, by.key_id):
            return None
        return offer_of(question, by, shows)


def is_handshake(scope: Scope) -> bool:
    version = Request(scope).headers.get(VERSION_HEADER)
    return version is None or (version < FIRST_MODERN and version[:2] == "20")


def _bound(identity: Identity) -> list[Any]:
    return [identity.name, str(identity.key_id)]


def _shown_by(message: dict[str, Any]) -> dict[str, bool]:
    """What the client that begins a session puts before its person."""
    params = message.get("params")
    capabilities = params.get("capabilities") if isinstance(params, dict) else None
    elicitation = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    if not isinstance(elicitation, dict):
        return {"form": False, "url": False}
    # Empty means forms: there was nothing else when the capability was made.
    return {"form": not elicitation or "form" in elicitation, "url": "url" in elicitation}


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        message = orjson.loads(body)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


async def _read(receive: Receive) -> tuple[bytes, Receive]:
    """The message's bytes, and a ``receive`` that gives them once more and then what comes after them."""
    taken: list[Message] = []
    body = b""
    while len(body) <= MOST_BYTES:
        message = await receive()
        taken.append(message)
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    waiting = iter(taken)

    async def again() -> Message:
        for message in waiting:
            return message
        return await receive()

    return body, again


def _with_header(send: Send, name: str, value: str) -> Send:
    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200:
            headers = [*message.get("headers", []), (name.encode(), value.encode())]
            message = {**message, "headers": headers}
        await send(message)

    return adding


def _problem(message: str, status: int) -> JSONResponse:
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}, status)
