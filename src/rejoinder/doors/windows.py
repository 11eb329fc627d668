"""Counters of fixed windows, counted here at once and in the database a moment later, for the algorithms of ``limits``.

A request waits for no statement. What this process let in is added to the rows of all processes in the background, one
statement at a time, and what the others let in comes back with it. So a limit holds for all together but for what
arrives at several of them in the same few milliseconds; and while the database is away, each process keeps the limit
by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

from limits.aio.storage import Storage

from rejoinder.contract.errors import NotReadyError
from rejoinder.observe.logs import get_logger
from rejoinder.store.flood import Hits

log = get_logger("flood")

#: Windows that one process remembers. The rows know the others: forgetting one costs an address at most a window.
MAX_WINDOWS = 100_000
BATCH = 500
SWEEP_SECONDS = 60.0


@dataclass(slots=True)
class _Window:
    """``known`` is what the row held, ``unsent`` what was let in here since, ``sent`` what is on its way to the row."""

    ends: float
    known: int = 0
    unsent: int = 0
    sent: int = 0

    @property
    def hits(self) -> int:
        return self.known + self.unsent + self.sent


class Windows(Storage):
    """A window begins at a multiple of its length, so that every process means the same one."""

    STORAGE_SCHEME = None

    def __init__(self, hits: Hits, *, now: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._hits = hits
        self._now = now
        self._windows: dict[str, _Window] = {}
        self._dirty: dict[str, _Window] = {}
        self._sending: asyncio.Task[None] | None = None
        self._sweep_at = 0.0

    @property
    def base_exceptions(self) -> type[Exception]:
        return NotReadyError

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        window = self._current(key)
        if window is None:
            window = self._windows[key] = _Window((self._now() // expiry + 1) * expiry)
        window.unsent += amount
        self._dirty[key] = window
        self._make_room()
        if self._sending is None:
            self._sending = asyncio.create_task(self._send(), name="flood.send")
        return window.hits

    async def get(self, key: str) -> int:
        window = self._current(key)
        return 0 if window is None else window.hits

    async def get_expiry(self, key: str) -> float:
        window = self._current(key)
        return self._now() if window is None else window.ends

    async def check(self) -> bool:
        return True

    async def reset(self) -> int | None:
        count = len(self._windows)
        self._windows.clear()
        self._dirty.clear()
        return count

    async def clear(self, key: str) -> None:
        self._windows.pop(key, None)
        self._dirty.pop(key, None)

    async def settled(self) -> None:
        """Until what was counted so far is in the rows, or the database is found away."""
        while self._sending is not None:
            await asyncio.wait({self._sending})

    def _current(self, key: str) -> _Window | None:
        window = self._windows.get(key)
        return window if window is not None and window.ends > self._now() else None

    def _make_room(self) -> None:
        now = self._now()
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_SECONDS
            self._windows = {key: window for key, window in self._windows.items() if window.ends > now}
        for known in (self._windows, self._dirty):
            while len(known) > MAX_WINDOWS:
                del known[next(iter(known))]

    async def _send(self) -> None:
        try:
            while self._dirty:
                await self._send_some()
        except NotReadyError:
            pass  # counted here alone until the next request
        except Exception:
            log.exception("requests to public doors could not be counted for all processes")
        finally:
            self._sending = None

    async def _send_some(self) -> None:
        batch = {_row(key, window): window for key, window in islice(self._dirty.items(), BATCH)}
        for key in list(islice(self._dirty, BATCH)):
            del self._dirty[key]
        for window in batch.values():
            window.sent, window.unsent = window.unsent, 0
        try:
            found = await self._hits.add([(row, window.sent, window.ends) for row, window in batch.items()])
        except BaseException:
            for window in batch.values():
                window.known, window.sent = window.known + window.sent, 0
            raise
        for row, window in batch.items():
            window.known, window.sent = found[row], 0


def _row(key: str, window: _Window) -> bytes:
    # The address itself is in no table.
    return blake2b(f"{key}@{window.ends:.0f}".encode(), digest_size=16).digest()
