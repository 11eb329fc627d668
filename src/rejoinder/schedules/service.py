"""Schedules as their callers have them: made, listed, switched off and on, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from rejoinder.access.keys import Access
from rejoinder.contract.errors import BadInputError, RejoinderError, ToolArgumentError, ToolInternalError
from rejoinder.contract.identity import Identity
from rejoinder.contract.settings import Settings
from rejoinder.expressions import Expressions
from rejoinder.runs.service import RunService
from rejoinder.runs.tools import Tool
from rejoinder.schedules.cadence import Once, cadence_of
from rejoinder.schedules.order import Order, order_of
from rejoinder.store import signals as s
from rejoinder.store.runs import Runs
from rejoinder.store.schedules import Schedule, Schedules
from rejoinder.store.signals import Signals

DOOR = "schedules"
NO_WORKER = "no worker is running"
NO_TOOL = "no tool of this name is exposed here"


class SchedulesOffError(RejoinderError):
    """Schedules are switched off on this deployment by SCHEDULES_ENABLE."""

    code = "schedules-not-configured"
    status = 501


class ScheduleNotFoundError(RejoinderError):
    """No schedule has this name."""

    code = "schedule-not-found"
    status = 404


class ScheduleExistsError(RejoinderError):
    """Another schedule has this name. Delete that one first, or give a schedule_name."""

    code = "schedule-exists"
    status = 409


class ScheduleService:
    def __init__(
        self,
        schedules: Schedules,
        access: Access,
        run_service: RunService,
        runs: Runs,
        expressions: Expressions,
        signals: Signals,
        settings: Settings,
    ) -> None:
        self._schedules = schedules
        self._access = access
        self._run_service = run_service
        self._runs = runs
        self._expressions = expressions
        self._signals = signals
        self._settings = settings

    async def now(self) -> datetime:
        """The clock that schedules go by. Raises SchedulesOffError."""
        self._check_on()
        return await self._schedules.now()

    async def create(self, body: Mapping[str, Any], *, by: Identity, via: str) -> tuple[Schedule, bool]:
        """``(the schedule, whether it is new)``. The same order under the same name again is the one that is there.

        Raises SchedulesOffError, BadInputError, ToolNotFoundError, ToolInternalError, SuspensionError (a run of the tool
        could not go on), ToolArgumentError, ForbiddenError (the execution key is not the caller's to hand on), and
        ScheduleExistsError."""
        now = await self.now()
        order = order_of(body)
        tool = await self._run_service.schedulable(order.tool_name, by=by, door=DOOR)
        await self._check_input(order, tool)
        identity, key_id, key_name = await self._bound(order, by)
        name = order.name or order.default_name()
        digest = order.digest(identity, key_id)
        anchor = order.cadence.start(now)
        first = now if isinstance(order.cadence, Once) else order.cadence.after(now, anchor)
        if first is None:
            raise BadInputError("cadence names a day that never comes", field="cadence")
        made = await self._schedules.add(
            uuid4(),
            name,
            tool=tool.name,
            tool_kwargs=order.tool_kwargs,
            cadence=order.given_cadence,
            missed=order.missed,
            start_expr=None if order.start_expr is None else str(order.start_expr),
            subject=order.subject,
            digest=digest,
            identity=identity,
            key_id=key_id,
            execution_key=key_name,
            anchor_at=anchor,
            next_run_at=first,
            by=by.name,
            via=via,
            # A name of the caller's own stands for one order; without one, the same words mean one more run.
            again=order.name is None,
        )
        if made is not None:
            self._signals.tell(s.SCHEDULES, s.EVENTS)
            return made, True
        there = await self._schedules.by_name(name)
        if there is None or there.digest != digest:
            raise ScheduleExistsError(field="schedule_name")
        return there, False

    async def page(self, *, by: Identity, after: str, limit: int) -> list[dict[str, Any]]:
        """As ``GET /api/schedules`` shows them; a restricted identity is shown those that run as itself."""
        self._check_on()
        _, workers = await self._runs.going(self._settings.rejoinder_stale_seconds)
        found = await self._schedules.page(after=after, identity=_own(by), limit=limit)
        return [self.as_json(one, workers=workers) for one in found]

    def as_json(self, schedule: Schedule, *, workers: int | None = None) -> dict[str, Any]:
        """``error`` says why the last turn started nothing, or why the next one would not come."""
        next_at = schedule.next_run_at
        error = schedule.error
        if next_at is not None and schedule.tool not in self._run_service.registry:
            error = NO_TOOL
        elif next_at is not None and workers == 0:
            error = NO_WORKER
        return {
            "name": schedule.name,
            "tool": schedule.tool,
            "cadence": schedule.cadence,
            "enabled": schedule.enabled,
            "next_run_at_ts": None if next_at is None else next_at.timestamp(),
            "next_run_at_iso": None if next_at is None else next_at.isoformat(),
            "last_run_id": None if schedule.last_run_id is None else str(schedule.last_run_id),
            "error": error,
        }

    async def enable(self, name: str, enabled: bool, *, by: Identity, via: str) -> dict[str, Any]:
        """Switch one off or on. What would have run meanwhile is not made up for. Raises ScheduleNotFoundError,
        ToolInternalError."""
        now = await self.now()
        there = await self._own(name, by)
        await self._check_right(there, by)
        if there.enabled == enabled:
            return self.as_json(there)
        next_at: datetime | None = None
        if enabled:
            cadence = cadence_of(there.cadence)
            if isinstance(cadence, Once):
                next_at = now if there.last_slot_at is None else None
            else:
                next_at = cadence.after(now, there.anchor_at)
        await self._schedules.enable(there.id, enabled, next_at, by=by.name, via=via)
        self._signals.tell(s.SCHEDULES, s.EVENTS)
        return self.as_json(await self._own(name, by))

    async def delete(self, name: str, *, by: Identity, via: str) -> None:
        """Runs that it has started go on. Raises ScheduleNotFoundError, ToolInternalError."""
        self._check_on()
        there = await self._own(name, by)
        await self._check_right(there, by)
        if not await self._schedules.delete(there.id, by=by.name, via=via):
            raise ScheduleNotFoundError(field="name")
        self._signals.tell(s.EVENTS)

    def _check_on(self) -> None:
        if not self._settings.schedules_enable:
            raise SchedulesOffError()

    async def _own(self, name: str, by: Identity) -> Schedule:
        there = await self._schedules.by_name(name)
        if there is None or (by.restricted and there.identity != by.name):
            raise ScheduleNotFoundError(field="name")
        return there

    async def _check_right(self, there: Schedule, by: Identity) -> None:
        """Whoever could not order such runs cannot stop them either. Raises ToolInternalError."""
        if by.may("admin") or there.tool not in self._run_service.registry:
            return
        await self._run_service.admitted(there.tool, by=by, door=DOOR)

    async def _check_input(self, order: Order, tool: Tool) -> None:
        if order.start_expr is not None:
            # What it gives is known when it runs.
            await self._expressions.compile(order.start_expr, field="start_expr")
            return
        try:
            tool.check_arguments(order.tool_kwargs)
        except ToolArgumentError as error:
            inner = error.field
            field = "tool_kwargs" if inner in (None, "arguments") else f"tool_kwargs.{inner}"
            raise ToolArgumentError(error.message, field=field) from None

    async def _bound(self, order: Order, by: Identity) -> tuple[str, UUID | None, str | None]:
        """``(identity, key, the key's name)`` that it runs under."""
        if order.execution_key is None:
            return by.name, by.key_id, None
        key = await self._access.execution_key(order.execution_key, by=by)
        bound = await self._access.identity_of_key(key.id)
        if bound is None or not bound.may("write"):
            raise BadInputError(
                f"execution_key must be a key that may run tools; {key.name} has no write grant",
                field="execution_key",
            )
        try:
            await self._run_service.admitted(order.tool_name, by=bound, door=DOOR)
        except ToolInternalError as error:
            raise BadInputError(error.message, field="execution_key") from None
        return bound.name, key.id, key.name


def _own(by: Identity) -> str | None:
    return by.name if by.restricted else None
