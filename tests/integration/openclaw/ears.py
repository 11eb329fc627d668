"""What the tests of the client share: a listener that keeps what it heard, and a clock moved by hand."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from rejoinder.openclaw.client import GatewayClient
from rejoinder.openclaw.connection import Drop
from rejoinder.openclaw.errors import Refused
from rejoinder.openclaw.frames import Event
from rejoinder.openclaw.handshake import Access, Hello
from rejoinder.openclaw.sessions import Row
from tests.fake_gateway import (
    TOKEN,
    FakeConnection,
    FakeGateway,
    HandClock,
)
from tests.support import assert_eventually

KEY = "agent:main:chat"


class Ears:
    """A listener that keeps what it heard, in its order."""

    def __init__(self) -> None:
        self.hellos: list[tuple[Hello, list[str], bool]] = []
        self.events: list[Event] = []
        self.gaps = 0
        self.drops: list[Drop] = []
        self.refusals: list[Refused] = []
        self.order: list[str] = []

    def on_hello(self, hello: Hello, sessions: Sequence[Row], rebooted: bool) -> None:
        self.hellos.append((hello, [row.key for row in sessions], rebooted))
        self.order.append("hello")

    def on_event(self, event: Event) -> None:
        self.events.append(event)
        self.order.append(str(event.payload.get("number", event.name)))

    def on_gap(self) -> None:
        self.gaps += 1
        self.order.append("gap")

    def on_drop(self, drop: Drop) -> None:
        self.drops.append(drop)
        self.order.append("drop")

    def on_refused(self, refused: Refused) -> None:
        self.refusals.append(refused)
        self.order.append("refused")

    def numbers(self) -> list[int]:
        return [event.payload["number"] for event in self.events if "number" in event.payload]


@contextlib.asynccontextmanager
async def client_of(
    gateway: FakeGateway, clock: HandClock, ears: Ears | None = None, **access: Any
) -> AsyncIterator[GatewayClient]:
    given = {"url": gateway.url, "token": TOKEN, **access}
    async with GatewayClient(Access(**given), ears, clock=clock) as client:
        yield client


async def hello_of(ears: Ears, count: int = 1) -> None:
    await assert_eventually(lambda: len(ears.hellos) >= count, f"there was no hello number {count}")


async def resting(clock: HandClock, seconds: float) -> None:
    """Wait until the client pauses for so long, then let the time pass."""
    await assert_eventually(lambda: seconds in clock.pauses, f"nobody waits for {seconds} s")
    clock.advance(seconds)


def number(connection: FakeConnection, value: int, run_id: str = "r") -> dict[str, Any]:
    payload = {"runId": run_id, "sessionKey": KEY, "state": "delta", "number": value}
    return connection.tell("chat", payload)
