"""A bridge: it hands what an outside system has told us to the question that waits for it, through the callback door.

It is for tools of your own that carry events of a system which cannot post to a callback URL itself, or which signs in
a way of its own. The event is verified where it arrives, at a hook's topic; the bridge proves to the callback door that
it is the bridge, with a secret that both read from ``TAI_BRIDGE_CALLBACK_SECRET``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rejoinder.asks.tickets import PATH
from rejoinder.contract.errors import ConfigurationError, RejoinderError, RunTerminalFailed
from rejoinder.contract.public import public_base
from rejoinder.net.guard import Guard
from rejoinder.net.outbound import Outbound, OutboundError, Reply
from rejoinder.net.targets import AddressRefusedError, target_of
from rejoinder.runs.context import current_delivery, current_run
from rejoinder.tools.ladder import Ladder

HEADER = "X-TAI-Bridge-Secret"
VARIABLE = "TAI_BRIDGE_CALLBACK_SECRET"
BASE = "INTERACTIONS_PUBLIC_BASE_URL"
#: Where an event tells the callback URL of the question that it is about.
CALLBACK_KEY = "tai_callback_url"
LONGEST_BODY = 2_000

_TICKET = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_OVER = frozenset((408, 429))

Status = Literal["answered", "already_answered"]


class CallbackDoorError(RejoinderError):
    """The callback door did not take the answer. ``status`` and ``body`` are what it said; trying again changes nothing."""

    code = "callback-refused"
    status = 409

    def __init__(self, status: int, body: Any) -> None:
        said = body.get("error") if isinstance(body, Mapping) else None
        told = f": {said}" if isinstance(said, str) else ""
        super().__init__(f"the callback door answered {status}{told}"[:LONGEST_BODY])
        self.status = status  # type: ignore[misc]
        self.body = body


class CallbackUnreachableError(RejoinderError):
    """The callback door could not be reached, or was not ready, each time that it was tried."""

    code = "callback-unreachable"
    status = 503


class CallbackUrlError(RejoinderError):
    """This is no callback URL of this deployment, so nothing was sent to it."""

    code = "callback-url-refused"
    status = 409


class UnvouchedError(RunTerminalFailed):
    """This run was not started by a hook on an event whose sender was verified."""


def verified_event() -> dict[str, Any]:
    """The event that this run was started on, as it was kept when a verifier had vouched for its sender. What the run
    was given as arguments has no part in it. Raises UnvouchedError."""
    delivery = current_delivery()
    if delivery is None or delivery.verifier is None:
        raise UnvouchedError()
    if not isinstance(delivery.payload, dict):
        raise UnvouchedError("the event is no JSON object")
    return delivery.payload


def missing(names: Mapping[str, str | None]) -> None:
    """Raises ConfigurationError naming every setting that is not there or empty."""
    lacking = [name for name, value in names.items() if not value]
    if lacking:
        raise ConfigurationError(f"not set in this process: {', '.join(lacking)}")


@dataclass(frozen=True)
class Bridge:
    """The way to this deployment's own callback door. ``base`` is its public address, ``secret`` what the door knows
    the bridge by. Made with ``of_run``, inside a tool."""

    base: str
    secret: str = field(repr=False)
    outbound: Outbound = field(repr=False)
    header: str = HEADER
    ladder: Ladder = field(default_factory=Ladder, repr=False)

    @classmethod
    def of_run(
        cls, *, header: str = HEADER, secret_env: str = VARIABLE, ladder: Ladder | None = None
    ) -> Bridge:
        """Raises ConfigurationError naming what is missing, PublicUrlError where the public address is none."""
        settings = current_run().settings
        base, secret = settings.interactions_public_base_url, os.environ.get(secret_env)
        missing({BASE: base, secret_env: secret})
        assert secret is not None
        outbound = Outbound(Guard.of(settings))
        return cls(public_base(base), secret, outbound, header, ladder or Ladder())

    def ticket_of(self, url: object) -> str:
        """The ticket in a callback URL. The URL was carried by another system: only one that leads to this deployment's
        callback door, and nowhere else, is taken. Raises CallbackUrlError."""
        door = f"{self.base}{PATH}/"
        if not isinstance(url, str):
            raise CallbackUrlError("the event carries no callback URL")
        try:
            same = target_of(url) == target_of(door)
        except AddressRefusedError:
            same = False
        # Its path is compared as it is written: readers of URLs disagree about what else might mean the same.
        path, ticket = url.partition("://")[2].partition("/")[2].rpartition("/")[::2]
        expected = door.partition("://")[2].partition("/")[2].rstrip("/")
        if not same or path != expected or not _TICKET.fullmatch(ticket):
            raise CallbackUrlError(
                f"the event's callback URL does not lead to the callback door at {BASE}, so nothing was sent to it"
            )
        return ticket

    async def answer(self, url: object, payload: Mapping[str, Any]) -> Status:
        """Post ``payload`` as the answer. A question that has its answer already is told apart, and nothing is done twice.

        Raises CallbackUrlError before anything is sent, CallbackDoorError for a verdict of the door, and
        CallbackUnreachableError where it gave none after every attempt."""
        ticket = self.ticket_of(url)
        door = f"{self.base}{PATH}/{ticket}"
        headers = {"content-type": "application/json", self.header: self.secret}
        content = json.dumps(payload, allow_nan=False).encode()

        async def post() -> Reply:
            return await self.outbound.send("POST", door, content=content, headers=headers)

        try:
            reply = await self.ladder.climb(post, passing)
        except AddressRefusedError as error:
            raise CallbackUrlError(
                f"the callback door at {BASE} may not be called: {error.message}"
            ) from None
        except OutboundError as error:
            raise CallbackUnreachableError(
                f"the callback door could not be called: {error.message}"
            ) from None
        if passing(reply):
            raise CallbackUnreachableError(
                f"the callback door answered {reply.status} each of {self.ladder.attempts} times"
            )
        return _verdict(reply, ticket, self.secret)


def passing(reply: Reply) -> bool:
    """Whether this is no verdict: asked again, the other side may say something else."""
    return reply.status >= 500 or reply.status in _OVER


def _verdict(reply: Reply, *hidden: str) -> Status:
    body = read_body(reply)
    if reply.status == 200 and isinstance(body, dict):
        data = body.get("data")
        status = data.get("status") if isinstance(data, dict) else None
        if status == "answered":
            return "answered"
        if status == "already_answered":
            return "already_answered"
    # What answers in the door's place may say back which path it does not know, and errors are kept and shown.
    content = reply.content
    for one in hidden:
        content = content.replace(one.encode(), b"******")
    raise CallbackDoorError(reply.status, read_body(replace(reply, content=content)))


def read_body(reply: Reply) -> Any:
    """The JSON of a reply, or its first characters where it is none."""
    try:
        return json.loads(reply.content)
    except (ValueError, RecursionError):
        return reply.content[:LONGEST_BODY].decode("utf-8", "replace")
