"""Opening a socket to a Gateway and saying hello on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Origin

from rejoinder.openclaw.errors import Refused
from rejoinder.openclaw.frames import Event, FrameError, Payload, Response, encode, mapping, parse, request
from rejoinder.openclaw.handshake import Access, Hello, check_scopes, connect_params
from rejoinder.openclaw.refusals import refusal, refused_status, unreachable

#: Above the Gateway's own limit for one frame (25 MiB).
_MAX_FRAME = 32 * 1024 * 1024

Tap = Callable[[Literal["in", "out", "closed"], Mapping[str, Any]], None]
"""Sees every frame as it is sent or received, and how the connection closed. It must not block."""


async def greeted(access: Access, tap: Tap | None) -> tuple[ClientConnection, Hello]:
    """A socket on which the Gateway said hello. Raises Refused, whatever the reason."""
    try:
        socket = await connect(
            access.url,
            origin=Origin(access.origin) if access.origin else None,
            max_size=_MAX_FRAME,
            open_timeout=None,
            ping_interval=None,
            close_timeout=2,
            compression=None,
            # A proxy from the environment is meant for the world outside.
            proxy=None if access.loopback else True,
        )
    except InvalidStatus as error:
        raise refused_status(error.response.status_code, access) from error
    except (OSError, EOFError, InvalidHandshake, InvalidURI) as error:
        raise unreachable(access, _reason(error)) from error
    try:
        return socket, await _greet(socket, access, tap)
    except ConnectionClosed as error:
        code, reason = socket.close_code, socket.close_reason or ""
        if tap:
            tap("closed", {"code": code, "reason": reason})
        raise refusal(_closed(code, reason), access) from error
    except FrameError as error:
        raise Refused(
            "other", f"{access.url} does not speak as a Gateway does.", str(error), code="NOT_A_GATEWAY"
        ) from error
    except BaseException:
        # A refusal was read, or nobody waits any more; the other side may be gone, and is not waited for.
        socket.transport.abort()
        raise


async def _greet(socket: ClientConnection, access: Access, tap: Tap | None) -> Hello:
    challenge: Payload | None = None
    while True:
        frame, seen = parse(await socket.recv())
        if tap:
            tap("in", seen)
        if challenge is None:
            if not isinstance(frame, Event) or frame.name != "connect.challenge":
                raise FrameError("Its first message is not a challenge.")
            challenge = frame.payload
            params = connect_params(access, challenge)
            if tap:
                tap("out", request("1", "connect", params))
            await socket.send(encode(request("1", "connect", params)))
        elif isinstance(frame, Response) and frame.id == "1":
            if not frame.ok:
                raise refusal(frame.error, access)
            hello = Hello.read(mapping(frame.payload))
            check_scopes(access, hello)
            return hello


def _closed(code: int | None, reason: str) -> Payload:
    # Closed without an answer: the reason is all there is.
    if code in (1012, 1013):
        return {"code": "UNAVAILABLE", "message": reason}
    return {"code": f"CLOSED_{code}", "message": reason or f"it closed the connection with code {code}"}


def _reason(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return type(error).__name__
