"""Bodies in and out: bounded, timed, strict JSON."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope

from rejoinder.contract.errors import BadInputError, RejoinderError, TooLargeError
from rejoinder.contract.text import MAX_DEPTH

#: The cap of every door, in bytes, unless it says otherwise.
SMALL = 65_536
#: Doors that take a tool's arguments: a question's media may hold images as data: URLs, a mebibyte together.
LARGE = 1_310_720
#: Seconds for a whole body to arrive.
PATIENCE = 30.0
#: A number longer than this is refused: turning it into decimal again takes the square of its length.
MAX_DIGITS = 400

Headers = list[tuple[bytes, bytes]]
JSON_TYPE: tuple[bytes, bytes] = (b"content-type", b"application/json")


class CallerGoneError(Exception):
    """The client closed the connection; nobody reads a response."""


class SlowBodyError(RejoinderError):
    """The request's body did not arrive in time."""

    code = "slow-body"
    status = 408


class InvalidJsonError(BadInputError):
    """invalid JSON"""

    code = "invalid-json"


def content_length(scope: Scope) -> int | None:
    """The announced length, or None where none is. Raises BadInputError where it is not a number."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            if not value.isdigit() or len(value) > 18:
                raise BadInputError("Content-Length is not a number", field="Content-Length")
            return int(value)
    return None


async def read_body(scope: Scope, receive: Receive, cap: int = SMALL) -> bytes:
    """The whole body. Raises TooLargeError, SlowBodyError, and CallerGoneError where the client left meanwhile."""
    if (content_length(scope) or 0) > cap:
        raise too_large(cap)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise CallerGoneError()
                chunk: bytes = message.get("body", b"")
                size += len(chunk)
                if size > cap:
                    raise too_large(cap)
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
    except TimeoutError:
        raise SlowBodyError() from None


def too_large(cap: int) -> TooLargeError:
    return TooLargeError(f"The request's body is over {cap} bytes, which is the most that this door takes.")


async def read_json(scope: Scope, receive: Receive, cap: int = SMALL) -> Any:
    return parse_json(await read_body(scope, receive, cap))


async def read_object(
    scope: Scope,
    receive: Receive,
    cap: int = SMALL,
    *,
    keys: frozenset[str],
    not_served: Collection[str] = (),
) -> dict[str, Any]:
    """A JSON object with no key but ``keys``. Passing over a key silently would drop what the caller meant by it.
    ``not_served`` are keys that are known and that whoever reads the object refuses: nobody is told to use them."""
    body = await read_json(scope, receive, cap)
    if not isinstance(body, dict):
        raise BadInputError("the body must be a JSON object", field="body")
    for key in body:
        if key not in keys and key not in not_served:
            raise BadInputError(
                f"the body has a key that is not known; it takes {', '.join(sorted(keys))}", field=_shown(key)
            )
    return body


def parse_json(body: bytes) -> Any:
    """Strict JSON in UTF-8. Integers keep every digit. Refused: NaN and infinities, the same key twice in an object
    (readers would disagree about which one counts), deep nesting, numbers of absurd length."""
    try:
        return json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_not_a_number,
            parse_int=_whole,
            parse_float=_float,
        )
    except InvalidJsonError:
        raise
    except RecursionError:
        raise InvalidJsonError(f"invalid JSON: it is nested more than {MAX_DEPTH} levels deep") from None
    except json.JSONDecodeError as error:
        raise InvalidJsonError(f"invalid JSON: {error.msg} at character {error.pos}") from None
    except ValueError:
        raise InvalidJsonError("invalid JSON: it is not UTF-8 text") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise InvalidJsonError("invalid JSON: an object has the same key twice")
    return made


def _not_a_number(_text: str) -> NoReturn:
    raise InvalidJsonError("invalid JSON: NaN and Infinity are not JSON numbers")


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise InvalidJsonError("invalid JSON: a number is too long")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidJsonError("invalid JSON: a number is too large")
    return value


def _shown(key: str) -> str:
    return key[:80].encode("unicode_escape").decode("ascii")


def to_bytes(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # An integer beyond 64 bits, which the standard library writes whole.
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def reply(data: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The success envelope: ``{"data": ...}``."""
    return Response(
        to_bytes({"data": data}), status_code=status, headers=headers, media_type="application/json"
    )
