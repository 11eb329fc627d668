"""A caller comes back to a parked run: what it is asked, its answers, and what the run came to then."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rejoinder.asks.judging import checked_answer
from rejoinder.asks.service import Asks
from rejoinder.contract.answers import SuspendedInteraction
from rejoinder.contract.errors import (
    InteractionClosedError,
    InteractionNotFoundError,
    ParkableRunFailedError,
    ParkedEntryGoneError,
    VisitRequestError,
)
from rejoinder.contract.identity import Identity
from rejoinder.contract.questions import Question
from rejoinder.runs.outcome import RunResult
from rejoinder.runs.service import RunService
from rejoinder.store import signals as s
from rejoinder.store.nested import Chain, Nested
from rejoinder.store.runs import Run
from rejoinder.store.signals import Signals


@dataclass(frozen=True, slots=True)
class Standing:
    """A run, and what its caller is asked by it and by the runs that it waits for."""

    run: Run
    questions: list[Question]

    def asks(self) -> list[dict[str, Any]]:
        return [one.as_ask().as_json() for one in self.questions]

    def told(self) -> dict[str, Any]:
        """What its caller is told while it is asked something: the sentinel of that, the run's id and the asks."""
        asks = tuple(one.as_ask() for one in self.questions)
        ids = tuple(one.interaction_id for one in asks)
        deadline = min(one.expiry_at for one in asks)
        sentinel = SuspendedInteraction(ids[0], deadline, self.run.tool, ids, asks)
        return sentinel.as_json() | {"run_id": str(self.run.id), "asks": self.asks()}


class Watch:
    """``look`` first, then ``wait``, then ``look`` again: what changes in between is not missed."""

    def __init__(
        self, run_id: UUID, nested: Nested, waiting: dict[str, set[asyncio.Event]], poll: float
    ) -> None:
        self._run_id = run_id
        self._nested = nested
        self._waiting = waiting
        self._poll = poll
        self._woken = asyncio.Event()
        self._watched: set[str] = set()

    async def look(self) -> Chain:
        while True:
            self._woken.clear()
            chain = await self._nested.chain(self._run_id)
            fresh = {str(one) for one in chain.runs} - self._watched
            for key in fresh:
                self._waiting[key].add(self._woken)
            self._watched |= fresh
            # Those that are watched from now on may have changed before they were.
            if not fresh:
                return chain

    async def wait(self, seconds: float) -> None:
        """Until something may have changed, at most so many seconds."""
        try:
            # Not wait_for: on Python 3.11 it loses a cancellation that comes together with the event.
            async with asyncio.timeout(min(seconds, self._poll)):
                await self._woken.wait()
        except TimeoutError:
            pass

    def end(self) -> None:
        for key in self._watched:
            self._waiting[key].discard(self._woken)
            if not self._waiting[key]:
                del self._waiting[key]


class Visits:
    def __init__(
        self, runs: RunService, asks: Asks, nested: Nested, signals: Signals, *, poll: float
    ) -> None:
        self._runs = runs
        self._asks = asks
        self._nested = nested
        self._poll = poll
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        signals.hear(s.RUN, self._heard)

    async def look(self, run_id: UUID, *, by: Identity) -> Standing:
        """Raises RunNotFoundError, and ForbiddenError where a restricted identity asks for another's run."""
        run = await self._runs.get(run_id, by=by)
        asked = await self._nested.asks(run_id) if run.state == "parked" else []
        return Standing(run, asked)

    async def resume(
        self, run_id: UUID, answers: Mapping[UUID, Any], *, by: Identity, via: str, seconds: float
    ) -> RunResult:
        """Answer what the run asks its caller, then wait until it needs somebody again or has ended, at most so many
        seconds; being cancelled stops the waiting only.

        Every id is looked at before anything is changed. Raises VisitRequestError (an id is not asked by this run),
        ParkedEntryGoneError (it is no longer open), AnswerMismatchError, WrongAudienceError (somebody else called
        the run), and ParkableRunFailedError where the run went on and failed."""
        standing = await self.look(run_id, by=by)
        for identifier, value in await self._checked(standing, answers, by):
            try:
                await self._asks.answer(identifier, value, by=by, via=via, as_caller=True)
            except (InteractionClosedError, InteractionNotFoundError) as error:
                raise ParkedEntryGoneError(f"{identifier}: {error.message}") from error
        return await self.outcome(run_id, by=by, seconds=seconds)

    async def outcome(self, run_id: UUID, *, by: Identity, seconds: float) -> RunResult:
        """What the run has come to, once nothing of it goes on by itself, or after so many seconds: ``parked`` then
        says that it is not at its end. Raises ParkableRunFailedError."""
        deadline = time.monotonic() + seconds
        with self.watching(run_id) as watch:
            while True:
                chain = await watch.look()
                left = deadline - time.monotonic()
                if not chain.active or left <= 0:
                    return self._told(await self.look(run_id, by=by))
                await watch.wait(left)

    @contextmanager
    def watching(self, run_id: UUID) -> Iterator[Watch]:
        """Look at a run and those that it waits for, and wait until something may have changed there."""
        watch = Watch(run_id, self._nested, self._waiting, self._poll)
        try:
            yield watch
        finally:
            watch.end()

    async def _checked(
        self, standing: Standing, answers: Mapping[UUID, Any], by: Identity
    ) -> list[tuple[UUID, Any]]:
        """The answers in the order in which they are given: first those that may turn out to be too late."""
        if not answers:
            raise VisitRequestError(
                "give an answer to at least one thing that the run asks", rule="no-answer", field="answers"
            )
        asked = {one.id: one for one in standing.questions}
        late: list[tuple[UUID, Any]] = []
        for identifier, value in answers.items():
            if identifier in asked:
                checked_answer(asked[identifier], value)
            elif await self._was_asked(identifier, standing.run.id, by):
                # Closed. The same answer once more is no fault: its first reply may have been lost.
                late.append((identifier, value))
            else:
                raise VisitRequestError(
                    f"this run does not ask {identifier}; it asks {_listed(asked)}",
                    rule="unknown-entry",
                    field=f"answers.{identifier}",
                )
        return late + [(one, value) for one, value in answers.items() if one in asked]

    async def _was_asked(self, identifier: UUID, run_id: UUID, by: Identity) -> bool:
        try:
            question = await self._asks.get_asked(identifier, by=by)
        except InteractionNotFoundError:
            return False
        return await self._nested.is_above(run_id, question.run_id)

    def _told(self, standing: Standing) -> RunResult:
        run = standing.run
        if run.state == "succeeded":
            return RunResult(run.id, "none" if run.result is None else "result", run.result)
        if run.state not in ("running", "parked"):
            told = (run.error or {}).get("error", f"The run ended as {run.state}.")
            raise ParkableRunFailedError(str(told))
        if not standing.questions:
            return RunResult(run.id, "parked", {"run_id": str(run.id), "status": run.state})
        return RunResult(run.id, "asks", standing.told())

    def _heard(self, identifier: str) -> None:
        for event in self._waiting.get(identifier, ()):
            event.set()


def _listed(identifiers: Iterable[UUID]) -> str:
    return ", ".join(sorted(str(one) for one in identifiers)) or "nothing now"
