"""The steps of a resumable tool's run as they are recorded: each is done once and read from then on."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

from pydantic_core import PydanticSerializationError, to_json

from rejoinder.agents import places
from rejoinder.agents.flows import as_task
from rejoinder.agents.outcomes import FATAL, chain, failure, raise_again, storable
from rejoinder.agents.steps import Drive
from rejoinder.asks.asker import Asker
from rejoinder.contract import pause
from rejoinder.contract.answers import SuspendedInteraction
from rejoinder.contract.errors import LeaseLostError, RunInterruptedError, StepsDivergedError
from rejoinder.contract.questions import Question
from rejoinder.runs.context import RunContext, entering, leaving
from rejoinder.runs.driver import patiently
from rejoinder.store.questions import Questions
from rejoinder.store.steps import Kept, Steps

#: How code that is played again is brought in line with what it did before.
ADVICE = "Bring the code that the run began with back, and retry the run; or discard it"

Act = Callable[[RunContext], Awaitable[Any]]


class Records:
    """What a run has done and asked, by the ids of its places; what it does now is added. ``going`` counts what must
    have ended before the run is parked, and ``moved`` is set whenever that changes."""

    def __init__(self, drive: Drive, steps: Steps, questions: Questions, context: RunContext) -> None:
        self._drive = drive
        self._steps = steps
        self._questions = questions
        self._context = context
        self.kept: dict[UUID, Kept] = {}
        self.asked: dict[UUID, Question] = {}
        self.going = 0
        self.moved = asyncio.Event()
        self._last: dict[str, int] = {}
        self._done: set[UUID] = set()
        self._failures: list[tuple[BaseException, UUID]] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    async def load(self) -> None:
        run_id = self._drive.run_id
        self.kept, asked = await asyncio.gather(self._steps.of_run(run_id), self._questions.of_run(run_id))
        self.asked = {one.id: one for one in asked}
        for kept in self.kept.values():
            branch, number = places.split(kept.name.split(" ", 1)[0])
            self._last[branch] = max(number, self._last.get(branch, 0))

    async def settle(self) -> None:
        """Until all that was begun has come to something."""
        while going := {task for task in self._tasks if not task.done()}:
            await asyncio.wait(going)
        while self.going:
            self.moved.clear()
            await self.moved.wait()

    async def stop(self) -> None:
        """Cancel what is under way: the process stops, or the caller has gone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def reopen(self, error: BaseException) -> None:
        """The steps whose failure ended this attempt are begun anew by the next one, if there is one."""
        causes = set(map(id, chain(error)))
        failed = [identifier for raised, identifier in self._failures if id(raised) in causes]
        if failed:
            run_id, epoch = self._drive.run_id, self._drive.epoch
            await patiently(lambda: self._steps.forget(run_id, epoch, failed))

    # Doing and recording

    async def once(
        self, identifier: UUID, place: str, name: str, act: Act, *, repeatable: bool, given: Any
    ) -> Any:
        """What this place came to, from its record or by doing it now. Raises what it raised."""
        digest = _digest(given)
        kept = self.same(identifier, place, name, digest)
        if kept is not None and kept.state == "done":
            self._done.add(identifier)
            # In turn, as branches were when they began.
            await asyncio.sleep(0)
            return self._came(identifier, kept.outcome, None)
        if kept is None:
            self.no_gap(place, f"does {name}")
        with self.busy():
            self._drive.check()
            work: asyncio.Task[Any] | None = None

            async def traced() -> str:
                nonlocal work
                work = asyncio.create_task(
                    self._do(identifier, place, name, act, repeatable, digest), name=f"step.{name}"
                )
                self._tasks.add(work)
                await asyncio.wait({work})
                return place

            # Its result is in our rows. The graph is told that it was done, for whoever traces it.
            await as_task(f"{name}@{place}", traced)
            if work is None:
                # Recorded by the graph in an attempt whose failure was forgotten since.
                await traced()
            assert work is not None
            outcome, raised = await work
        return (
            outcome if isinstance(outcome, SuspendedInteraction) else self._came(identifier, outcome, raised)
        )

    async def _do(
        self, identifier: UUID, place: str, name: str, act: Act, repeatable: bool, digest: str | None
    ) -> tuple[Any, BaseException | None]:
        try:
            return await self._enter_and_do(identifier, place, name, act, repeatable, digest)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._drive.end(error)
            raise

    async def _enter_and_do(
        self, identifier: UUID, place: str, name: str, act: Act, repeatable: bool, digest: str | None
    ) -> tuple[Any, BaseException | None]:
        run_id, epoch = self._drive.run_id, self._drive.epoch
        step = await patiently(
            lambda: self._steps.enter(identifier, run_id, epoch, f"{place} {name}", repeatable=repeatable)
        )
        if step.status == "fenced":
            raise LeaseLostError("this run has ended, or another worker drives it now")
        if step.status == "interrupted":
            await pause.here("step.interrupted")
            raise RunInterruptedError(
                f"a worker died while the step {name} ran, and that one may not run twice. Look what it had done; a "
                "retry of the run runs it again"
            )
        await pause.here("step.entered")
        asker = self.asker(identifier, f"the step {name} cannot park; ask between the steps")
        if name.startswith("call "):
            asker.cannot_park = self._context.asker.cannot_park
        context = replace(self._context, asker=asker, attempt=step.starts, listen=None, replay=None)
        raised: BaseException | None = None
        token = entering(context)
        try:
            came = await act(context)
            outcome: dict[str, Any] = {"result": None}
            if not isinstance(came, SuspendedInteraction):
                outcome = {"result": storable(came, name)}
        except FATAL:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling() > 0:
                raise
            raised = error
        except GeneratorExit:
            raise
        except BaseException as error:
            raised = error
        finally:
            asker.over = True
            self.counted(asker)
            leaving(token)
        if raised is not None:
            outcome = failure(name, raised, run_id)
        elif isinstance(came, SuspendedInteraction):
            return came, None
        if digest is not None:
            outcome["given"] = digest
        await pause.here("step.returned")
        if not await patiently(
            lambda: self._steps.record_done(identifier, run_id, epoch, step.round, [], outcome)
        ):
            raise LeaseLostError("another worker drives this run now; what this one did was not recorded")
        await pause.here("step.recorded")
        return outcome, raised

    def _came(self, identifier: UUID, outcome: dict[str, Any], raised: BaseException | None) -> Any:
        if "error" not in outcome:
            return outcome["result"]
        error = raise_again(outcome)
        self._failures.append((error, identifier))
        raise error from raised

    def same(self, identifier: UUID, place: str, name: str, digest: str | None) -> Kept | None:
        """The record of this place, where there is one. Raises StepsDivergedError where it is of something else."""
        kept, asked = self.kept.get(identifier), self.asked.get(identifier)
        if asked is not None and asked.to_kind != "run":
            raise self.diverged(place, f"does {name}", f"“{asked.question}”")
        if kept is None:
            return None
        before = kept.name.split(" ", 1)[1]
        if before != name:
            raise self.diverged(place, f"does {name}", before)
        given = (kept.outcome or {}).get("given")
        if kept.state == "done" and digest is not None and given is not None and given != digest:
            raise self.diverged(place, f"does {name} with other arguments", before)
        return kept

    def no_gap(self, place: str, now: str) -> None:
        """What comes after this place was done before, and this was not."""
        branch, number = places.split(place)
        if number < self._last.get(branch, 0):
            raise self.diverged(place, now, "nothing that it still does")

    def diverged(self, place: str, now: str, before: str) -> StepsDivergedError:
        error = StepsDivergedError(
            f"{self._context.tool} now {now} at its place {place}, where it had {before} before. {ADVICE}"
        )
        self._drive.end(error)
        return error

    def look_for_left(self) -> None:
        left = [k.name for i, k in self.kept.items() if k.state == "done" and i not in self._done]
        if left:
            place, name = sorted(left)[0].split(" ", 1)
            raise StepsDivergedError(
                f"{self._context.tool} ended without {name} at its place {place}, which it had done before. {ADVICE}"
            )

    def asker(self, identifier: UUID, cannot_park: str | None) -> Asker:
        """The run as this place asks: its parked question has the place's id."""
        return replace(
            self._context.asker,
            cannot_park=cannot_park,
            name_question=functools.partial(_same_id, identifier),
            horizon=self._drive.horizon,
            suspended=[],
        )

    def counted(self, asker: Asker) -> None:
        run = self._context.asker
        run.ordinal = max(run.ordinal, asker.ordinal)

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """The code does something that must have ended before the run is parked."""
        self.going += 1
        try:
            yield
        finally:
            self.going -= 1
            self.moved.set()


def _same_id(identifier: UUID) -> UUID:
    return identifier


def _digest(given: Any) -> str | None:
    """A short digest of what a step was given; None where that is not JSON, such as a client of something."""
    try:
        return hashlib.sha256(to_json(given)).hexdigest()[:16]
    except (PydanticSerializationError, ValueError, RecursionError):
        return None
