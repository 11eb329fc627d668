"""The frames of the Gateway's protocol 4: what arrives is an event or a response, what is sent is a request.

    {"type": "event", "event", "payload", "seq"?}      seq counts the events of one connection, from 1, without holes
    {"type": "res", "id", "ok", "payload" | "error"}
    {"type": "req", "id", "method", "params"}

Events without `seq` exist (the challenge, and targeted ones of older Gateways).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rejoinder.openclaw.shapes import conformed

PROTOCOL = 4

Payload = Mapping[str, Any]

#: The events, and the fields of answers, that the rules of turns go by. Others name fields alike and mean other things.
RULED = frozenset(("agent", "chat", "session.message", "session.tool", "sessions.changed"))
RULED_ANSWERS = frozenset(("list", "messages", "sessions"))


class FrameError(ValueError):
    """What arrived is no frame of the protocol."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something the Gateway tells. `seq` is None for an event that is not counted."""

    name: str
    payload: Payload
    seq: int | None = None

    @property
    def run_id(self) -> str | None:
        """The run it is about, where the frame names one."""
        return _text(self.payload.get("runId"))

    @property
    def session_key(self) -> str | None:
        """The session it is about, where the frame names one."""
        return _text(self.payload.get("sessionKey"))


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to the request `id`: a payload, or an error `{code, message, details?, retryable?, retryAfterMs?}`."""

    id: str
    ok: bool
    payload: Any = None
    error: Payload = field(default_factory=dict)


def parse(raw: str | bytes) -> tuple[Event | Response | None, dict[str, Any]]:
    """A received message as a frame, and as the object it was. The frame is None for a kind this protocol
    does not know: newer Gateways may send some. Raises FrameError for anything that is no frame at all.
    """
    try:
        frame = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise FrameError("The Gateway sent a message that is not JSON.") from error
    if not isinstance(frame, dict):
        raise FrameError("The Gateway sent a message that is not a JSON object.")
    return read(frame), frame


def read(frame: Mapping[str, Any]) -> Event | Response | None:
    """The frame in an object that was parsed already; None for an unknown kind."""
    kind = frame.get("type")
    if kind == "event":
        name = _text(frame.get("event"))
        if name is None:
            raise FrameError("The Gateway sent an event without a name.")
        seq = frame.get("seq")
        counted = isinstance(seq, int) and not isinstance(seq, bool)
        told = mapping(frame.get("payload"))
        return Event(name, conformed(told) if name in RULED else told, seq if counted else None)
    if kind == "res":
        request = _text(frame.get("id"))
        if request is None:
            raise FrameError("The Gateway sent a response without the id of its request.")
        payload = frame.get("payload")
        if isinstance(payload, Mapping) and not RULED_ANSWERS.isdisjoint(payload):
            payload = conformed(payload)
        return Response(request, frame.get("ok") is True, payload, mapping(frame.get("error")))
    return None


def request(request_id: str, method: str, params: Payload) -> dict[str, Any]:
    """A request frame."""
    return {"type": "req", "id": request_id, "method": method, "params": dict(params)}


def encode(frame: Payload) -> str:
    """A frame as it is sent."""
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":"))


def mapping(value: object) -> Payload:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def rows(value: object) -> list[Payload]:
    """The objects of a list; an empty list for anything else."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
