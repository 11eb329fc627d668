"""How a session stands: how full its context is, what is left of the providers' limits, and its sub-agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rejoinder.openclaw.frames import Payload, mapping, rows
from rejoinder.openclaw.sessions import Caller

_TASKS = 200


@dataclass(frozen=True, slots=True)
class Standing:
    """A session. used: tokens of the context at its last turn, None if unknown; size: how many it holds.
    goal: what it works towards, in words, and how that stands."""

    key: str
    model: str = ""
    used: int | None = None
    size: int | None = None
    goal: str = ""
    goal_status: str = ""
    compactions: int = 0

    @property
    def percent(self) -> int | None:
        """How full the context is, 0 to 100."""
        if self.used is None or not self.size:
            return None
        return min(100, round(100 * self.used / self.size))


@dataclass(frozen=True, slots=True)
class Limit:
    """What a provider allows in a stretch of time. used: percent; resets_at: the Gateway's milliseconds, or None."""

    provider: str
    label: str
    used: float
    resets_at: int | None = None


@dataclass(frozen=True, slots=True)
class Child:
    """A sub-agent's task. status: queued, running, completed, failed, timed_out, cancelled or lost."""

    task: str
    key: str
    title: str
    status: str
    said: str = ""
    tools: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    raw: Payload = field(default_factory=dict, repr=False, compare=False)


async def read_standing(caller: Caller, key: str) -> Standing | None:
    """How a session stands, or None if there is none. Raises what a call raises."""
    row = mapping(mapping(await caller.call("sessions.describe", {"key": key})).get("session"))
    if not row:
        return None
    provider, model = str(row.get("modelProvider") or ""), str(row.get("model") or "")
    goal = mapping(row.get("goal"))
    used = _number(row.get("totalTokens"))
    return Standing(
        key=key,
        model=f"{provider}/{model}" if provider and model else model,
        used=used if row.get("totalTokensFresh") is not False else None,
        size=_number(row.get("contextTokens")),
        goal=str(goal.get("objective") or ""),
        goal_status=str(goal.get("status") or ""),
        compactions=_number(row.get("compactionCount")) or 0,
    )


async def read_limits(caller: Caller) -> list[Limit]:
    """What is left of the providers' limits, those that reset first. Raises what a call raises."""
    found = []
    for provider in rows(mapping(await caller.call("usage.status", {})).get("providers")):
        name = str(provider.get("displayName") or provider.get("provider") or "")
        for window in rows(provider.get("windows")):
            used = window.get("usedPercent")
            if isinstance(used, (int, float)) and not isinstance(used, bool):
                label = str(window.get("label") or "")
                found.append(Limit(name, label, float(used), _number(window.get("resetAt"))))
    return found


async def list_children(caller: Caller, key: str) -> list[Child]:
    """The sub-agents that a session started, the newest first. Raises what a call raises."""
    reply = mapping(await caller.call("tasks.list", {"sessionKey": key, "limit": _TASKS}))
    return [
        child
        for item in rows(reply.get("tasks"))
        if item.get("sessionKey") == key and item.get("runtime") == "subagent"
        for child in [_child(item)]
    ]


async def find_child(caller: Caller, task: str) -> Child | None:
    """A sub-agent by its task's id, or None if the Gateway does not know it any more. Raises what a call raises."""
    found = mapping(mapping(await caller.call("tasks.get", {"taskId": task})).get("task"))
    return _child(found) if found.get("childSessionKey") else None


def _child(item: Payload) -> Child:
    return Child(
        task=str(item.get("taskId") or item.get("id") or ""),
        key=str(item.get("childSessionKey") or ""),
        title=" ".join(str(item.get("title") or "").split()),
        status=str(item.get("status") or ""),
        said=str(item.get("terminalSummary") or item.get("progressSummary") or ""),
        tools=_number(item.get("toolUseCount")) or 0,
        started_at=_number(item.get("startedAt")),
        ended_at=_number(item.get("endedAt")),
        raw=item,
    )


def resetting(limits: Sequence[Limit]) -> list[Limit]:
    """The limits that reset some time, soonest first."""
    return sorted(
        (one for one in limits if one.resets_at is not None),
        key=lambda one: one.resets_at or 0,
    )


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    return int(value)
