"""Deadlines: sleep until the next one, be woken when an earlier one is recorded, take due rows in small batches.

Every process runs this; the database lets one of them at a time work. A batch is small because it is what an answer
may have to wait for: 250 rows take 5 to 15 ms.
"""

from __future__ import annotations

import asyncio
import math
import time

from rejoinder.contract import pause
from rejoinder.contract.errors import NotReadyError
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics
from rejoinder.store import signals as s
from rejoinder.store.questions import Questions
from rejoinder.store.signals import Signals

BATCH = 250
#: Never sooner than this again: another process may hold the turn.
PAUSE = 0.05

log = get_logger("deadlines")


class Deadlines:
    def __init__(self, questions: Questions, signals: Signals, *, poll: float) -> None:
        self._questions = questions
        self._signals = signals
        self._poll = poll
        self._wake = asyncio.Event()
        self._planned = 0.0
        self._soonest = math.inf
        self._task: asyncio.Task[None] | None = None
        signals.hear(s.DEADLINE, self._heard)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="deadlines")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def look(self) -> None:
        """Look now; for tests that move the clock."""
        self._wake.set()

    def _heard(self, seconds: str) -> None:
        try:
            moment = time.monotonic() + float(seconds)
        except ValueError:
            moment = 0.0
        # Kept too: the look that is under way may have read before this one was recorded.
        self._soonest = min(self._soonest, moment)
        if moment < self._planned:
            self._wake.set()

    async def expire_batch(self) -> int:
        """Close one batch of lapsed questions and tell who waits. Returns how many."""
        closed = await self._questions.expire_due(BATCH)
        if closed:
            await pause.here("expiry.committed")
            metrics.expired.inc(len(closed))
            told = [s.question(one.id) for one in closed] + [
                s.run(one.run_id) for one in closed if one.park_id is not None
            ]
            # Without a resumption too: the end of a run may concern the runs around it.
            jobs = [s.RESUMES] if any(one.park_id is not None for one in closed) else []
            self._signals.tell(*told, *jobs, s.EVENTS)
        return len(closed)

    async def _run(self) -> None:
        while True:
            # Cleared before looking: what is recorded while we look is looked at again.
            self._wake.clear()
            self._soonest = math.inf
            self._planned = -math.inf
            try:
                if await self.expire_batch() >= BATCH:
                    continue
                seconds = await self._questions.seconds_to_next_deadline()
            except NotReadyError:
                seconds = None
            except Exception:
                log.exception("deadlines could not be looked at")
                seconds = None
            sleep = self._poll if seconds is None else min(self._poll, max(seconds, PAUSE))
            sleep = min(sleep, max(self._soonest - time.monotonic(), 0.0))
            self._planned = time.monotonic() + sleep
            try:
                async with asyncio.timeout(sleep):
                    await self._wake.wait()
            except TimeoutError:
                pass
