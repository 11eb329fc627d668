"""Tool calls that outlive the request they came in.

An MCP client gives a call about a minute and then goes away; a person may take longer. So each call is a run with a row
from its first moment, driven by a task of its own. A request holds on to it for a while and lets go: with its result,
with what it asks, with word that it is still going, or because the client went away. The same call by the same caller
finds the same run again, on whichever process it arrives, so that a client that lost patience never runs a tool twice;
so do two identical calls at the same time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from rejoinder.contract.errors import ForbiddenError, NotReadyError, RejoinderError, RunCapacityError
from rejoinder.contract.identity import Identity
from rejoinder.contract.questions import Question
from rejoinder.mcp.ends import Asked, Ended, Progress, ended, internal_problem
from rejoinder.mcp.handover import GivenUpError, Handover
from rejoinder.node import Node
from rejoinder.observe.logs import get_logger
from rejoinder.runs.driver import patiently
from rejoinder.runs.elicitation import PROGRESS
from rejoinder.store import signals as s

log = get_logger("mcp")

DOOR = "mcp"
#: Calls that are going at once in one process.
MOST_GOING = 2_000
#: How long an end that was not told stays the answer to the same call.
KEEP = timedelta(hours=1)
#: A loss older than this is not worth telling.
TELL_LOSS_WITHIN = timedelta(days=1)

Choose = Callable[[list[Question]], list[Question]]
#: Told that a call goes on: with what its tool reports, or with None now and then.
Tell = Callable[[Progress | None], Awaitable[None]]
#: Reports of one tool that are kept for who holds on to it.
MOST_REPORTS = 100


@dataclass(slots=True, eq=False)
class Call:
    """One run that requests hold on to. ``lost_run`` is an earlier run of the very same call that ended with its process;
    ``end`` is a task that drives the run here, or one that watches its row."""

    run_id: UUID
    tool: str
    identity: str
    end: asyncio.Task[Ended]
    lost_run: UUID | None = None
    #: Whether this process drives it, and whether its caller wants it no more.
    driven: bool = False
    cancelled: bool = False
    reports: deque[Progress] = field(default_factory=lambda: deque(maxlen=MOST_REPORTS))


class Calls:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._driven: dict[UUID, Call] = {}
        self._watched: dict[UUID, set[asyncio.Event]] = defaultdict(set)
        self._named: dict[str, tuple[Handover, asyncio.Event]] = {}
        self._small: set[asyncio.Task[Any]] = set()
        self._stopping = False
        #: How many requests hold on to a call or a run now.
        self.held = 0
        node.signals.hear(s.RUN, self._heard)
        node.signals.hear(s.LEG, self._let_go)

    async def begin(
        self, tool: str, arguments: dict[str, Any], *, by: Identity, traceparent: str | None
    ) -> Call:
        """The run that this caller's call of this tool with these arguments is already, or a new one.

        Raises ToolNotFoundError, ToolInternalError, ToolArgumentError, RunCapacityError and NotReadyError; nothing has
        begun then."""
        if self._stopping:
            raise NotReadyError("This server is stopping; call again.")
        found = await self._node.run_service.admitted(tool, by=by, door=DOOR)
        found.check_arguments(arguments)
        # A task of its own: a client that goes away in the middle must not leave a run that nobody drives.
        return await asyncio.shield(self._beside(self._begin(tool, arguments, by, traceparent)))

    async def _begin(
        self, tool: str, arguments: dict[str, Any], by: Identity, traceparent: str | None
    ) -> Call:
        run_id = uuid4()
        try:
            claim = await self._node.run_service.claim(
                tool,
                arguments,
                by=by,
                door=DOOR,
                digest=digest_of(by, tool, arguments),
                run_id=run_id,
                keep=KEEP,
                tell_loss=TELL_LOSS_WITHIN,
                traceparent=traceparent,
            )
        except NotReadyError as error:
            # It may have been recorded all the same, and nobody drives it.
            problem = error.as_problem()
            self._beside(patiently(lambda: self._node.runs.finish(run_id, 1, "failed", error=problem)))
            raise
        if claim.status == "fenced":
            raise NotReadyError("This server was cut off for a while; call again.")
        if claim.status == "joined":
            return self._driven.get(claim.run_id) or self._follow(claim.run_id, tool, by, claim.lost_run)
        if self._stopping or len(self._driven) >= MOST_GOING:
            refusal = (
                NotReadyError("This server is stopping; call again.")
                if self._stopping
                else RunCapacityError("Too many tool calls are going; try again later.")
            )
            await patiently(lambda: self._node.runs.finish(run_id, 1, "failed", error=refusal.as_problem()))
            await self._node.runs.told(run_id)
            raise refusal
        driving = asyncio.create_task(
            self._drive(tool, arguments, by, traceparent, run_id), name=f"mcp.{tool}"
        )
        call = Call(run_id, tool, by.name, driving, claim.lost_run, driven=True)
        self._driven[run_id] = call
        driving.add_done_callback(lambda _: self._driven.pop(run_id, None))
        return call

    def follow(self, run_id: UUID, tool: str, *, by: Identity) -> Call:
        """A run that this caller had begun: its row is read, wherever it is driven. ``release`` it."""
        return self._driven.get(run_id) or self._follow(run_id, tool, by)

    def _follow(self, run_id: UUID, tool: str, by: Identity, lost_run: UUID | None = None) -> Call:
        watching = asyncio.create_task(self._watch(run_id), name="mcp.watch")
        return Call(run_id, tool, by.name, watching, lost_run)

    def release(self, call: Call) -> None:
        """The request that held on to the call is over."""
        if not call.driven:
            call.end.cancel()

    async def hold(
        self,
        call: Call,
        seconds: float,
        tell: Tell,
        every: float,
        choose: Choose | None = None,
        by: Handover | None = None,
    ) -> Ended | Asked | None:
        """Wait for so many seconds for the run's end, or for questions of which ``choose`` takes some; ``tell`` that it
        goes on from time to time. None: it is still going. Being cancelled lets go and does not touch the run; so does
        GivenUpError, when the client of the request ``by`` gives it up."""
        woken = asyncio.Event()
        self._watched[call.run_id].add(woken)
        name = by.request.hex() if by is not None and by.named else None
        if by is not None and name is not None:
            self._named[name] = (by, woken)
        self.held += 1
        try:
            return await self._hold(call, seconds, tell, every, choose, woken, by or Handover())
        finally:
            self.held -= 1
            self._unwatch(call.run_id, woken)
            if name is not None:
                self._named.pop(name, None)

    async def begun(self, call: Call, by: Handover) -> None:
        """The request ``by`` holds on to the call from now on. Raises NotReadyError."""
        if by.named:
            by.given_up = await self._node.legs.begin(by.request, call.run_id)

    async def tell_end(self, ended: Ended, to: Handover) -> None:
        """The caller is told: the next call with these arguments means a new run; while a parked run goes on, that run.
        Raises GivenUpError where nobody listens any more: the end stays the call's answer."""
        if to.closed:
            raise GivenUpError
        to.telling = ended.run_id
        try:
            told = await self._node.legs.tell(to.request, ended.run_id)
        except NotReadyError:
            log.warning("the end of a call was told and stays its answer", run_id=str(ended.run_id))
            return
        if not told:
            raise GivenUpError

    def take_back(self, handover: Handover) -> None:
        """The end that was told to this request did not leave, so that it is the call's answer again."""
        log.info("the end of a call could not be sent and stays its answer", run_id=str(handover.telling))
        self._beside(patiently(lambda: self._node.legs.give_up(handover.request)))

    async def check(
        self, run_id: UUID, seconds: float, tell: Tell, every: float, *, by: Identity, request: Handover
    ) -> Ended | None:
        """The end of a run by its id: of a call driven here, or of any run in the store. None: it is still going.
        Raises RunNotFoundError, and ForbiddenError where a restricted identity asks for another's run."""
        call = self._driven.get(run_id)
        if call is not None and by.restricted and call.identity != by.name:
            raise ForbiddenError("This run is another identity's.")
        if call is None:
            run = await self._node.run_service.get(run_id, by=by)
            call = self._follow(run_id, run.tool, by)
        try:
            ended = await self.hold(call, seconds, tell, every, by=request)
        finally:
            self.release(call)
        assert not isinstance(ended, Asked)
        return ended

    def cancel(self, run_id: UUID) -> None:
        """End a run that its caller wants no more, where it is driven here; elsewhere, what it asks was withdrawn."""
        call = self._driven.get(run_id)
        if call is not None:
            call.cancelled = True
            call.end.cancel()

    async def stop(self) -> None:
        """End what is going. Who holds on is told; what was asked is withdrawn."""
        self._stopping = True
        going = [call.end for call in self._driven.values()]
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)
        await self.settle()

    async def settle(self) -> None:
        """Write what is still to be written of requests that are over; not for long."""
        if self._small:
            await asyncio.wait(set(self._small), timeout=1)

    # Inside

    async def _drive(
        self, tool: str, arguments: dict[str, Any], by: Identity, traceparent: str | None, run_id: UUID
    ) -> Ended:
        try:
            result = await self._node.run_service.call(
                tool,
                arguments,
                by=by,
                door=DOOR,
                traceparent=traceparent,
                run_id=run_id,
                keep_result=True,
                claimed=True,
                listen=lambda said: self._listen(run_id, said),
            )
            return Ended(run_id, result.kind, result.result)
        except RejoinderError as error:
            return Ended(run_id, "error", error.as_problem())
        except asyncio.CancelledError:
            call = self._driven.get(run_id)
            if call is not None and call.cancelled:
                await patiently(lambda: self._node.runs.told(run_id))
                return Ended(
                    run_id, "error", {"error": "The call was cancelled by its caller.", "code": "cancelled"}
                )
            if not self._stopping:
                raise
            problem = NotReadyError("This server is stopping. What the call asked was withdrawn; call again.")
            return Ended(run_id, "error", problem.as_problem())
        except Exception:
            log.exception("a call failed", run_id=str(run_id), tool=tool)
            return Ended(run_id, "error", internal_problem(run_id))

    def _listen(self, run_id: UUID, said: dict[str, Any]) -> None:
        call = self._driven.get(run_id)
        if call is not None and said.get("type") == PROGRESS:
            number = call.reports[-1].number + 1 if call.reports else 1
            call.reports.append(Progress(number, said["progress"], said["total"], said["message"]))
            self._wake(run_id)

    async def _watch(self, run_id: UUID) -> Ended:
        """Wait for the end of a run by its row. A notification is the quick way, reading again now and then the sure
        one."""
        woken = asyncio.Event()
        self._watched[run_id].add(woken)
        try:
            while True:
                woken.clear()
                try:
                    run = await self._node.runs.by_id(run_id)
                    if run is None or run.state not in ("running", "parked"):
                        return ended(run_id, run, self._node.settings.tai_tool_runs_result_ttl_seconds)
                except NotReadyError:
                    log.warning("the database is away; the run is read again", run_id=str(run_id))
                try:
                    # Not wait_for: on Python 3.11 it loses a cancellation that comes together with the event.
                    async with asyncio.timeout(self._node.settings.rejoinder_poll_seconds):
                        await woken.wait()
                except TimeoutError:
                    pass
        finally:
            self._unwatch(run_id, woken)

    async def _hold(
        self,
        call: Call,
        seconds: float,
        tell: Tell,
        every: float,
        choose: Choose | None,
        woken: asyncio.Event,
        by: Handover,
    ) -> Ended | Asked | None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        # The first word goes out early: until then some clients have seen no byte at all.
        next_word = loop.time() + min(1.0, every)
        # That a process died is not notified by run: whoever comes anew makes us look anew.
        self._wake(call.run_id)
        waking: asyncio.Task[Any] | None = None
        heard = 0
        try:
            while True:
                woken.clear()
                for report in [one for one in call.reports if one.number > heard]:
                    await tell(report)
                    heard = report.number
                if by.given_up:
                    raise GivenUpError
                if call.end.done():
                    return call.end.result()
                if choose is not None and (chosen := choose(await self.open_questions(call.run_id))):
                    return Asked(chosen)
                now = loop.time()
                if now >= deadline:
                    return None
                if now >= next_word:
                    await tell(None)
                    next_word = loop.time() + every
                waking = asyncio.create_task(woken.wait())
                # asyncio.wait, not await: a cancelled request must not cancel the call.
                pause = max(0.0, min(next_word, deadline) - loop.time())
                await asyncio.wait({call.end, waking}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                waking.cancel()
        finally:
            if waking is not None:
                waking.cancel()

    async def asks(self, run_id: UUID, *, by: Identity) -> Ended | None:
        """What a parked run asks its caller; None where it asks nothing. Raises as ``RunService.get``."""
        try:
            standing = await self._node.visits.look(run_id, by=by)
        except NotReadyError:
            return None
        if not standing.questions:
            return None
        return Ended(run_id, "asks", standing.told())

    async def open_questions(self, run_id: UUID) -> list[Question]:
        """What people are asked, also those that a run asks which this one called."""
        try:
            return await self._node.questions.open_below(run_id)
        except NotReadyError:
            # The call itself waits the database's absence out.
            return []

    def _beside(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._small.add(task)
        task.add_done_callback(self._small.discard)
        return task

    def _heard(self, text: str) -> None:
        try:
            self._wake(UUID(text))
        except ValueError:
            log.warning("signal is not an id")

    def _let_go(self, name: str) -> None:
        if (found := self._named.get(name)) is not None:
            handover, woken = found
            handover.given_up = True
            woken.set()

    def _wake(self, run_id: UUID) -> None:
        for woken in self._watched.get(run_id, ()):
            woken.set()

    def _unwatch(self, run_id: UUID, woken: asyncio.Event) -> None:
        events = self._watched[run_id]
        events.discard(woken)
        if not events:
            del self._watched[run_id]


def digest_of(by: Identity, tool: str, arguments: dict[str, Any]) -> bytes:
    """What makes a call the same call: its caller, with the very key, its tool and its arguments."""
    parts = [by.name, str(by.key_id) if by.key_id else None, tool, arguments]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).digest()
