"""Taking the turns of schedules that are due. Every worker runs this, and the database gives each turn to one of them.

A look reads a batch of what is due, plans what becomes of each (a pure step, see ``missed``), and writes all of it in one
statement that takes only those that still wait for the slot that was read: whoever comes second, or wakes from a pause,
takes nothing. What a slot starts is an ordinary run, whose id follows from the schedule and the slot.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID, uuid5

from rejoinder.contract import pause
from rejoinder.contract.errors import BadInputError, NotReadyError, RejoinderError
from rejoinder.contract.identity import Identity
from rejoinder.contract.settings import Settings
from rejoinder.expressions import NOTHING, Expression, ExpressionError, ExpressionFailedError, Expressions
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics
from rejoinder.runs.agent import Conductor
from rejoinder.runs.driver import goes_on, may_begin_again
from rejoinder.runs.manifest import Registry
from rejoinder.runs.tools import Tool
from rejoinder.schedules.cadence import cadence_of
from rejoinder.schedules.missed import Turn, turn
from rejoinder.store import signals as s
from rejoinder.store.schedules import Schedule, Schedules, Taken
from rejoinder.store.signals import Signals

log = get_logger("schedules")

#: Turns in one statement. Those whose input is made by an expression may each wait a second for it.
BATCH, EVALUATED = 1000, 32
#: Never sooner than this again where nothing could be taken: another process is at it.
PAUSE = 0.05
NO_KEY = "the key that it runs under was revoked, has expired, or may not run tools any more"


class Keys(Protocol):
    """Access, as schedules need it."""

    async def identity_of_key(self, key_id: UUID) -> Identity | None:
        """The identity of a stored key as it stands now, or None where it was revoked or has expired."""
        ...


@dataclass(frozen=True, slots=True)
class Look:
    """``due`` is how many were read, ``turns`` what is to become of those that could be."""

    due: int
    turns: list[Taken]


class Ticker:
    """``start`` looks for what is due until ``stop``. ``look`` looks now; for tests that move the clock."""

    def __init__(
        self,
        schedules: Schedules,
        registry: Registry,
        keys: Keys,
        expressions: Expressions,
        signals: Signals,
        settings: Settings,
        conductor: Conductor | None = None,
    ) -> None:
        self._schedules = schedules
        self._registry = registry
        self._keys = keys
        self._expressions = expressions
        self._signals = signals
        self._settings = settings
        self._conductor = conductor
        self._wake: list[asyncio.Event] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._unread: set[UUID] = set()
        signals.hear(s.SCHEDULES, lambda _id: self.look())

    def start(self) -> None:
        # Two rounds, so that expressions keep nobody waiting who has none.
        for evaluated in (False, True):
            wake = asyncio.Event()
            self._wake.append(wake)
            self._tasks.append(asyncio.create_task(self._run(evaluated, wake), name="schedules"))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks, self._wake = [], []

    def look(self) -> None:
        for wake in self._wake:
            wake.set()

    async def take_batch(self, *, evaluated: bool = False, skip: int = 0) -> tuple[int, int]:
        """One look: ``(how many were due, how many of them were taken here)``. ``evaluated``: those with an expression."""
        look = await self._look(evaluated, skip)
        return look.due, await self._write(look)

    async def take_due(self, *, evaluated: bool = False, skip: int = 0) -> tuple[int, int]:
        """Looks until one finds no whole batch or others are at the same turns: ``(how many of the last look's there were
        to take, how many were taken in all)``. While one batch is written, the next one is read and planned."""
        size, taken = _size(evaluated), 0
        look = await self._look(evaluated, skip)
        while True:
            ahead: asyncio.Task[Look] | None = None
            if look.due == size:
                ahead = asyncio.create_task(self._look(evaluated, skip + size), name="schedules.ahead")
            try:
                ours = await self._write(look)
                taken += ours
                if ahead is None or ours < len(look.turns) // 2:
                    return len(look.turns), taken
                look = await ahead
                # What was not taken, such as one that cannot be read, still stands before it.
                skip += size - ours
            finally:
                if ahead is not None:
                    ahead.cancel()
                    await asyncio.gather(ahead, return_exceptions=True)

    async def _look(self, evaluated: bool, skip: int) -> Look:
        now = await self._schedules.now()
        # As they are now: a preset may go while its turn is planned.
        tools = self._tools()
        due = await self._schedules.due(
            now, list(tools), evaluated=evaluated, skip=skip, limit=_size(evaluated)
        )
        return Look(len(due), await self._planned(due, now, tools) if due else [])

    async def _write(self, look: Look) -> int:
        if not look.turns:
            return 0
        await pause.here("schedule.planned")
        taken, started = await self._schedules.take(look.turns)
        await pause.here("schedule.taken")
        metrics.slots.inc(taken)
        if taken:
            self._signals.tell(s.EVENTS, *([s.STARTS] if started else []))
        return taken

    async def _planned(
        self, due: Sequence[Schedule], now: datetime, tools: Mapping[str, Tool]
    ) -> list[Taken]:
        allowed = await self._allowed(due)
        planned = [(one, found) for one in due if (found := self._turn(one, now)) is not None]
        inputs: list[Any] = [None] * len(planned)
        if due[0].start_expr is not None:
            inputs = await asyncio.gather(
                *(self._input(one, found, now, tools[one.tool]) for one, found in planned)
            )
        return [
            self._taken(one, found, tools[one.tool], allowed[one.key_id, one.identity], given)
            for (one, found), given in zip(planned, inputs, strict=True)
        ]

    def _turn(self, schedule: Schedule, now: datetime) -> Turn | None:
        """None for one that this version cannot read, such as one that a newer one wrote: it is another process'."""
        assert schedule.next_run_at is not None
        try:
            cadence = cadence_of(schedule.cadence)
        except BadInputError:
            if schedule.id not in self._unread:
                self._unread.add(schedule.id)
                log.warning("a schedule cannot be read", schedule=schedule.name)
            return None
        self._unread.discard(schedule.id)
        return turn(cadence, schedule.anchor_at, schedule.next_run_at, now, schedule.missed)

    def _taken(self, schedule: Schedule, planned: Turn, tool: Tool, allowed: bool, given: Any) -> Taken:
        due_at = schedule.next_run_at
        assert due_at is not None
        let_go = None
        if planned.let_go is not None:
            first, last = planned.let_go
            let_go = {"first": first.isoformat(), "last": last.isoformat()}
        if planned.slot is None:
            return Taken(schedule.id, due_at, None, planned.next_at, error=schedule.error, let_go=let_go)
        error = NO_KEY if not allowed else given if isinstance(given, str) else None
        if error is not None or given is NOTHING:
            return Taken(schedule.id, due_at, planned.slot, planned.next_at, error=error, let_go=let_go)
        return Taken(
            schedule.id,
            due_at,
            planned.slot,
            planned.next_at,
            run_id=run_id_of(schedule.id, planned.slot),
            arguments=given,
            idempotent=may_begin_again(tool, self._conductor),
            checkpointed=tool.checkpointed and goes_on(tool, self._conductor),
            let_go=let_go,
            preset_version=tool.preset_version,
        )

    async def _input(self, schedule: Schedule, planned: Turn, now: datetime, tool: Tool) -> Any:
        """The tool's input by the schedule's expression: an object, NOTHING, or the text of what is wrong."""
        if planned.slot is None:
            return NOTHING
        assert schedule.start_expr is not None
        value = {
            "now": now.astimezone(UTC).isoformat(),
            "slot_at": planned.slot.astimezone(UTC).isoformat(),
            "schedule": schedule.name,
        }
        try:
            expression = Expression.read(schedule.start_expr, field="start_expr")
            given = await self._expressions.run(expression, value)
            if given is None or given is NOTHING:
                return NOTHING
            if not isinstance(given, dict):
                return "start_expr gave no object"
            arguments = given | schedule.tool_kwargs
            tool.check_arguments(arguments)
        except ExpressionError as error:
            return error.message
        except ExpressionFailedError as error:
            return f"start_expr: {error.message}"
        except BadInputError as error:
            return f"start_expr gave what {schedule.tool} does not take: {error.message}"
        except NotReadyError:
            raise
        except RejoinderError as error:
            return error.message
        except Exception:
            # Such as an author's own check of an argument: it is this turn's fault, and stands in no other's way.
            log.exception("the input of a schedule could not be made", schedule=schedule.name)
            return "its input could not be made; the log says why"
        return arguments

    async def _allowed(self, due: Sequence[Schedule]) -> dict[tuple[UUID | None, str], bool]:
        """Whether each key may still run tools, as the identity that it was bound for."""
        pairs = list({(one.key_id, one.identity) for one in due})
        found = await asyncio.gather(*(self._may_run(key_id, name) for key_id, name in pairs))
        return dict(zip(pairs, found, strict=True))

    async def _may_run(self, key_id: UUID | None, name: str) -> bool:
        if key_id is None:
            # Made while access control was off: nobody vouches for it where it is on.
            return not self._settings.access_control_enable
        identity = await self._keys.identity_of_key(key_id)
        return identity is not None and identity.name == name and identity.may("write")

    def _tools(self) -> dict[str, Tool]:
        return {one.tool.name: one.tool for one in self._registry}

    async def _run(self, evaluated: bool, wake: asyncio.Event) -> None:
        skip = 0
        while True:
            # Cleared before looking: what is made while we look is looked at again.
            wake.clear()
            there = taken = 0
            seconds: float | None = None
            try:
                seconds = await self._schedules.seconds_to_next(list(self._tools()), evaluated=evaluated)
                if seconds is not None and seconds <= 0:
                    there, taken = await self.take_due(evaluated=evaluated, skip=skip)
            except NotReadyError:
                pass
            except Exception:
                log.exception("schedules could not be looked at")
            # Where others take the same ones, begin at another place.
            size = _size(evaluated)
            crowded = taken < size // 2 <= there
            skip = size * random.randrange(1, 4) if crowded else 0  # noqa: S311
            if taken:
                continue
            sleep = self._settings.rejoinder_poll_seconds
            if there:
                sleep = PAUSE
            elif seconds is not None and seconds > 0:
                sleep = min(sleep, max(seconds, PAUSE))
            try:
                async with asyncio.timeout(sleep):
                    await wake.wait()
            except TimeoutError:
                pass


def _size(evaluated: bool) -> int:
    return EVALUATED if evaluated else BATCH


def run_id_of(schedule_id: UUID, slot_at: datetime) -> UUID:
    """The run that a slot starts: the same one whoever starts it."""
    return uuid5(schedule_id, slot_at.astimezone(UTC).isoformat())
