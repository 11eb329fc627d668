"""The rows of a Gateway's sessions, as a list, an event and a history carry them.

In a list what is nothing is left out; in an event it is an explicit null. Both read the same here.
`activeRunIds` is None where the Gateway withholds it, which it does as soon as a run executes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, Protocol

from rejoinder.openclaw.frames import Payload, mapping, rows

Status = Literal["running", "done", "failed", "killed"]
_STATUSES: dict[str, Status] = {
    "running": "running",
    "done": "done",
    "failed": "failed",
    "killed": "killed",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A session as it stands. Times are the Gateway's milliseconds. `has_active_run` is None where the row does not
    say (`sessions.describe` never does: its status tells nothing of a run's activity)."""

    key: str
    session_id: str | None = None
    status: Status | None = None
    has_active_run: bool | None = None
    active_run_ids: tuple[str, ...] | None = None
    last_run_id: str | None = None
    last_run_error: str | None = None
    aborted_last_run: bool = False
    updated_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    agent_id: str | None = None
    raw: Payload = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, payload: Payload) -> Row | None:
        """From a list's row, or from an event that carries one (`sessionKey` for `key`). None if it names no session."""
        key = payload.get("key") or payload.get("sessionKey")
        if not isinstance(key, str) or not key:
            return None
        active, ids = payload.get("hasActiveRun"), payload.get("activeRunIds")
        return cls(
            key=key,
            session_id=_text(payload.get("sessionId")),
            status=_STATUSES.get(str(payload.get("status"))),
            has_active_run=active if isinstance(active, bool) else None,
            active_run_ids=tuple(str(one) for one in ids) if isinstance(ids, list) else None,
            last_run_id=_text(payload.get("lastRunId")),
            last_run_error=_text(payload.get("lastRunError")),
            aborted_last_run=payload.get("abortedLastRun") is True,
            updated_at=_number(payload.get("updatedAt")),
            started_at=_number(payload.get("startedAt")),
            ended_at=_number(payload.get("endedAt")),
            agent_id=_text(payload.get("agentId")),
            raw=payload,
        )


def page(payload: object) -> tuple[list[Row], int | None]:
    """The rows of one reply of `sessions.list` and the offset of the next page, or None if it was the last."""
    listing = mapping(payload)
    found = [row for item in rows(listing.get("sessions")) if (row := Row.read(item)) is not None]
    following = listing.get("nextOffset")
    more = listing.get("hasMore") is True and isinstance(following, int) and bool(found)
    return found, following if more and isinstance(following, int) else None


class Caller(Protocol):
    """Something that makes calls: a GatewayClient or a Connection."""

    async def call(self, method: str, params: Payload, *, seconds: float = ...) -> Any: ...


async def list_sessions(caller: Caller, *, limit: int = 200, pages: int = 50) -> list[Row]:
    """Every session as it stands, up to `limit` times `pages`."""
    found, following = page(await caller.call("sessions.list", {"limit": limit}))
    for _ in range(pages - 1):
        if following is None:
            break
        more, following = page(await caller.call("sessions.list", {"limit": limit, "offset": following}))
        found += more
    return found


async def describe_session(caller: Caller, key: str) -> Row | None:
    """One session's row, or None if there is none. It does not say whether a run is active."""
    reply = mapping(await caller.call("sessions.describe", {"key": key}))
    return Row.read(mapping(reply.get("session")))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        return None
    return int(value)
