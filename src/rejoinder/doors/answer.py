"""``POST /api/interactions/{interaction_id}/answer``: ``{"answer": <json>}``."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import Receive, Send

from rejoinder.access.gate import Caller
from rejoinder.contract.errors import BadInputError
from rejoinder.doors.admission import VIA, PlainDoor
from rejoinder.doors.bodies import JSON_TYPE, SMALL, read_object
from rejoinder.doors.parameters import interaction_id

KEYS = frozenset(("answer",))


class Answer(PlainDoor):
    grant = "write"

    async def serve(self, connection: HTTPConnection, caller: Caller, receive: Receive, send: Send) -> None:
        identifier = interaction_id(connection.scope["path_params"]["interaction_id"])
        body = await read_object(connection.scope, receive, SMALL, keys=KEYS)
        if "answer" not in body:
            raise BadInputError("body must contain 'answer'", field="answer")
        await self.node.asks.answer(identifier, body["answer"], by=caller.identity, via=VIA)
        content = b'{"data":{"interaction_id":"%b","status":"answered"}}' % str(identifier).encode()
        headers = [JSON_TYPE, (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})
