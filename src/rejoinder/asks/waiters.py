"""Blocked callers: a future each, woken by a signal, re-read together, with a slow poll as the floor.

A waiter registers before its question is recorded, so that no answer can fall between the record and the wait.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

from rejoinder.contract.errors import NotReadyError
from rejoinder.observe.logs import get_logger
from rejoinder.store.questions import Outcome, Questions
from rejoinder.store.signals import QUESTION, Signals

log = get_logger("waiters")


class Waiters:
    def __init__(self, questions: Questions, signals: Signals, *, poll: float) -> None:
        self._questions = questions
        self._poll = poll
        self._futures: dict[UUID, asyncio.Future[Outcome]] = {}
        self._changed: set[UUID] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        signals.hear(QUESTION, self._heard)
        signals.on_connect(self._reread_all)

    def __len__(self) -> int:
        return len(self._futures)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="waiters")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        # Nobody would wake them any more. Their questions were withdrawn with this process.
        for future in self._futures.values():
            if not future.done():
                future.set_exception(NotReadyError("this process is stopping; the question was withdrawn"))

    def expect(self, identifier: UUID) -> asyncio.Future[Outcome]:
        """Register before recording. Await the future; always ``forget`` afterwards."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._futures[identifier] = future
        return future

    def forget(self, identifier: UUID) -> None:
        self._futures.pop(identifier, None)
        self._changed.discard(identifier)

    def look(self, identifier: UUID) -> None:
        """Re-read this one soon, if it is waited for."""
        if identifier in self._futures:
            self._changed.add(identifier)
            self._wake.set()

    def _heard(self, text: str) -> None:
        try:
            self.look(UUID(text))
        except ValueError:
            log.warning("signal is not an id")

    async def _reread_all(self) -> None:
        self._changed.update(self._futures)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                # Not asyncio.wait_for: in Python 3.11 it swallows a cancellation that meets the wake, and a loop
                # like this one would then never stop.
                async with asyncio.timeout(self._poll):
                    await self._wake.wait()
            except TimeoutError:
                self._changed.update(self._futures)
            self._wake.clear()
            changed, self._changed = self._changed, set()
            if not changed:
                continue
            try:
                outcomes = await self._questions.outcomes(list(changed))
            except NotReadyError:
                # Read again when the connection is back, or at the next poll.
                self._changed |= changed & self._futures.keys()
                continue
            except Exception:
                # One statement that failed must not end the waiting of everybody; the next poll reads again.
                log.exception("outcomes could not be read")
                self._changed |= changed & self._futures.keys()
                continue
            for outcome in outcomes:
                future = self._futures.get(outcome.id)
                if future is not None and not future.done():
                    future.set_result(outcome)
