"""Tool calls that outlive the request they came in.

An MCP client gives a call about a minute and then goes away; a person may take longer. So each call runs in a task
of its own. A request holds on to it for a while and lets go: with its result, with word that it is still going, or
because the client went away. The same call by the same caller holds on to the same run again, so that a client that
lost patience never runs a tool twice; so do two identical calls at the same time.

This is the seam for clients that can be asked, or that know tasks: they would hold on to the same ``Call``, answer
its questions through ``Asks.answer``, and read its end here.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID, uuid4

from rejoinder.contract.errors import ForbiddenError, NotReadyError, RejoinderError, RunCapacityError
from rejoinder.contract.identity import Identity
from rejoinder.node import Node
from rejoinder.observe.logs import get_logger
from rejoinder.store import signals as s
from rejoinder.store.runs import Run

log = get_logger("mcp")

DOOR = "mcp"
#: Calls that are going at once in one process.
MOST_GOING = 2_000
#: Results that nobody has fetched: how many, and for how many seconds. The store keeps those of runs that asked longer.
MOST_KEPT = 1_000
KEEP_SECONDS = 3_600.0
#: A loss older than this is not worth telling.
TELL_LOSS_WITHIN = timedelta(days=1)

Key = tuple[str, UUID | None, str, bytes]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended. ``value`` is its result, its sentinel (parked), or the problem (error)."""

    run_id: UUID
    kind: Literal["result", "none", "parked", "error"]
    value: Any


@dataclass(slots=True, eq=False)
class Call:
    """One detached call. ``lost_run`` is an earlier run of the very same call that ended with its process."""

    key: Key
    tool: str
    identity: str
    run_id: UUID
    lost_run: UUID | None = None
    ended_at: float | None = None
    task: asyncio.Task[Ended] = field(init=False)


class Calls:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._calls: dict[Key, Call] = {}
        self._watched: dict[UUID, set[asyncio.Event]] = defaultdict(set)
        self._stopping = False
        #: How many requests hold on to a call or a run now.
        self.held = 0
        node.signals.hear(s.RUN, self._heard)

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self, tool: str, arguments: dict[str, Any], *, by: Identity, traceparent: str | None) -> Call:
        """The call that is going already for this caller, tool and arguments, or a new one.

        Raises ToolNotFoundError, ToolArgumentError and RunCapacityError; nothing has begun then."""
        if self._stopping:
            raise NotReadyError("This server is stopping; call again.")
        self._node.registry.get(tool).check_arguments(arguments)
        key = (by.name, by.key_id, tool, _digest(arguments))
        self._forget_old()
        call = self._calls.get(key)
        if call is not None and not _was_told_lost(call):
            return call
        if sum(1 for one in self._calls.values() if one.ended_at is None) >= MOST_GOING:
            raise RunCapacityError("Too many tool calls are going; try again later.")
        call = Call(key, tool, by.name, uuid4())
        self._calls[key] = call
        call.task = asyncio.create_task(self._run(call, arguments, by, traceparent), name=f"mcp.{tool}")
        return call

    async def hold(
        self, call: Call, seconds: float, tell: Callable[[], Awaitable[None]], every: float
    ) -> Ended | None:
        """Wait for the call's end for so many seconds, and ``tell`` that it goes on from time to time. None: it is
        still going. Being cancelled lets go of the call and does not touch it."""
        # That a process died is not notified by run: whoever comes anew makes us look anew.
        self._wake(call.run_id)
        ended = await self._hold(call.task, seconds, tell, every)
        if ended is not None and self._calls.get(call.key) is call:
            # It is told: the next call with these arguments means a new run.
            del self._calls[call.key]
        return ended

    async def check(
        self, run_id: UUID, seconds: float, tell: Callable[[], Awaitable[None]], every: float, *, by: Identity
    ) -> Ended | None:
        """The end of a run by its id: of a call held here, or of any run in the store. None: it is still going.
        Raises RunNotFoundError, and ForbiddenError where a restricted identity asks for another's run."""
        call = next((one for one in self._calls.values() if one.run_id == run_id), None)
        if call is not None:
            if by.restricted and call.identity != by.name:
                raise ForbiddenError("This run is another identity's.")
            return await self.hold(call, seconds, tell, every)
        await self._node.run_service.get(run_id, by=by)
        watching = asyncio.create_task(self._watch(run_id), name="mcp.watch")
        try:
            return await self._hold(watching, seconds, tell, every)
        finally:
            watching.cancel()

    async def stop(self) -> None:
        """End what is going. Who holds on is told; what was asked is withdrawn."""
        self._stopping = True
        going = [call.task for call in self._calls.values() if call.ended_at is None]
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)
        self._calls.clear()

    # Inside

    async def _run(
        self, call: Call, arguments: dict[str, Any], by: Identity, traceparent: str | None
    ) -> Ended:
        try:
            before = await self._node.runs.same_call(
                tool=call.tool, door=DOOR, identity=by.name, key_id=by.key_id, arguments=arguments
            )
            if before is not None and before.state == "running" and before.phase == "start":
                # Another process of this deployment runs it for the same caller.
                call.run_id = before.id
                return await self._watch(before.id)
            if before is not None and _was_lost(before):
                call.lost_run = before.id
            result = await self._node.run_service.call(
                call.tool,
                arguments,
                by=by,
                door=DOOR,
                traceparent=traceparent,
                run_id=call.run_id,
                keep_result=True,
            )
            return Ended(call.run_id, result.kind, result.result)
        except RejoinderError as error:
            return Ended(call.run_id, "error", error.as_problem())
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            problem = NotReadyError("This server is stopping. What the call asked was withdrawn; call again.")
            return Ended(call.run_id, "error", problem.as_problem())
        except Exception:
            log.exception("a call failed", run_id=str(call.run_id), tool=call.tool)
            return Ended(call.run_id, "error", internal_problem(call.run_id))
        finally:
            call.ended_at = time.monotonic()

    async def _watch(self, run_id: UUID) -> Ended:
        """Wait for the end of a run that this process does not drive. A notification is the quick way, reading
        again now and then the sure one."""
        woken = asyncio.Event()
        self._watched[run_id].add(woken)
        try:
            while True:
                woken.clear()
                try:
                    run = await self._node.runs.by_id(run_id)
                    if run is None or run.state not in ("running", "parked"):
                        return _ended(run_id, run, self._node.settings.tai_tool_runs_result_ttl_seconds)
                except NotReadyError:
                    log.warning("the database is away; the run is read again", run_id=str(run_id))
                try:
                    # Not wait_for: on Python 3.11 it loses a cancellation that comes together with the event.
                    async with asyncio.timeout(self._node.settings.rejoinder_poll_seconds):
                        await woken.wait()
                except TimeoutError:
                    pass
        finally:
            self._watched[run_id].discard(woken)
            if not self._watched[run_id]:
                del self._watched[run_id]

    async def _hold(
        self, task: asyncio.Task[Ended], seconds: float, tell: Callable[[], Awaitable[None]], every: float
    ) -> Ended | None:
        self.held += 1
        try:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + seconds
            # The first word goes out early: until then some clients have seen no byte at all.
            pause = min(1.0, every)
            while True:
                # asyncio.wait, not await: a cancelled request must not cancel the call.
                done, _ = await asyncio.wait({task}, timeout=max(0.0, min(pause, deadline - loop.time())))
                if done:
                    return task.result()
                if loop.time() >= deadline:
                    return None
                await tell()
                pause = every
        finally:
            self.held -= 1

    def _heard(self, text: str) -> None:
        try:
            self._wake(UUID(text))
        except ValueError:
            log.warning("signal is not an id")

    def _wake(self, run_id: UUID) -> None:
        for woken in self._watched.get(run_id, ()):
            woken.set()

    def _forget_old(self) -> None:
        """Drop results that nobody came for."""
        kept = [(one.ended_at, one.key) for one in self._calls.values() if one.ended_at is not None]
        kept.sort(key=lambda pair: pair[0])
        too_old = time.monotonic() - KEEP_SECONDS
        for i, (ended_at, key) in enumerate(kept):
            if ended_at < too_old or len(kept) - i > MOST_KEPT:
                del self._calls[key]


def _digest(arguments: dict[str, Any]) -> bytes:
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).digest()


def _was_told_lost(call: Call) -> bool:
    """Whether the run that this call waited for was lost with another process: the next call is then a new run."""
    if call.ended_at is None or not call.task.done() or call.task.cancelled():
        return False
    ended = call.task.result()
    return ended.kind == "error" and ended.value.get("code") == "run-lost"


def _was_lost(run: Run) -> bool:
    """Whether the run ended because its process did, lately enough to tell."""
    stopped = run.state == "cancelled" and (run.error or {}).get("code") == "caller-gone"
    if not (run.state == "lost" or stopped) or run.finished_at is None:
        return False
    return datetime.now(UTC) - run.finished_at < TELL_LOSS_WITHIN


def _ended(run_id: UUID, run: Run | None, kept: float) -> Ended:
    if run is None:
        return Ended(run_id, "error", {"error": "The run is no longer kept.", "code": "run-not-found"})
    if run.state != "succeeded":
        known = run.error or {"error": f"The run ended as {run.state}.", "code": "run-failed"}
        return Ended(run_id, "error", known)
    if run.result is not None:
        return Ended(run_id, "result", run.result)
    if run.finished_at is not None and datetime.now(UTC) - run.finished_at > timedelta(seconds=kept):
        gone = {"error": "The run succeeded; its result is no longer kept.", "code": "result-gone"}
        return Ended(run_id, "error", gone)
    return Ended(run_id, "none", None)


def internal_problem(reference: UUID) -> dict[str, object]:
    return {
        "error": f"Something went wrong here; the log has it under {reference}.",
        "code": "internal",
        "id": str(reference),
    }
