"""Whether the world reaches the callback door: a ticket of no question is sent on the way that answers take.

A dropped rule of an ingress or a wrong upstream answers 404, as a ticket does that is over. Only a door with this
deployment's own key can tell the proof that is sealed in the canary, so the two are never taken for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from rejoinder.asks.tickets import PATH, TicketOffice
from rejoinder.contract.errors import RejoinderError
from rejoinder.net.outbound import Outbound, Reply


@dataclass(frozen=True, slots=True)
class Route:
    """``what`` is a sentence."""

    up: bool
    what: str


async def check_route(office: TicketOffice, outbound: Outbound, base: str) -> Route:
    """Call the callback door from outside, both ways. ``base`` is the deployment's public address."""
    ticket, proof = await office.make_canary()
    url = f"{base}{PATH}/{ticket}"
    for method in ("GET", "POST"):
        try:
            reply = await outbound.send(method, url, content=b"" if method == "POST" else None)
        except RejoinderError as error:
            return Route(
                False, f"{method} {PATH}/... at the public address was not answered. {error.message}"
            )
        if not _tells(reply, proof):
            return Route(
                False,
                f"{method} {PATH}/... at the public address was answered with {reply.status}, but not by a door of this "
                "deployment.",
            )
    return Route(True, f"Callbacks at the public address reach a door of this deployment ({PATH}/...).")


def _tells(reply: Reply, proof: str) -> bool:
    if reply.status != 200:
        return False
    try:
        body = orjson.loads(reply.content)
        return bool(body["data"]["canary"] == proof)
    except (ValueError, KeyError, TypeError):
        return False
