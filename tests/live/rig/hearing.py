"""A listener that keeps what a Gateway told, for tests to wait for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rejoinder.openclaw.client import Silent
from rejoinder.openclaw.connection import Drop
from rejoinder.openclaw.frames import Event
from rejoinder.openclaw.handshake import Hello
from rejoinder.openclaw.sessions import Row
from tests.support import assert_eventually

TERMINAL = frozenset(("final", "aborted", "error"))
Fits = Callable[[Mapping[str, Any]], bool]


class Hearing(Silent):
    """Everything a client heard, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.hellos: list[tuple[Hello, Sequence[Row], bool]] = []
        self.drops: list[Drop] = []
        self.gaps = 0

    def on_hello(self, hello: Hello, sessions: Sequence[Row], rebooted: bool) -> None:
        self.hellos.append((hello, sessions, rebooted))

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def on_gap(self) -> None:
        self.gaps += 1

    def on_drop(self, drop: Drop) -> None:
        self.drops.append(drop)

    def of(self, key: str, name: str | None = None) -> list[Mapping[str, Any]]:
        """The payloads about one session, oldest first."""
        return [
            event.payload
            for event in self.events
            if event.session_key == key and (name is None or event.name == name)
        ]

    async def heard(self, name: str, fits: Fits, within: float = 60) -> Mapping[str, Any]:
        """Until there is such an event; its payload."""

        def found() -> Mapping[str, Any] | None:
            return next((one.payload for one in self.events if one.name == name and fits(one.payload)), None)

        payload = await assert_eventually(found, f"no fitting event {name} came", within)
        assert payload is not None
        return payload

    async def ended(self, run_id: str, within: float = 60) -> Mapping[str, Any]:
        """Until the run's terminal of the chat; its payload."""
        return await self.heard(
            "chat", lambda it: it.get("runId") == run_id and it.get("state") in TERMINAL, within
        )

    async def ended_other(self, key: str, *known: str) -> Mapping[str, Any]:
        """Until another run of the session than these has ended; its payload."""

        def fits(it: Mapping[str, Any]) -> bool:
            return (
                it.get("sessionKey") == key and it.get("runId") not in known and it.get("state") in TERMINAL
            )

        return await self.heard("chat", fits)

    async def hello(self, count: int) -> tuple[Hello, Sequence[Row], bool]:
        """Until it was greeted so many times; the last greeting."""
        await assert_eventually(lambda: len(self.hellos) >= count, "the client was not greeted again", 90)
        return self.hellos[count - 1]
