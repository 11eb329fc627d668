"""Internal tools: those that act with more than their caller's rights, such as one that answers for an outside system.

Whoever may call such a tool with arguments of their own may do all that it may do. So no door that takes arguments runs
one, whatever grant the caller has: it is run by a hook that an admin registered, on an event whose sender a verifier
vouched for, and, where the tool says so, by an admin in person and by an admin's schedule.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol
from uuid import UUID

from rejoinder.contract.deliveries import DOOR as HOOKS
from rejoinder.contract.errors import ToolInternalError
from rejoinder.contract.identity import Identity
from rejoinder.runs.tools import Tool

#: The doors that an admin's own word comes through.
ADMINS_DOORS = frozenset(("run-tool", "tool-runs", "schedules"))
ONLY_PINNED = "This tool is run by way of a preset only."

#: Whether the run with this id was started by a hook of an admin's, on a delivery that a verifier vouched for.
Vouches = Callable[[UUID], Awaitable[bool]]


def may_run(tool: Tool, door: str, by: Identity, *, vouched: bool = False) -> bool:
    """Whether a run of this tool may come from ``door``. ``vouched``: a verifier did so for the event that a hook of an
    admin's starts it on."""
    if not tool.internal:
        return True
    if tool.only_pinned:
        return False
    if door == HOOKS:
        return vouched
    return tool.admin_may_run and door in ADMINS_DOORS and "admin" in by.grants and not by.restricted


class Trail(Protocol):
    """The audit trail, as the refusal of a tool needs it."""

    async def add(
        self, kind: str, *, run_id: UUID | None, actor: str, via: str, reason: str, detail: dict[str, str]
    ) -> None: ...


class Doorkeeper:
    """Asked before any tool is run, and again before a run of it goes on: what counts is how things stand then."""

    def __init__(self, trail: Trail | None = None, vouches: Vouches | None = None) -> None:
        self._trail = trail
        self._vouches = vouches

    async def admit(self, tool: Tool, *, door: str, by: Identity, run_id: UUID | None = None) -> None:
        """Raises ToolInternalError, which the audit trail then has. ``run_id`` is that of a run with a row."""
        if not tool.internal:
            return
        vouched = False
        if door == HOOKS and run_id is not None and self._vouches is not None:
            vouched = await self._vouches(run_id)
        if may_run(tool, door, by, vouched=vouched):
            return
        if self._trail is not None:
            await self._trail.add(
                "access.refused",
                run_id=run_id,
                actor=by.name,
                via=door,
                reason="internal tool",
                detail={"tool": tool.name},
            )
        reason = ONLY_PINNED if tool.only_pinned else None
        raise ToolInternalError(reason, field="tool_name" if run_id is None else None)
