"""A reply that the Host's own request streams: the run's events are handed to it as it asks for them.

A restart of the Gateway ends the request and not the reply: the stream is left with what it shows, a writer takes the
message on from there, and what comes in between is kept.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterable
from typing import Any

from rejoinder.openwebui.advice import model_advice
from rejoinder.openwebui.emit import Emission, Event, joined
from rejoinder.turns.finish import Final
from rejoinder.turns.reducer import Op


class Inline:
    """Fed by `show`, `end` and `leave`, which return at once; read by `events`, once.

    left: the stream ends before the reply does. closing: it ends, and takes no other end. over: it had the whole reply.
    """

    def __init__(self) -> None:
        self.emission = Emission()
        self.final: Final | None = None
        self.error: str | None = None
        self.over = False
        self.left = False
        self.closing = False
        self._events: list[Event] = []
        self._closed = False
        self._wake = asyncio.Event()

    def show(self, diff: Iterable[Op]) -> None:
        """More of the message."""
        events = self.emission.apply(diff)
        if not self.left:
            self._events += events
            self._wake.set()

    def end(self, final: Final | None) -> None:
        """The message is finished and is exactly this; None for one that says nothing."""
        self.final = final
        self._closed = True
        self._wake.set()

    def leave(self) -> None:
        """The reply goes on elsewhere: the request ends with what it shows."""
        if not self._closed:
            self.left = self._closed = True
            self._wake.set()

    def fail(self, text: str) -> None:
        """The reply cannot go on: show why."""
        self.error = text
        self._closed = True
        self._wake.set()

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """What the Host's stream takes, to the end of the reply."""
        while True:
            events, self._events = joined(self._events), []
            for event in events:
                yield event
            if self._closed and not self._events:
                break
            await self._wake.wait()
            self._wake.clear()
        self.closing = True
        goes_on = self.left and self.final is None
        for event in self._last():
            yield event
        self.over = not goes_on

    def _last(self) -> list[dict[str, Any]]:
        if self.left and self.final is None:
            # The Host would run a call without a result itself. The writer goes on from how it really stands.
            return copy.deepcopy(self.emission).close()
        final = self.final
        error = self.error
        if final is None:
            found = self.emission.close()
        else:
            found, exact = self.emission.finish(final.items)
            response: dict[str, Any] = {} if exact else {"output": list(self.emission.output)}
            if final.usage:
                response["usage"] = final.usage.told
            if not exact:
                found = []
            if response:
                found.append({"type": "response.completed", "response": response})
            error = error or (None if final.silent else final.error)
        if error:
            found = [*found, {"error": model_advice(error)}]
        return found
