"""What a worker does with a job: enter the run under a new epoch, drive it, write its end - or hand it on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID, uuid4

from rejoinder.asks.asker import Asker
from rejoinder.asks.service import Asks
from rejoinder.contract import pause
from rejoinder.contract.answers import AskAnswer
from rejoinder.contract.deliveries import DOOR as HOOKS_DOOR
from rejoinder.contract.deliveries import Delivery
from rejoinder.contract.errors import (
    ApprovalDeniedError,
    InteractionCancelledError,
    InteractionLimitError,
    LeaseLostError,
    NotReadyError,
    ParkRunTakenDownError,
    RejoinderError,
    RunInterruptedError,
    RunTerminalFailed,
    StepFailedError,
    StepsDivergedError,
    ToolInternalError,
    ToolNotFoundError,
)
from rejoinder.contract.identity import NO_AUTH, Identity
from rejoinder.contract.questions import Question
from rejoinder.contract.settings import Settings
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics
from rejoinder.observe.tracing import span
from rejoinder.runs.agent import Conductor
from rejoinder.runs.approval import approval_of, as_approved
from rejoinder.runs.driver import (
    Driver,
    code_of,
    goes_on,
    may_begin_again,
    patiently,
    public_error,
    stored_error,
)
from rejoinder.runs.internal import Doorkeeper
from rejoinder.runs.manifest import Registry
from rejoinder.runs.nested import Chains, NestedCalls
from rejoinder.runs.outcome import RunResult
from rejoinder.runs.service import why_not_park
from rejoinder.runs.tools import Tool
from rejoinder.store import signals as s
from rejoinder.store.deliveries import Deliveries
from rejoinder.store.nested import Nested
from rejoinder.store.processes import ThisProcess
from rejoinder.store.questions import Questions
from rejoinder.store.runs import Run, Runs
from rejoinder.store.signals import Signals

log = get_logger("jobs")

#: How often a job comes back while no worker here knows its tool, before the run is held.
UNKNOWN_TOOL_ATTEMPTS = 20


class Keys(Protocol):
    """Access, as runs need it."""

    async def identity_of_key(self, key_id: UUID) -> Identity | None:
        """The identity of a stored key, or None where it was revoked or has expired."""
        ...


class Later(Exception):
    """The job must come back after ``delay``."""

    def __init__(self, delay: timedelta, reason: str) -> None:
        super().__init__(reason)
        self.delay = delay
        self.reason = reason


class Jobs:
    def __init__(
        self,
        runs: Runs,
        questions: Questions,
        asks: Asks,
        registry: Registry,
        signals: Signals,
        process: ThisProcess,
        keys: Keys,
        settings: Settings,
        conductor: Conductor | None = None,
        nested: Nested | None = None,
        doorkeeper: Doorkeeper | None = None,
    ) -> None:
        self._runs = runs
        self._questions = questions
        self._asks = asks
        self._registry = registry
        self._signals = signals
        self._process = process
        self._keys = keys
        self._settings = settings
        self._driver = Driver(runs, asks, signals, settings)
        self._conductor = conductor
        self._doorkeeper = doorkeeper or Doorkeeper()
        self._chains: Chains | None = None
        if nested is not None:
            self._driver.nested = NestedCalls(
                self._driver, runs, nested, asks, registry, signals, settings, conductor
            )
            self._chains = Chains(nested, signals)
        self._driving: set[asyncio.Task[RunResult]] = set()
        #: What hooks start runs on.
        self.deliveries: Deliveries | None = None

    async def run(self, run_id: UUID, attempts: int) -> None:
        """A background run's first phase. Raises Later."""
        run = await self._runs.by_id(run_id)
        if run is None or run.state != "running" or run.phase != "start":
            return
        tool = await self._tool(run, attempts)
        identity = await self._identity(run)
        await pause.here("run.picked")
        epoch = await self._enter(run, None)
        if epoch is None:
            return
        await pause.here("run.entered")
        await self._go(run, epoch, tool, identity, None)

    async def resume(self, park_id: UUID, attempts: int) -> None:
        """A parked run goes on with its answers. Raises Later."""
        run = await self._runs.of_park(park_id)
        if run is None or run.state not in ("parked", "running"):
            return
        tool = await self._tool(run, attempts)
        questions, identity = await asyncio.gather(self._questions.of_park(park_id), self._identity(run))
        await pause.here("resume.picked")
        epoch = await self._enter(run, park_id)
        if epoch is None:
            return
        metrics.resumed.inc()
        await pause.here("resume.entered")
        await self._go(run, epoch, tool, identity, questions)

    async def settle(self, run_id: UUID, attempts: int) -> None:
        """What became of a run is carried to the runs around it."""
        if self._chains is not None:
            await self._chains.settle(run_id)

    async def stop(self, drain: float) -> None:
        """Let running code end by itself for ``drain`` seconds, then cancel it."""
        if self._driving:
            await asyncio.wait(set(self._driving), timeout=drain)
        for task in set(self._driving):
            task.cancel()

    async def _tool(self, run: Run, attempts: int) -> Tool | None:
        try:
            return await patiently(lambda: self._registry.of_run(run, self._runs.pin_preset))
        except ToolNotFoundError:
            if attempts < UNKNOWN_TOOL_ATTEMPTS:
                raise Later(self._back_off(attempts), "no such tool on this worker") from None
            return None

    async def _enter(self, run: Run, park_id: UUID | None) -> int | None:
        settings = self._settings
        if run.owner_process is not None and not self._process.may_judge:
            # Its owner may be alive and have been cut off from the database as this process was.
            raise Later(timedelta(seconds=settings.rejoinder_stale_seconds), "its worker may be alive")
        entry = uuid4()
        status, epoch = await patiently(
            lambda: self._runs.enter(
                run.id,
                park_id,
                self._process.id,
                entry,
                settings.rejoinder_run_max_starts,
                settings.rejoinder_stale_seconds,
            )
        )
        if status == "entered":
            return epoch
        if status == "busy":
            raise Later(timedelta(seconds=settings.rejoinder_stale_seconds), "its worker is alive")
        if status != "over":
            log.warning("run held", run_id=str(run.id), tool=run.tool, reason=status)
            self._signals.tell(s.EVENTS, s.run(run.id))
        return None

    async def _go(
        self,
        run: Run,
        epoch: int,
        tool: Tool | None,
        identity: Identity | None,
        questions: list[Question] | None,
    ) -> None:
        refusal: RejoinderError | None = None
        if tool is None:
            refusal = ToolNotFoundError(
                "no worker knows this tool; add it to the manifest, then retry the run"
            )
        elif identity is None:
            refusal = RunTerminalFailed("the key that this run acts under was revoked or has expired")
        else:
            refusal = await self._refused_at_door(run, tool, identity)
        if refusal is not None:
            await self._finish_failed(run, epoch, refusal, held=tool is None)
            return
        assert tool is not None
        assert identity is not None
        asker = Asker(
            run_id=run.id,
            epoch=epoch,
            tool=run.tool,
            identity=identity,
            owner_process=self._process.id,
            new_run=None,
            cannot_park=why_not_park(tool),
        )
        arguments = run.arguments or {}
        code = self._code(run, tool, questions)
        delivery = await self._delivery(run)
        with span(
            "rejoinder.run" if questions is None else "rejoinder.resume",
            attributes={"rejoinder.tool": run.tool, "rejoinder.run_id": str(run.id)},
            linked_to=run.trace,
        ):
            driving = asyncio.create_task(
                self._driver.drive(
                    tool,
                    asker,
                    arguments,
                    code,
                    attempt=_attempt(run, questions is not None),
                    delivery=delivery,
                    returned="run.returned" if questions is None else "resume.returned",
                )
            )
            self._driving.add(driving)
            driving.add_done_callback(self._driving.discard)
            try:
                result = await driving
            except asyncio.CancelledError:
                await self._after_cancel(run, epoch, tool, driving)
                return
            except LeaseLostError:
                log.warning("another worker drives this run", run_id=str(run.id), tool=run.tool)
                raise self._not_ours() from None
            except Exception as error:
                await self._after_error(run, epoch, tool, error, resumed=questions is not None)
                return
        if result.parked:
            return
        finished, withdrawn = await patiently(
            lambda: self._runs.finish(run.id, epoch, "succeeded", result=result.result)
        )
        await pause.here("run.finished")
        self._told(run, "succeeded", finished, withdrawn)

    async def _refused_at_door(self, run: Run, tool: Tool, identity: Identity) -> RejoinderError | None:
        """It was let in when it was recorded, maybe by another version of the manifest or with other grants."""
        try:
            await patiently(lambda: self._doorkeeper.admit(tool, door=run.door, by=identity, run_id=run.id))
        except ToolInternalError as error:
            return error
        return None

    async def _delivery(self, run: Run) -> Delivery | None:
        deliveries = self.deliveries
        if deliveries is None or run.door != HOOKS_DOOR:
            return None
        return await patiently(lambda: deliveries.of_run(run.id))

    def _code(self, run: Run, tool: Tool, questions: list[Question] | None) -> Callable[[], Awaitable[Any]]:
        if tool.checkpointed:
            # It finds the answers itself, each where it was asked.
            return code_of(tool, run.arguments or {}, self._conductor)
        if questions is None:
            return lambda: tool.call(tool.check_arguments(run.arguments or {}))
        given = _given(run, tool, questions)

        async def go_on() -> Any:
            if tool.requires_approval and given["approval"] is None:
                earlier = await self._questions.of_run(run.id)
                given["arguments"] = tool.with_defaults(as_approved(run.arguments or {}, earlier))
            return await tool.go_on(given)

        return go_on

    def _repeatable(self, tool: Tool) -> bool:
        return tool.idempotent and goes_on(tool, self._conductor)

    async def _after_error(
        self, run: Run, epoch: int, tool: Tool, error: Exception, *, resumed: bool
    ) -> None:
        public = public_error(error, run.id)
        # A park taken down under a run that still goes on is its process' fault: it was taken for dead meanwhile.
        author_fault = not isinstance(error, RejoinderError) or isinstance(
            error, ParkRunTakenDownError | InteractionLimitError | StepFailedError
        )
        starts = _attempt(run, resumed)
        again = author_fault and self._repeatable(tool)
        # What goes on from a checkpoint loses nothing by an absence of the database.
        again = again or (tool.checkpointed and isinstance(error, NotReadyError))
        if again and goes_on(tool, self._conductor) and starts < self._settings.rejoinder_run_max_starts:
            if not await patiently(lambda: self._runs.release(run.id, epoch, stored_error(public))):
                raise self._not_ours()
            raise Later(self._back_off(starts - 1), "the tool raised an error")
        # After an answer, an unknown amount may have been done with it: an operator looks before it is done again.
        meant = isinstance(error, RunTerminalFailed | InteractionCancelledError | ApprovalDeniedError)
        held = (resumed and not meant) or isinstance(error, RunInterruptedError | StepsDivergedError)
        await self._finish_failed(run, epoch, public, held=held)

    async def _after_cancel(self, run: Run, epoch: int, tool: Tool, driving: asyncio.Task[RunResult]) -> None:
        # Where the queue is torn down around us the code still runs: it must have ended before its end is written.
        driving.cancel()
        await asyncio.wait({driving})
        if may_begin_again(tool, self._conductor):
            await asyncio.shield(
                self._runs.release(run.id, epoch, {"code": "worker-stopped", "error": "Its worker stopped."})
            )
            raise Later(timedelta(0), "the worker stopped")
        error = RejoinderError("its worker was stopped while it ran")
        await asyncio.shield(self._finish_failed(run, epoch, error, held=True, code="worker-stopped"))

    async def _finish_failed(
        self, run: Run, epoch: int, error: RejoinderError, *, held: bool, code: str | None = None
    ) -> None:
        body = stored_error(error, code=code)
        finished, withdrawn = await patiently(
            lambda: self._runs.finish(run.id, epoch, "failed", held=held, error=body)
        )
        await pause.here("run.finished")
        self._told(run, "failed", finished, withdrawn)

    def _not_ours(self) -> Later:
        # The queue would complete this job although another worker holds it by now, and if that one died then, nobody
        # would take its run over. The job comes back instead, and finds what has become of the run.
        return Later(
            timedelta(seconds=self._settings.rejoinder_stale_seconds), "another worker drives this run"
        )

    def _told(self, run: Run, state: str, finished: bool, withdrawn: list[UUID]) -> None:
        if not finished:
            metrics.fenced.inc()
            log.warning("another worker drives this run; its end was not written", run_id=str(run.id))
            raise self._not_ours()
        metrics.runs.labels(state).inc()
        # Its end may concern the runs around it.
        self._signals.tell(s.EVENTS, s.RESUMES, s.run(run.id), *(s.question(one) for one in withdrawn))
        if run.door == HOOKS_DOOR and state != "succeeded":
            self._signals.tell(s.HOOKS)

    async def _identity(self, run: Run) -> Identity | None:
        """The asker's identity as it stands now; its key may have been revoked since."""
        if run.key_id is None:
            if run.identity == NO_AUTH and self._settings.access_control_enable:
                # Started while the gate was off: nobody vouches for it now.
                return None
            return Identity(name=run.identity, grants=frozenset(("read", "write", "admin")))
        identity = await self._keys.identity_of_key(run.key_id)
        return identity if identity is not None and identity.name == run.identity else None

    def _back_off(self, attempts: int) -> timedelta:
        settings = self._settings
        seconds = settings.rejoinder_run_retry_base_seconds * 2 ** min(attempts, 20)
        return timedelta(seconds=min(seconds, settings.rejoinder_run_retry_cap_seconds))


def _attempt(run: Run, resumed: bool) -> int:
    """1 for the first time that this phase's code is entered, as the run was read before it was entered."""
    return run.starts + 1 if not resumed or run.state == "running" else 1


def _given(run: Run, tool: Tool, questions: list[Question]) -> dict[str, Any]:
    answers = {q.id: AskAnswer.of(q.state, q.answer, q.reply) for q in questions}
    first = questions[0].id
    return {
        "interaction_id": first,
        "ask_result": answers[first],
        "answers": answers,
        "arguments": tool.with_defaults(run.arguments or {}),
        "run_id": run.id,
        "attempt": _attempt(run, True),
        "approval": approval_of(questions),
    }
