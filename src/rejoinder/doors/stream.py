"""``GET /api/interactions/stream``: the live tail as server-sent events."""

from __future__ import annotations

import time

from starlette.requests import HTTPConnection
from starlette.types import Receive, Send

from rejoinder.access.gate import Caller
from rejoinder.contract.errors import AuthenticationError, BadInputError
from rejoinder.doors.admission import PlainDoor, still_admitted
from rejoinder.doors.blocking import unless_gone

#: Seconds of silence after which a comment is written. Events that this reader may not see are silence.
KEEP_ALIVE = 15.0

CONNECTED = b": connected\n\n"
STILL_HERE = b": keep-alive\n\n"
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-store"),
    (b"x-accel-buffering", b"no"),
]


def last_event_id(connection: HTTPConnection) -> int | None:
    """From the header that a browser sends when it reconnects, or the parameter of the same meaning."""
    given = connection.headers.get("last-event-id") or connection.query_params.get("last_event_id")
    if not given:
        return None
    if not (given.isascii() and given.isdigit()) or len(given) > 19 or int(given) >= 2**63:
        raise BadInputError("last_event_id must be the number of an event", field="last_event_id")
    return int(given)


class Stream(PlainDoor):
    grant = "read"

    async def serve(self, connection: HTTPConnection, caller: Caller, receive: Receive, send: Send) -> None:
        place = last_event_id(connection)
        if connection.scope["method"] == "HEAD":
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await send({"type": "http.response.body", "body": b""})
            return

        async def follow() -> None:
            async with self.node.tail.subscribe(caller.identity, place) as (missed, subscriber):
                await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
                await _write(send, CONNECTED + b"".join(missed))
                del missed[:]
                now = time.monotonic()
                silent = now + KEEP_ALIVE
                while True:
                    frame = await subscriber.next(max(0.001, silent - now))
                    now = time.monotonic()
                    if frame is not None:
                        await _write(send, frame)
                    elif now >= silent:
                        await _write(send, STILL_HERE)
                    else:
                        continue
                    silent = now + KEEP_ALIVE

        try:
            await unless_gone(receive, follow(), still_admitted(connection, "read"))
        except AuthenticationError:
            # The stream ends as one does: whoever connects again is told why.
            pass
        await send({"type": "http.response.body", "body": b""})


async def _write(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
