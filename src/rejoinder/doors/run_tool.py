"""``POST /api/run-tool``: run a tool here, block until it is done, answer with what it returned."""

from __future__ import annotations

import re

from starlette.requests import HTTPConnection
from starlette.types import Receive, Send

from rejoinder.access.gate import Caller
from rejoinder.contract.errors import BadInputError
from rejoinder.doors.admission import PlainDoor, still_admitted
from rejoinder.doors.blocking import unless_gone
from rejoinder.doors.bodies import JSON_TYPE, LARGE, read_object, to_bytes

DOOR = "run-tool"
RUN_ID_HEADER = b"x-rejoinder-run-id"
KEYS = frozenset(("tool_name", "arguments"))
_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


def traceparent(connection: HTTPConnection) -> str | None:
    """The caller's trace context, where it has the form of one."""
    given = connection.headers.get("traceparent")
    return given if given is not None and _TRACE.fullmatch(given) else None


def tool_and_arguments(body: dict[str, object]) -> tuple[str, object]:
    name = body.get("tool_name")
    if not isinstance(name, str) or not name:
        raise BadInputError("tool_name must be the name of a tool", field="tool_name")
    arguments = body.get("arguments")
    return name, {} if arguments is None else arguments


class RunTool(PlainDoor):
    grant = "write"

    async def serve(self, connection: HTTPConnection, caller: Caller, receive: Receive, send: Send) -> None:
        body = await read_object(connection.scope, receive, LARGE, keys=KEYS)
        name, arguments = tool_and_arguments(body)
        del body
        result = await unless_gone(
            receive,
            self.node.run_service.call(
                name, arguments, by=caller.identity, door=DOOR, traceparent=traceparent(connection)
            ),
            still_admitted(connection, "write"),
        )
        content = to_bytes({"data": result.as_json()})
        headers = [
            JSON_TYPE,
            (b"content-length", str(len(content)).encode()),
            (RUN_ID_HEADER, str(result.run_id).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})
