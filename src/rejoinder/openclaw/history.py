"""A session's history: its rows, and the run that executes at this moment.

`inFlightRun` names the active run also where the list withholds it, and has its events and text so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rejoinder.openclaw.frames import Payload, mapping, rows
from rejoinder.openclaw.sessions import Caller, Row

HISTORY_SECONDS = 60.0
#: The most rows the Gateway gives at once.
PAGE_ROWS = 1_000
PAGES = 20


@dataclass(frozen=True, slots=True)
class InFlight:
    """The run that executes: its text and its agent events so far."""

    run_id: str
    text: str
    events: Sequence[Payload]
    started_at: int | None = None

    @classmethod
    def read(cls, payload: object) -> InFlight | None:
        found = mapping(payload)
        run_id = found.get("runId")
        if not isinstance(run_id, str) or not run_id:
            return None
        started = found.get("startedAt")
        return cls(
            run_id,
            str(found.get("text") or ""),
            rows(found.get("events")),
            started if isinstance(started, int) else None,
        )


@dataclass(frozen=True, slots=True)
class History:
    """A session's rows, oldest first; its row of the list as it was then; the run in flight."""

    key: str
    session_id: str | None
    rows: Sequence[Payload]
    session: Row | None
    in_flight: InFlight | None
    following: int | None = None

    @classmethod
    def read(cls, payload: object) -> History:
        """From one reply of `chat.history`. `following`: the offset of the older rows that are not in it."""
        found = mapping(payload)
        key = str(found.get("sessionKey") or "")
        session_id = found.get("sessionId")
        following = found.get("nextOffset")
        more = found.get("hasMore") is True and isinstance(following, int)
        return cls(
            key=key,
            session_id=session_id if isinstance(session_id, str) else None,
            rows=rows(found.get("messages")),
            session=Row.read({"sessionKey": key, **mapping(found.get("sessionInfo"))}) if key else None,
            in_flight=InFlight.read(found.get("inFlightRun")),
            following=following if more and isinstance(following, int) else None,
        )


async def read_history(caller: Caller, key: str, *, limit: int = PAGE_ROWS, pages: int = PAGES) -> History:
    """A session's newest `limit` times `pages` rows. An unknown session has none. Raises what a call raises;
    each page may take 60 seconds."""
    newest = History.read(
        await caller.call("chat.history", {"sessionKey": key, "limit": limit}, seconds=HISTORY_SECONDS)
    )
    found, following = list(newest.rows), newest.following
    for _ in range(pages - 1):
        if following is None:
            break
        older = History.read(
            await caller.call(
                "chat.history",
                {"sessionKey": key, "limit": limit, "offset": following},
                seconds=HISTORY_SECONDS,
            )
        )
        found = [*older.rows, *found]
        # A page that does not lead further would be asked for without end.
        following = older.following if older.following and older.following > following else None
    return History(newest.key or key, newest.session_id, found, newest.session, newest.in_flight)
