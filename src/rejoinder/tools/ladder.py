"""Trying again: how often, after how long, and when the other side says how long."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from rejoinder.net.outbound import OutboundError, Reply

#: The longest Retry-After, in seconds, that is waited for. The flood control of a public door names at most a minute.
PATIENCE = 90.0


@dataclass(frozen=True)
class Ladder:
    """``attempts`` in all; before the n-th repetition ``first`` * 2^(n-1) seconds pass, and up to a tenth more or less,
    so that those who were refused together do not come back together."""

    attempts: int = 5
    first: float = 0.5
    spread: float = 0.1
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    """At least 0 and less than 1."""
    now: Callable[[], float] = time.time
    """Seconds since 1970, for a Retry-After that names a moment."""

    async def climb(self, act: Callable[[], Awaitable[Reply]], passing: Callable[[Reply], bool]) -> Reply:
        """The first reply that is not ``passing``, or the last one. Raises OutboundError where the last attempt brought
        none, and at once what else ``act`` raises."""
        for attempt in range(1, self.attempts + 1):
            reply: Reply | None = None
            try:
                reply = await act()
            except OutboundError:
                if attempt == self.attempts:
                    raise
            if reply is not None and (attempt == self.attempts or not passing(reply)):
                return reply
            await self.sleep(self.pause(attempt, reply))
        raise AssertionError("a ladder has at least one attempt")

    def pause(self, attempt: int, reply: Reply | None) -> float:
        """Seconds to wait after this attempt."""
        if reply is not None and reply.status == 429:
            asked = self._asked(reply.headers.get("retry-after", ""))
            if asked is not None and 0 <= asked <= PATIENCE:
                return asked
        computed: float = self.first * 2 ** (attempt - 1)
        return computed * (1 + self.spread * (2 * self.chance() - 1))

    def _asked(self, header: str) -> float | None:
        if header.isascii() and header.isdigit():
            return float(header)
        try:
            return max(0.0, parsedate_to_datetime(header).timestamp() - self.now())
        except (ValueError, TypeError, OverflowError):
            return None
