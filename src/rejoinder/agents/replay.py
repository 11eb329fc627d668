"""Playing a resumable tool's code: what it did before is read from rows, what is new is done and recorded once."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn
from uuid import UUID, uuid5

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from rejoinder.agents import places
from rejoinder.agents.outcomes import FATAL, kept_error, storable
from rejoinder.agents.records import Records
from rejoinder.agents.steps import Drive
from rejoinder.asks.service import Elicited
from rejoinder.contract.answers import AskAnswer, ReplyTo, SuspendedInteraction
from rejoinder.contract.errors import (
    AskArgumentError,
    InteractionCancelledError,
    RunTerminalFailed,
    SuspensionError,
    ToolFailedError,
)
from rejoinder.contract.questions import AskRequest, Question
from rejoinder.observe.logs import get_logger
from rejoinder.runs.approval import approval_of, approval_request, approved_arguments
from rejoinder.runs.calling import invoke
from rejoinder.runs.context import RunContext, entering, leaving
from rejoinder.runs.driver import EscapedError
from rejoinder.runs.nested import NestedCalls
from rejoinder.runs.resumable import MOST_OPERATIONS, Resumable
from rejoinder.store.questions import Questions
from rejoinder.store.steps import Steps

log = get_logger("replay")

#: Turns of the loop that code is given to come to its next step or question before its run is parked.
TURNS = 64
#: Seconds that code has to end after its run was parked. It may be stuck; its run goes on elsewhere.
UNWINDING = 5.0


class Replay:
    """One pass through the code of a resumable tool, for one drive of its run. ``waiting`` is what it waits for
    where it has ``parked``."""

    def __init__(
        self, tool: Resumable, drive: Drive, steps: Steps, questions: Questions, context: RunContext
    ) -> None:
        self._tool = tool
        self._drive = drive
        self._context = context
        self._records = Records(drive, steps, questions, context)
        self._count = 0
        self._over = False
        self._hanging: set[asyncio.Task[Any]] = set()
        self.waiting: dict[UUID, SuspendedInteraction] = {}
        self.parked = False

    async def load(self) -> None:
        await self._records.load()

    # Playing

    async def play(self) -> Any:
        """The tool's result as JSON, or None where it has ``parked``. Raises what the code raised."""
        code = asyncio.create_task(self._play(), name=f"resumable.{self._tool.name}")
        try:
            if await self._parks(code):
                self.parked = True
                return None
            # What the code left behind begins nothing more, and ends what it does.
            self._over = True
            await self._records.settle()
        except asyncio.CancelledError:
            await self._put_away(code)
            raise
        raised = code.exception()
        self._drive.check()
        if raised is not None:
            await self._records.reopen(raised)
            raise raised
        if self.waiting:
            raise SuspensionError(
                f"{self._tool.name} ended while a question of its own was open; await every question that it asks"
            )
        self._records.look_for_left()
        return storable(code.result())

    async def _play(self) -> Any:
        places.begin()
        tool, run = self._tool, self._context
        arguments = run.arguments
        if tool.requires_approval:
            request = approval_request(tool, run, blocks=False)
            approval = approval_of([await self._question(request)])
            assert approval is not None
            arguments = approved_arguments(run, tool, approval)
        try:
            return await tool.play(arguments)
        except asyncio.CancelledError as error:
            if self._over:
                raise
            raise EscapedError() from error
        except (Exception, GeneratorExit):
            raise
        except BaseException as error:
            raise EscapedError() from error

    async def _parks(self, code: asyncio.Task[Any]) -> bool:
        """Whether all that the code goes on for is answers. False where it has ended."""
        while not code.done():
            self._records.moved.clear()
            moved = asyncio.create_task(self._records.moved.wait())
            await asyncio.wait({code, moved}, return_when=asyncio.FIRST_COMPLETED)
            moved.cancel()
            for _ in range(TURNS):
                if code.done() or self._records.going or not self.waiting:
                    break
                # What has just ended may be what the next step waits for.
                await asyncio.sleep(0)
            else:
                await self._put_away(code)
                return True
        return False

    async def _put_away(self, code: asyncio.Task[Any]) -> None:
        self._over = True
        going = {code, *self._hanging}
        for task in going:
            task.cancel()
        _, stuck = await asyncio.wait(going, timeout=UNWINDING)
        if stuck:
            log.warning(
                "code of a parked run does not end", tool=self._tool.name, run_id=str(self._drive.run_id)
            )
        if code.done() and not code.cancelled():
            # What it raised or returned while it was put away means nothing.
            code.exception()

    async def stop(self) -> None:
        """Cancel what is under way: the process stops, or the caller has gone."""
        self._over = True
        for task in self._hanging:
            task.cancel()
        await self._records.stop()

    # What the code does

    async def step(self, name: str, code: Callable[[], Any], returns: Any, given: Any, *, once: bool) -> Any:
        place = self._place()
        identifier = uuid5(self._drive.run_id, place)

        async def act(context: RunContext) -> Any:
            token = entering(replace(context, idempotency_key=f"{self._drive.run_id}/{place}"))
            try:
                result = await invoke(code, {})
                return await result if inspect.isawaitable(result) else result
            finally:
                leaving(token)

        result = await self._records.once(identifier, place, name, act, repeatable=not once, given=given)
        if returns is None or returns is Any or returns is inspect.Signature.empty:
            return result
        return _adapter(returns).validate_python(result)

    async def ask(self, request: AskRequest) -> AskAnswer[Any]:
        if request.mode == "async":
            question = await self._question(request)
            if question.state not in ("answered", "expired"):
                raise InteractionCancelledError()
            return AskAnswer.of(question.state, question.answer, question.reply)
        if request.sensitive:
            raise AskArgumentError(
                "sensitive answers are not kept, so a resumable tool, which finds its answers again, cannot ask for one",
                field="sensitive",
            )

        async def act(context: RunContext) -> Any:
            answer = await context.asks.ask(context.asker, request)
            assert isinstance(answer, AskAnswer)
            return answer.as_json()

        place = self._place()
        identifier = uuid5(self._drive.run_id, place)
        kept = await self._records.once(
            identifier, place, "ask", act, repeatable=True, given=_wording(request)
        )
        reply = kept["reply_to"]
        return AskAnswer(kept["answer"], None if reply is None else ReplyTo(**reply), kept["params"])

    async def elicit(self, request: AskRequest) -> Elicited:
        async def act(context: RunContext) -> Any:
            end = await context.asks.elicit(context.asker, request)
            return [end.action, end.content, end.via]

        place = self._place()
        identifier = uuid5(self._drive.run_id, place)
        kept = await self._records.once(
            identifier, place, "elicit", act, repeatable=True, given=_wording(request)
        )
        return Elicited(*kept)

    async def call(self, name: str, arguments: object, on_failure: str) -> Any:
        nested = self._context.nested
        assert nested is not None
        tool = nested.registered(name)
        place = self._place()
        identifier = uuid5(self._drive.run_id, place)
        title = f"call {name}"
        found = self._records.asked.get(identifier)
        if found is None:
            await self._adopt(identifier, nested)

            async def act(context: RunContext) -> Any:
                child = uuid5(identifier, str(context.attempt))
                return await nested.call(context, name, arguments, on_failure, child_id=child)

            again = tool.idempotent or tool.checkpointed
            came = await self._records.once(
                identifier, place, title, act, repeatable=again, given=[arguments]
            )
            if isinstance(came, SuspendedInteraction):
                await self._hang(came)
            return came
        self._records.same(identifier, place, title, None)
        if found.state == "pending":
            await self._hang(_sentinel(found))
        if found.state != "answered":
            raise InteractionCancelledError("The run that was called is not waited for any more.")
        return found.answer

    async def _adopt(self, identifier: UUID, nested: NestedCalls) -> None:
        """The call may have come to its end, and the worker have died before it recorded that."""
        kept = self._records.kept.get(identifier)
        if kept is None or kept.state == "done":
            return
        child = await nested.ended(uuid5(identifier, str(kept.starts)))
        if child is None:
            return
        outcome = {"result": child.result}
        if child.state != "succeeded":
            error = child.error or {}
            outcome = kept_error(ToolFailedError(error.get("error")))
        self._records.kept[identifier] = replace(kept, state="done", outcome=outcome)

    async def _question(self, request: AskRequest) -> Question:
        """The parked question of this place once it is closed; before that the code stands here."""
        place = self._place()
        identifier = uuid5(self._drive.run_id, place)
        if identifier in self._records.kept:
            raise self._records.diverged(
                place, f"asks “{request.question}”", self._records.kept[identifier].name
            )
        found = self._records.asked.get(identifier)
        if found is None:
            self._records.no_gap(place, f"asks “{request.question}”")
            await self._hang(await self._ask(identifier, request))
        if _asks_else(found, request):
            raise self._records.diverged(place, f"asks “{request.question}”", f"“{found.question}”")
        with self._records.busy():
            # Withdrawn when its run ended, before an operator sent that on again.
            found = await self._drive.ask_anew(found)
        if found.state == "pending":
            await self._hang(_sentinel(found))
        assert found is not None
        await asyncio.sleep(0)
        return found

    async def _ask(self, identifier: UUID, request: AskRequest) -> SuspendedInteraction:
        asker = self._records.asker(identifier, self._context.asker.cannot_park)
        with self._records.busy():
            try:
                asked = await self._context.asks.ask(asker, request)
            except FATAL as error:
                self._drive.end(error)
                raise
            finally:
                self._records.counted(asker)
        assert isinstance(asked, SuspendedInteraction)
        return asked

    async def _hang(self, sentinel: SuspendedInteraction) -> NoReturn:
        """Stand here until the run is parked. The code that plays next finds the answer."""
        self.waiting[sentinel.interaction_id] = sentinel
        task = asyncio.current_task()
        assert task is not None
        self._hanging.add(task)
        self._records.moved.set()
        try:
            await asyncio.get_running_loop().create_future()
            raise AssertionError
        finally:
            if not self._over:
                # Given up by the code itself, as a time-out does: the question stays the run's.
                self._hanging.discard(task)

    def _place(self) -> str:
        if self._over:
            # The code is being put away: nothing that it does now counts.
            raise asyncio.CancelledError
        self._count += 1
        if self._count > MOST_OPERATIONS:
            raise RunTerminalFailed(
                f"a run of a resumable tool has at most {MOST_OPERATIONS} steps, questions and calls"
            )
        return places.here()


def _sentinel(question: Question) -> SuspendedInteraction:
    asks = (question.as_ask(),) if question.to_kind == "caller" else ()
    return SuspendedInteraction(question.id, question.timeout_at, question.tool, asks=asks)


def _asks_else(found: Question, request: AskRequest) -> bool:
    """Whether the question that was put is another one: an answer to that is none to this."""
    if (found.question, found.answer_format, found.to_kind) != (
        request.question,
        request.answer_format,
        request.to,
    ):
        return True
    compared = request.answer_format in ("select", "form")
    return compared and found.format_payload != to_jsonable_python(request.format_payload)


def _wording(request: AskRequest) -> list[Any]:
    return [request.question, request.answer_format]


@functools.lru_cache(maxsize=512)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
