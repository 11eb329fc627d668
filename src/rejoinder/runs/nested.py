"""Runs that call runs: ``call_tool``, and what the end of the one means for the other.

A called run is a run of its own, with its caller's identity. While its code runs here it is awaited like a function.
Where it parks, its caller waits for it as a member of its own park (``store/migrations/0005_callers.sql``), and goes on
with its result.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from rejoinder.asks.asker import Asker
from rejoinder.asks.service import Asks
from rejoinder.contract import pause
from rejoinder.contract.answers import CallerAsk, SuspendedInteraction
from rejoinder.contract.errors import (
    AskArgumentError,
    LeaseLostError,
    RunTerminalFailed,
    SuspensionError,
    ToolArgumentError,
    ToolInternalError,
)
from rejoinder.contract.identity import Identity
from rejoinder.contract.settings import Settings
from rejoinder.observe.metrics import metrics
from rejoinder.observe.tracing import span, stored_context
from rejoinder.runs.agent import Conductor
from rejoinder.runs.context import RunContext, current_run
from rejoinder.runs.outcome import RunResult
from rejoinder.runs.tools import Tool
from rejoinder.store import signals as s
from rejoinder.store.nested import Nested
from rejoinder.store.runs import Run, Runs, RunState
from rejoinder.store.signals import Signals

if TYPE_CHECKING:
    from rejoinder.runs.driver import Driver
    from rejoinder.runs.manifest import Registry

#: Runs above each other. More is a tool that calls itself for ever.
DEEPEST = 32


async def call_tool(name: str, arguments: dict[str, Any] | None = None, *, on_failure: str = "kill") -> Any:
    """Run another exposed tool, from inside a tool, as a run of its own; returns its result.

    In a resumable tool it returns the result also where that run parks first. Elsewhere it then returns a ``SuspendedInteraction``: return it, as one that ``ask`` gave, and the
    continuation is called with the run's result as the answer. Its ``asks`` are what the called run asks you, its
    caller: answer them with ``resume_parked`` at any time, or leave them to whoever called this run.
    ``on_failure`` says what it means that the called run fails once it was parked: ``"kill"`` ends this run too,
    ``"resume"`` gives the continuation ``{"tai42:run_killed": {"run_id", "status", "error"}}`` as the answer.

    Raises ToolNotFoundError, ToolInternalError, ToolArgumentError, and what the called run raises: ToolFailedError for
    an author's error.
    """
    run = current_run()
    if run.nested is None:
        raise LeaseLostError("this run cannot call others")
    if asyncio.get_running_loop() is not run.loop:
        called = asyncio.run_coroutine_threadsafe(call_tool(name, arguments, on_failure=on_failure), run.loop)
        return await asyncio.wrap_future(called)
    if run.replay is not None:
        return await run.replay.call(name, {} if arguments is None else arguments, on_failure)
    return await run.nested.call(run, name, {} if arguments is None else arguments, on_failure)


class NestedCalls:
    def __init__(
        self,
        driver: Driver,
        runs: Runs,
        nested: Nested,
        asks: Asks,
        registry: Registry,
        signals: Signals,
        settings: Settings,
        conductor: Conductor | None,
    ) -> None:
        self._driver = driver
        self._runs = runs
        self._nested = nested
        self._asks = asks
        self._registry = registry
        self._signals = signals
        self._settings = settings
        self._conductor = conductor

    def registered(self, name: str) -> Tool:
        """Raises ToolNotFoundError."""
        return self._registry.get(name)

    async def call(
        self,
        parent: RunContext,
        name: str,
        arguments: object,
        on_failure: str,
        *,
        child_id: UUID | None = None,
    ) -> Any:
        """As ``call_tool``, for the run of this context. ``child_id`` is the called run's id, where it is not to be a
        random one."""
        from rejoinder.runs.driver import code_of, refuse_undurable
        from rejoinder.runs.service import why_not_park

        if on_failure not in ("kill", "resume"):
            raise AskArgumentError('on_failure must be "kill" or "resume"', field="on_failure")
        tool = self._registry.get(name)
        if tool.internal:
            # Another tool's arguments are as good as a stranger's: they may be a model's.
            raise ToolInternalError(field="name")
        given = tool.check_arguments(arguments)
        if not isinstance(arguments, dict):
            raise ToolArgumentError("arguments must be an object", field="arguments")
        refuse_undurable(tool, self._conductor)
        above = parent.asker
        identifier = above.name_question()
        if above.finds_again and (found := await self._nested.waits(identifier)) is not None:
            # This code is played again: it called then, and waits for that run.
            assert found.nested_run_id is not None
            return await self._suspended(above, identifier, found.nested_run_id, found.timeout_at)
        child = Asker(
            run_id=child_id or uuid4(),
            epoch=1,
            tool=tool.name,
            identity=parent.identity,
            owner_process=above.owner_process,
            new_run=None,
            cannot_park=why_not_park(tool) or _why_not_above(above),
            blocks=above.blocks,
            followed=above.followed,
        )
        with span("rejoinder.run", attributes={"rejoinder.tool": tool.name}):
            await self._start(above, child, arguments, tool)
            try:
                code = code_of(tool, given, self._conductor)
                result = await self._driver.drive(tool, child, arguments, code)
            except asyncio.CancelledError:
                gone = {"code": "caller-gone", "error": "The run that called it gave it up."}
                await self._asks.finally_(lambda: self._finish(child, "cancelled", error=gone))
                raise
            except Exception as fault:
                from rejoinder.runs.driver import public_error, stored_error

                public = public_error(fault, child.run_id)
                await self._finish(child, "failed", error=stored_error(public))
                raise public from fault
            if result.parked:
                if (why := _why_not_above(above)) is not None:
                    # An agent, which learns only here that it has to wait. The end of this run takes it along.
                    raise SuspensionError(why)
                await pause.here("nested.parked")
                deadline = await self._wait(above, child, identifier, on_failure)
                return await self._suspended(
                    above, identifier, child.run_id, min(result.expiry_at or deadline, deadline)
                )
            await self._finish(child, "succeeded", result=result.result)
            return result.result

    async def ended(self, run_id: UUID) -> Run | None:
        """A called run, where it has ended for good."""
        run = await self._runs.by_id(run_id)
        return run if run is not None and run.state in ("succeeded", "failed") and not run.held else None

    async def asked(self, by: Identity, limit: int) -> list[CallerAsk]:
        """What the runs that act as this identity ask their caller."""
        return [one.as_ask() for one in await self._nested.asks_of(by.name, limit)]

    async def outcome(self, run_id: UUID, sentinel: SuspendedInteraction) -> RunResult:
        """What the caller of a parked run is told: what it is asked, where it is."""
        asks = tuple(one.as_ask() for one in await self._nested.asks(run_id))
        told = replace(sentinel, asks=asks).as_json()
        if not asks:
            return RunResult(run_id, "parked", told, sentinel.expiry_at)
        shown = told | {"run_id": str(run_id), "asks": [one.as_json() for one in asks]}
        return RunResult(run_id, "asks", shown, sentinel.expiry_at)

    async def _start(self, above: Asker, child: Asker, arguments: dict[str, Any], tool: Tool) -> None:
        from rejoinder.runs.driver import goes_on, may_begin_again

        if above.over:
            raise LeaseLostError("this run has ended; what it left behind can call nothing more")
        # Counted as a question is: from here on the calling run may have a row, and its end is written.
        above.ordinal += 1
        starting = asyncio.create_task(
            self._nested.start(
                child.run_id,
                above.reference(),
                tool=child.tool,
                arguments=arguments,
                idempotent=may_begin_again(tool, self._conductor),
                checkpointed=tool.checkpointed and goes_on(tool, self._conductor),
                key_id=above.identity.key_id,
                trace=stored_context(),
                deepest=DEEPEST,
            )
        )
        above.writing.add(starting)
        starting.add_done_callback(above.writing.discard)
        try:
            status = await asyncio.shield(starting)
        except asyncio.CancelledError:

            async def give_up() -> None:
                await asyncio.wait({starting})
                gone = {"code": "caller-gone", "error": "The run that called it gave it up."}
                await self._finish(child, "cancelled", error=gone)

            await self._asks.finally_(give_up)
            raise
        if status == "fenced":
            raise LeaseLostError(
                "this run has ended, or another worker drives it now; it can call nothing more"
            )
        above.new_run = None
        if status == "deep":
            raise RunTerminalFailed(f"runs called each other {DEEPEST} deep, which is the most")

    async def _wait(self, above: Asker, child: Asker, identifier: UUID, on_failure: str) -> datetime:
        """Make the wait a member of the calling run's park; returns when it lapses."""
        if above.park_id is None:
            above.park_id = uuid4()
        horizon = self._settings.tai_agents_chained_park_horizon_cap_hours * 3600
        ordinal, above.ordinal = above.ordinal, above.ordinal + 1
        waiting = asyncio.create_task(
            self._nested.wait(
                identifier,
                above.reference(),
                child.run_id,
                park_id=above.park_id,
                ordinal=ordinal,
                group_id=str(child.run_id),
                question=f"Waits for its run of {child.tool}.",
                on_failure=on_failure,
                horizon=horizon,
            )
        )
        above.writing.add(waiting)
        waiting.add_done_callback(above.writing.discard)
        # Cancelled in the middle, the calling run ends, and its end takes the called one along.
        recorded = await asyncio.shield(waiting)
        if recorded.status != "recorded":
            raise LeaseLostError(
                "this run has ended, or another worker drives it now; it can wait for nothing more"
            )
        # It may have ended already: then the wait was recorded together with the job that ends it.
        self._signals.tell(s.EVENTS, s.RESUMES)
        return recorded.timeout_at

    async def _suspended(
        self, above: Asker, identifier: UUID, run_id: UUID, deadline: datetime
    ) -> SuspendedInteraction:
        asks = tuple(one.as_ask() for one in await self._nested.asks(run_id))
        sentinel = SuspendedInteraction(identifier, deadline, above.tool, asks=asks)
        above.suspended.append(sentinel)
        return sentinel

    async def _finish(
        self, child: Asker, state: RunState, *, result: Any = None, error: dict[str, Any] | None = None
    ) -> None:
        from rejoinder.runs.driver import patiently

        await child.written()
        finished, withdrawn = await patiently(
            lambda: self._runs.finish(child.run_id, child.epoch, state, result=result, error=error)
        )
        if finished:
            metrics.runs.labels(state).inc()
        self._signals.tell(s.EVENTS, s.run(child.run_id), *(s.question(one) for one in withdrawn))


def _why_not_above(above: Asker) -> str | None:
    """A run cannot park where the one that waits for it cannot."""
    if above.cannot_park is None:
        return None
    return f"{above.tool}, which called this run, cannot wait for it: {above.cannot_park}"


class Chains:
    """Carries what became of a run to the runs around it."""

    def __init__(self, nested: Nested, signals: Signals) -> None:
        self._nested = nested
        self._signals = signals

    async def settle(self, run_id: UUID) -> None:
        while steps := await self._nested.settle(run_id):
            await pause.here("chain.settled")
            told = [s.run(one.id) for one in steps if one.what == "run"]
            told += [s.question(one.id) for one in steps if one.what == "question"]
            # Each step may have given the next run of the chain a job of its own.
            self._signals.tell(*told, s.EVENTS, s.RESUMES)
