"""An agent's calls of tools as steps: each begun once, asked once, done once, whoever carries its run on.

LangGraph plays a node's code again from its beginning when its run is resumed, and again for each sibling that is still
waiting. So a call never depends on being played once: it is a row, found by the run, the place in the graph, the call's
id and its arguments. What was done is read from there; what was asked waits there for its answers.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID, uuid4, uuid5

from rejoinder.agents.calls import (
    Outcome,
    Waiting,
    asked_by,
    can_be_asked_anew,
    go_on,
    key,
    names,
    outcome_of,
    same,
    told,
)
from rejoinder.asks.asker import Asker
from rejoinder.asks.horizon import Horizon
from rejoinder.contract import pause
from rejoinder.contract.answers import SuspendedInteraction
from rejoinder.contract.errors import (
    AskArgumentError,
    LeaseLostError,
    NotReadyError,
    ParkRunTakenDownError,
    RunInterruptedError,
    RunTerminalFailed,
    SuspensionError,
)
from rejoinder.contract.questions import Question
from rejoinder.runs.approval import as_approved
from rejoinder.runs.context import RunContext, entering, leaving
from rejoinder.runs.driver import EscapedError, patiently
from rejoinder.runs.tools import Tool
from rejoinder.store.questions import Questions
from rejoinder.store.steps import Step, Steps

#: What ends the whole run, or leaves it to another attempt. Everything else is the model's to know.
FATAL = (
    LeaseLostError,
    NotReadyError,
    ParkRunTakenDownError,
    RunInterruptedError,
    RunTerminalFailed,
    SuspensionError,
)


class Drive:
    """The steps of one run while this process carries it on. ``waiting`` are those that wait for people, by step;
    ``fatal`` is what ends the drive, also where the graph's own code hid it."""

    def __init__(
        self,
        steps: Steps,
        questions: Questions,
        context: RunContext,
        *,
        horizon: Horizon | None,
        cannot_park: str | None,
    ) -> None:
        self._steps = steps
        self._questions = questions
        self._context = context
        self.horizon = horizon
        self._cannot_park = cannot_park
        self._tasks: dict[UUID, asyncio.Task[Outcome | Waiting]] = {}
        self.waiting: dict[UUID, tuple[SuspendedInteraction, ...]] = {}
        self.fatal: BaseException | None = None

    @property
    def run_id(self) -> UUID:
        return self._context.run_id

    @property
    def epoch(self) -> int:
        return self._context.asker.epoch

    async def call(
        self, tool: Tool, arguments: dict[str, Any], place: str, call_id: str | None
    ) -> Outcome | Waiting:
        """One call of a tool. ``place`` is where in the graph it is made; with the call's id it names the step. A call
        without an id, made by code and not by a model's message, could not be found again, so it may not park.

        The step is a task of the drive: a sibling's failure, which cancels this caller, does not tear an effect in two.
        """
        self.check()
        cannot_park = self._cannot_park
        if call_id is None:
            identifier = uuid4()
            cannot_park = cannot_park or f"{tool.name} was called without a tool call's id, so it cannot park"
        else:
            identifier = uuid5(self.run_id, key(place, call_id, tool.name, arguments))
        task = self._tasks.get(identifier)
        if task is None or task.done():
            task = asyncio.create_task(
                self._take(identifier, tool, arguments, cannot_park), name=f"step.{tool.name}"
            )
            self._tasks[identifier] = task
        return await asyncio.shield(task)

    def check(self) -> None:
        """Raises what has ended this drive, if anything has."""
        if self.fatal is not None:
            raise self.fatal

    def end(self, error: BaseException) -> None:
        """Nothing of this drive counts any more: no step begins, no checkpoint is written."""
        self.fatal = self.fatal or error

    async def settle(self) -> None:
        """Until every step that was begun has come to something."""
        try:
            while going := [task for task in self._tasks.values() if not task.done()]:
                await asyncio.wait(going)
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Cancel what is under way: the process stops, or the caller has gone."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _take(
        self, identifier: UUID, tool: Tool, arguments: dict[str, Any], cannot_park: str | None
    ) -> Outcome | Waiting:
        try:
            return await self._do(identifier, tool, arguments, cannot_park)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.end(error)
            raise

    async def _do(
        self, identifier: UUID, tool: Tool, arguments: dict[str, Any], cannot_park: str | None
    ) -> Outcome | Waiting:
        step = await self._enter(identifier, tool, go_on=False)
        tool = await self._as_begun(identifier, tool)
        questions: list[Question] = []
        if step.status == "asked":
            questions = await self._open_again(identifier, step, await self._questions_of(step))
            if any(one.state == "pending" for one in questions):
                return self._wait(
                    identifier, tool, [SuspendedInteraction(q.id, q.timeout_at, tool.name) for q in questions]
                )
            step = await self._enter(identifier, tool, go_on=True)
        self.waiting.pop(identifier, None)
        if step.status == "done":
            return Outcome.of_json(step.outcome)
        await pause.here("step.entered")
        asker = self._asker(identifier, step, cannot_park)
        try:
            if step.round and not questions:
                questions = await self._questions_of(step)
            result = await self._run(identifier, step, tool, arguments, asker, questions)
        except FATAL:
            raise
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if asker.suspended:
                raise SuspensionError(
                    f'{tool.name} asked with mode="async" and then failed: {told(error, self.run_id)}'
                ) from error
            result = Outcome(told(error, self.run_id), failed=True)
        await pause.here("step.returned")
        came = await self._record(identifier, step, tool, asker, result)
        if isinstance(came, Waiting) and step.starts > 1:
            # It may have found questions that are closed by now.
            return await self._do(identifier, tool, arguments, cannot_park)
        return came

    async def _as_begun(self, identifier: UUID, tool: Tool) -> Tool:
        """Of a preset, the version that this step began with."""
        if tool.preset_version is None:
            return tool
        version = tool.preset_version
        begun = await patiently(lambda: self._steps.pin_preset(identifier, version))
        return await tool.of_version(begun)

    async def _enter(self, identifier: UUID, tool: Tool, *, go_on: bool) -> Step:
        step = await patiently(
            lambda: self._steps.enter(
                identifier, self.run_id, self.epoch, tool.name, repeatable=tool.idempotent, go_on=go_on
            )
        )
        if step.status == "fenced":
            raise LeaseLostError("this run has ended, or another worker drives it now")
        if step.status == "interrupted":
            await pause.here("step.interrupted")
            raise RunInterruptedError(
                f"a worker died while {tool.name} ran, and that tool is not marked idempotent, so it was not run "
                "again. Look what it had done; a retry of the run runs it again"
            )
        return step

    def _asker(self, identifier: UUID, step: Step, cannot_park: str | None) -> Asker:
        run = self._context.asker
        return Asker(
            run_id=run.run_id,
            epoch=run.epoch,
            tool=run.tool,
            identity=run.identity,
            owner_process=run.owner_process,
            new_run=None,
            cannot_park=cannot_park,
            name_question=names(identifier, step.round),
            horizon=self.horizon,
            ordinal=run.ordinal,
            park_id=run.park_id,
            writing=run.writing,
        )

    async def _run(
        self,
        identifier: UUID,
        step: Step,
        tool: Tool,
        arguments: dict[str, Any],
        asker: Asker,
        questions: list[Question],
    ) -> Any:
        """The tool's own code, or with answers its continuation; raises what it raises."""
        token = entering(
            replace(
                self._context,
                tool=tool.name,
                arguments=arguments,
                asker=asker,
                attempt=step.starts,
                listen=None,
            )
        )
        try:
            if not questions:
                return await tool.call(tool.check_arguments(arguments))
            if tool.requires_approval:
                # Its first question: an agent may be told to call, and a person to call with something else.
                first = uuid5(identifier, "0.0")
                arguments = as_approved(arguments, (await self._questions.by_ids([first])).values())
            return await go_on(tool, arguments, questions, self.run_id, step.starts)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling() > 0:
                raise
            raise EscapedError() from error
        except (Exception, GeneratorExit):
            raise
        except BaseException as error:
            # Such as sys.exit(): it would end this process and every other run in it.
            raise EscapedError() from error
        finally:
            asker.over = True
            run = self._context.asker
            run.ordinal = max(run.ordinal, asker.ordinal)
            leaving(token)

    async def _record(
        self, identifier: UUID, step: Step, tool: Tool, asker: Asker, result: Any
    ) -> Outcome | Waiting:
        asked = asked_by(tool, asker, result)
        if asked:
            questions = [one.interaction_id for one in asked]
            written = await patiently(
                lambda: self._steps.record_asked(
                    identifier, self.run_id, self.epoch, step.round + 1, questions
                )
            )
        else:
            outcome = result if isinstance(result, Outcome) else outcome_of(result, self.run_id)
            written = await patiently(
                lambda: self._steps.record_done(
                    identifier, self.run_id, self.epoch, step.round, step.question_ids, outcome.as_json()
                )
            )
        if not written:
            raise LeaseLostError("another worker drives this run now; what this one did was not recorded")
        await pause.here("step.recorded")
        return self._wait(identifier, tool, asked) if asked else outcome

    def _wait(self, identifier: UUID, tool: Tool, asked: list[SuspendedInteraction]) -> Waiting:
        self.waiting[identifier] = tuple(asked)
        return Waiting(tuple(asked))

    async def _open_again(self, identifier: UUID, step: Step, questions: list[Question]) -> list[Question]:
        """Ask once more what was withdrawn when this run ended, before an operator sent it on again."""
        asked = [await self.ask_anew(one) for one in questions]
        if asked != questions:
            ids = [one.id for one in asked]
            if not await patiently(
                lambda: self._steps.record_asked(identifier, self.run_id, self.epoch, step.round, ids)
            ):
                raise LeaseLostError("another worker drives this run now")
        return asked

    async def ask_anew(self, question: Question) -> Question:
        """The question itself; where it was withdrawn when its run ended, the one that stands in its place."""
        while can_be_asked_anew(question):
            name = uuid5(question.id, "again")
            found = (await self._questions.by_ids([name])).get(name)
            if found is None:
                asker = replace(self._context.asker, cannot_park=None, name_question=partial(same, name))
                try:
                    await self._context.asks.ask_anew(asker, question)
                except AskArgumentError:
                    # Its deadline has passed.
                    return question
                found = (await self._questions.by_ids([name]))[name]
            question = found
        return question

    async def _questions_of(self, step: Step) -> list[Question]:
        found = await patiently(lambda: self._questions.by_ids(step.question_ids))
        missing = [one for one in step.question_ids if one not in found]
        if missing:
            raise RunTerminalFailed("a question that this run waited for is no longer kept")
        return [found[one] for one in step.question_ids]
