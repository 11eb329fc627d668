"""Hook runs as those who run the deployment see them: listed, retried, discarded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from rejoinder.contract.errors import RejoinderError
from rejoinder.contract.identity import Identity
from rejoinder.store import signals as s
from rejoinder.store.hook_runs import FIRST, HookRun, HookRuns, HookRunStatus
from rejoinder.store.signals import Signals


class HookRunNotFoundError(RejoinderError):
    """There is no hook run of this id."""

    code = "hook-run-not-found"
    status = 404


class HookRunConflictError(RejoinderError):
    """The hook run is not held, so there is nothing to retry or discard."""

    code = "hook-run-conflict"
    status = 409


@dataclass(frozen=True, slots=True)
class HookRunPage:
    """``next`` is the place behind the last one, where there are more. The counts are exact up to 10,000."""

    items: list[HookRun]
    next: tuple[datetime, UUID] | None
    outstanding: int
    failed: int


class KeptRuns:
    def __init__(self, hook_runs: HookRuns, signals: Signals) -> None:
        self._hook_runs = hook_runs
        self._signals = signals

    async def page(
        self, status: HookRunStatus, *, after: tuple[datetime, UUID] = FIRST, limit: int
    ) -> HookRunPage:
        """Newest first."""
        found = await self._hook_runs.page(status, after=after, limit=limit + 1)
        outstanding, failed = await self._hook_runs.counts()
        items = found[:limit]
        behind = (items[-1].created_at, items[-1].id) if len(found) > limit else None
        return HookRunPage(items, behind, outstanding, failed)

    async def retry(self, identifier: UUID, *, by: Identity) -> None:
        """Run a held one again, or replay the start that it recorded. Raises HookRunNotFoundError,
        HookRunConflictError."""
        status = await self._hook_runs.retry(identifier, by.name)
        if status == "unknown":
            raise HookRunNotFoundError()
        if status == "conflict":
            raise HookRunConflictError("The hook run is not held, so there is nothing to retry.")
        if status == "discard":
            raise HookRunConflictError(
                "The tool went on after an answer before it failed, so the hook is not begun again. Look at its run, and "
                "retry that or discard this."
            )
        self._signals.tell(s.HOOKS, s.STARTS, s.EVENTS)

    async def discard(self, identifier: UUID, *, by: Identity) -> None:
        """Take a held one off the list; nothing runs. Raises HookRunNotFoundError, HookRunConflictError."""
        status = await self._hook_runs.discard(identifier, by.name)
        if status == "unknown":
            raise HookRunNotFoundError()
        if status == "conflict":
            raise HookRunConflictError("The hook run is not held, so there is nothing to discard.")
        self._signals.tell(s.EVENTS)
