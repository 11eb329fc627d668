"""Whether the end of a call has left this server on the stream of the request that it was told to.

The end is told first and sent then: whoever has it may make the same call at once and means a new run. So what was told
and could not be sent is taken back.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import orjson
from starlette.types import Message, Receive, Send

from rejoinder.contract.identity import Identity

#: Under which a request's handover travels in its scope.
HANDOVER = "rejoinder.handover"
_EVENT = b"event: message"


class GivenUpError(Exception):
    """The request's client wants nothing of it any more."""


class Handover:
    """One request. ``request`` names it in the whole deployment; it is ``named`` where its client can name it as well,
    and so give it up."""

    def __init__(self) -> None:
        self.request = os.urandom(32)
        self.named = False
        #: Whether its client let go of it, as far as this process has heard: the row decides what is told.
        self.given_up = False
        #: The run whose end is told to this request, from before that is written.
        self.telling: UUID | None = None
        self._sent = False
        self._closed = False

    def name(self, request: bytes) -> None:
        self.request, self.named = request, True

    @property
    def closed(self) -> bool:
        """Nothing can be sent any more."""
        return self._closed

    @property
    def failed(self) -> bool:
        """An end was told, or may have been, that did not leave."""
        return self.telling is not None and not self._sent

    def close(self) -> None:
        self._closed = True

    def hearing(self, receive: Receive) -> Receive:
        async def hear() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                self._closed = True
            return message

        return hear

    def sending(self, send: Send) -> Send:
        async def say(message: Message) -> None:
            if self.telling is None or self._sent or not _is_result(message):
                await send(message)
                return
            # A server takes what it is given for a closed connection without a word: first hear what it has told.
            await asyncio.sleep(0)
            await send(message)
            # Read at once: a client may close when it has what it wanted.
            self._sent = not self._closed

        return say


def request_of(by: Identity, session: str, number: Any) -> bytes | None:
    """What a client's own number comes to, which it counts in its session. None where it is no number of a request."""
    if isinstance(number, bool) or not isinstance(number, int | str):
        return None
    parts = [by.name, str(by.key_id) if by.key_id else None, session, number]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).digest()


def handover_of(scope: Mapping[str, Any]) -> Handover:
    found = scope.get(HANDOVER)
    return found if isinstance(found, Handover) else Handover()


def _is_result(message: Message) -> bool:
    """Whether it carries the request's result or error; the streams' messages come one in a chunk."""
    body: bytes = message.get("body", b"")
    if message["type"] != "http.response.body" or not body:
        return False
    if body.startswith(_EVENT):
        body = body.partition(b"data: ")[2]
    try:
        said = orjson.loads(body.strip())
    except ValueError:
        return False
    return isinstance(said, dict) and ("result" in said or "error" in said)
