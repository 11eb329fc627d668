"""Runs: called over a connection, or started in the background; listed, retried, discarded."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from rejoinder.asks.asker import Asker
from rejoinder.asks.service import Asks
from rejoinder.contract.errors import (
    ForbiddenError,
    NotReadyError,
    RunCapacityError,
    RunConflictError,
    RunNotFoundError,
)
from rejoinder.contract.identity import Identity
from rejoinder.contract.settings import Settings
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics
from rejoinder.observe.tracing import span, stored_context
from rejoinder.runs.agent import Agent, Conductor, Listener
from rejoinder.runs.driver import (
    Driver,
    code_of,
    goes_on,
    may_begin_again,
    patiently,
    public_error,
    refuse_undurable,
    stored_error,
)
from rejoinder.runs.internal import Doorkeeper
from rejoinder.runs.manifest import Registry
from rejoinder.runs.nested import NestedCalls
from rejoinder.runs.outcome import RunResult
from rejoinder.runs.tools import Tool
from rejoinder.store import signals as s
from rejoinder.store.nested import Nested
from rejoinder.store.processes import ThisProcess
from rejoinder.store.runs import Claim, Run, Runs, RunState
from rejoinder.store.signals import Signals

log = get_logger("runs")

BACKGROUND_DOOR = "tool-runs"


class RunService:
    def __init__(
        self,
        runs: Runs,
        asks: Asks,
        registry: Registry,
        signals: Signals,
        process: ThisProcess,
        settings: Settings,
        conductor: Conductor | None = None,
        nested: Nested | None = None,
        doorkeeper: Doorkeeper | None = None,
    ) -> None:
        self._runs = runs
        self._asks = asks
        self.registry = registry
        self._signals = signals
        self._process = process
        self._settings = settings
        self._driver = Driver(runs, asks, signals, settings)
        self._conductor = conductor
        self._doorkeeper = doorkeeper or Doorkeeper()
        if nested is not None:
            self._driver.nested = NestedCalls(
                self._driver, runs, nested, asks, registry, signals, settings, conductor
            )
        self._ends: list[tuple[UUID, int, RunState, dict[str, Any] | None]] = []
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._writer = asyncio.create_task(self._write_ends(), name="runs.ends")

    async def stop(self) -> None:
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        try:
            await self._flush_ends()
        except NotReadyError:
            log.warning("the ends of some runs were not written; they are found lost")

    async def admitted(self, tool_name: str, *, by: Identity, door: str) -> Tool:
        """The tool, where it may be run from this door. Raises ToolNotFoundError, ToolInternalError."""
        tool = self.registry.get(tool_name)
        await self._doorkeeper.admit(tool, door=door, by=by)
        return tool

    async def schedulable(self, tool_name: str, *, by: Identity, door: str) -> Tool:
        """The tool, where a worker may run it later as ``by``. Raises as ``admitted`` does, and SuspensionError."""
        tool = await self.admitted(tool_name, by=by, door=door)
        refuse_undurable(tool, self._conductor)
        return tool

    async def call(
        self,
        tool_name: str,
        arguments: object,
        *,
        by: Identity,
        door: str,
        traceparent: str | None = None,
        run_id: UUID | None = None,
        keep_result: bool = False,
        claimed: bool = False,
        listen: Listener | None = None,
    ) -> RunResult:
        """Run a tool here and wait for it. Cancelling withdraws what it asks.

        ``run_id`` is the run's id where the caller must know it before the end; ``keep_result`` stores the result of
        a run that asked, for a caller that may have gone away by then; ``claimed``: ``claim`` has recorded it already, and who else follows it hears
        what it asks. ``listen`` is told what an agent does.
        Raises ToolNotFoundError, ToolInternalError, ToolArgumentError, ToolFailedError, and what ``ask`` raises."""
        tool = await self.admitted(tool_name, by=by, door=door)
        given = tool.check_arguments(arguments)
        refuse_undurable(tool, self._conductor)
        assert isinstance(arguments, dict)
        run_id = run_id or uuid4()
        parent = {"traceparent": traceparent} if traceparent else None
        with span("rejoinder.run", attributes={"rejoinder.tool": tool.name}, parent=parent):
            asker = Asker(
                run_id=run_id,
                epoch=1,
                tool=tool.name,
                identity=by,
                owner_process=self._process.id,
                new_run=None
                if claimed
                else {
                    "arguments": arguments,
                    "door": door,
                    "key_id": str(by.key_id) if by.key_id else None,
                    "idempotent": tool.idempotent,
                    "trace": stored_context(),
                },
                cannot_park=why_not_park(tool),
                followed=run_id if claimed else None,
                blocks=True,
            )
            if tool.checkpointed and self._conductor is not None and not claimed:
                await self._begin(tool, asker, arguments)
            state: RunState = "succeeded"
            error: dict[str, Any] | None = None
            value: Any = None
            parked = False
            try:
                code = code_of(tool, given, self._conductor)
                result = await self._driver.drive(tool, asker, arguments, code, listen=listen)
                parked = result.parked
                value = result.result
                return result
            except asyncio.CancelledError:
                state, error = "cancelled", {"code": "caller-gone", "error": "The caller went away."}
                await self._end_now(asker, state, error)
                parked = True  # it is written already
                raise
            except Exception as fault:
                public = public_error(fault, run_id)
                state, error = "failed", stored_error(public)
                raise public from fault
            finally:
                metrics.runs.labels(state).inc()
                # A run that never asked has no row: its line in the request log is its record.
                if not asker.has_asked or parked:
                    pass
                elif asker.writing:
                    # Left behind by the code: recorded after the end, it would stay open with nobody to wait for it.
                    await self._end_now(asker, state, error, value if keep_result else None)
                elif keep_result:
                    await self._keep(asker, state, value, error)
                else:
                    self._ends.append((run_id, asker.epoch, state, error))
                    self._wake.set()

    async def claim(
        self,
        tool_name: str,
        arguments: dict[str, Any],
        *,
        by: Identity,
        door: str,
        digest: bytes,
        run_id: UUID,
        keep: timedelta,
        tell_loss: timedelta,
        traceparent: str | None = None,
    ) -> Claim:
        """Record a run for ``call(claimed=True)`` to drive, or find the one that this call is already; see
        ``Runs.claim``. Raises ToolNotFoundError, ToolInternalError, ToolArgumentError and NotReadyError; nothing has
        begun then, or, where the connection broke in the middle, the same ``run_id`` finds it."""
        tool = await self.admitted(tool_name, by=by, door=door)
        tool.check_arguments(arguments)
        refuse_undurable(tool, self._conductor)
        return await self._runs.claim(
            digest,
            run_id,
            tool=tool.name,
            arguments=arguments,
            door=door,
            identity=by.name,
            key_id=by.key_id,
            owner=self._process.id,
            idempotent=may_begin_again(tool, self._conductor),
            checkpointed=tool.checkpointed and goes_on(tool, self._conductor),
            trace=traceparent,
            keep=keep,
            tell_loss=tell_loss,
        )

    async def start_background(
        self,
        tool_name: str,
        arguments: object,
        *,
        by: Identity,
        traceparent: str | None = None,
        subject: str | None = None,
    ) -> UUID:
        """Record a run for a worker and return its id. ``subject`` is what it is about. Raises as ``call`` does for its
        arguments, and RunCapacityError."""
        tool = await self.admitted(tool_name, by=by, door=BACKGROUND_DOOR)
        tool.check_arguments(arguments)
        refuse_undurable(tool, self._conductor)
        assert isinstance(arguments, dict)
        going, workers = await self._runs.going(self._settings.rejoinder_stale_seconds)
        cap = self._settings.tai_tool_runs_max_concurrent_runs * max(1, workers)
        if going >= cap:
            raise RunCapacityError(f"{going} background runs are going, which is the limit; try again later")
        run_id = uuid4()
        parent = {"traceparent": traceparent} if traceparent else None
        with span("rejoinder.start", attributes={"rejoinder.tool": tool.name}, parent=parent):
            await self._runs.start(
                run_id,
                tool=tool.name,
                arguments=arguments,
                door=BACKGROUND_DOOR,
                identity=by.name,
                key_id=by.key_id,
                idempotent=may_begin_again(tool, self._conductor),
                trace=stored_context(),
                checkpointed=tool.checkpointed and goes_on(tool, self._conductor),
                subject=subject,
                preset_version=tool.preset_version,
            )
        self._signals.tell(s.STARTS, s.EVENTS)
        return run_id

    async def _begin(self, tool: Tool, asker: Asker, arguments: dict[str, Any]) -> None:
        """Record the run before its code begins: what that does is written under it, step by step."""
        assert asker.new_run is not None
        new = asker.new_run
        await self._runs.begin(
            asker.run_id,
            self._process.id,
            tool=tool.name,
            arguments=arguments,
            door=new["door"],
            identity=asker.identity.name,
            key_id=asker.identity.key_id,
            idempotent=goes_on(tool, self._conductor),
            trace=new["trace"],
        )
        asker.new_run = None

    async def get(self, run_id: UUID, *, by: Identity) -> Run:
        """Raises RunNotFoundError, and ForbiddenError where a restricted identity asks for another's run."""
        run = await self._runs.by_id(run_id)
        if run is None:
            raise RunNotFoundError()
        if by.restricted and run.identity != by.name:
            raise ForbiddenError("This run is another identity's.")
        return run

    async def newest(
        self,
        *,
        by: Identity,
        tool: str | None = None,
        state: str | None = None,
        held: bool | None = None,
        subject: str | None = None,
        limit: int | None = None,
    ) -> list[Run]:
        cap = self._settings.tai_tool_runs_recent_runs_limit
        return await self._runs.newest(
            tool=tool,
            identity=by.name if by.restricted else None,
            state=state,
            held=held,
            subject=subject,
            limit=min(limit or cap, 500),
        )

    async def retry(self, run_id: UUID, *, by: Identity) -> None:
        """Send a held run to the queue once more. Raises RunNotFoundError, RunConflictError."""
        await self.get(run_id, by=by)
        status = await self._runs.retry(run_id, by.name)
        if status == "unknown":
            raise RunNotFoundError()
        if status == "conflict":
            raise RunConflictError("The run is not held, so there is nothing to retry.")
        self._signals.tell(s.STARTS, s.RESUMES, s.EVENTS, s.run(run_id))

    async def discard(self, run_id: UUID, *, by: Identity) -> None:
        """Take a held run off the operator's list; it stays as it ended."""
        await self.get(run_id, by=by)
        if not await self._runs.discard(run_id, by.name):
            raise RunConflictError("The run is not held, so there is nothing to discard.")

    async def _keep(self, asker: Asker, state: RunState, result: Any, error: dict[str, Any] | None) -> None:
        _, withdrawn = await patiently(
            lambda: self._runs.finish(asker.run_id, asker.epoch, state, result=result, error=error)
        )
        self._signals.tell(s.run(asker.run_id), s.EVENTS, *(s.question(one) for one in withdrawn))

    async def _end_now(
        self, asker: Asker, state: RunState, error: dict[str, Any] | None, result: Any = None
    ) -> None:
        """End the run at once, after the record of a question that may be under way."""
        if not asker.has_asked:
            return

        async def end() -> None:
            await asker.written()
            _, withdrawn = await self._runs.finish(
                asker.run_id, asker.epoch, state, result=result, error=error
            )
            self._signals.tell(s.EVENTS, *(s.question(one) for one in withdrawn))

        await self._asks.finally_(end)

    async def _write_ends(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._flush_ends()
            except NotReadyError:
                await asyncio.sleep(0.2)
                self._wake.set()
            except Exception:
                log.exception("the ends of some runs were not written; they are tried again")
                await asyncio.sleep(1)
                self._wake.set()

    async def _flush_ends(self) -> None:
        ends, self._ends = self._ends, []
        if not ends:
            return
        try:
            withdrawn = await self._runs.finish_many(ends)
        except Exception:
            self._ends = ends + self._ends
            raise
        if withdrawn:
            self._signals.tell(s.EVENTS, *(s.question(one) for one in withdrawn))


def why_not_park(tool: Tool) -> str | None:
    """Why a run of this tool cannot be parked, or None."""
    if isinstance(tool, Agent):
        return f"the code of the agent {tool.name} cannot park by itself; ask in one of its tools"
    return None if tool.requires_approval else tool.why_not_park()
