"""A session's history: its rows, and the run that executes at this moment.

`inFlightRun` names the active run also where the list withholds it, and has its events and text so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rejoinder.openclaw.errors import CallFailed
from rejoinder.openclaw.frames import Payload, mapping, rows
from rejoinder.openclaw.sessions import Caller, Row
from rejoinder.turns.shortened import is_shortened
from rejoinder.turns.transcript import blocks_of

HISTORY_SECONDS = 60.0
#: The most rows the Gateway gives at once.
PAGE_ROWS = 1_000
PAGES = 20
#: The most characters of a text that the Gateway gives in a history, and of a row that is asked for alone.
PAGE_CHARS, ROW_CHARS = 500_000, 2_000_000


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
    """A session's newest `limit` times `pages` rows, their texts whole. An unknown session has none.

    Raises what a call raises; each page may take 60 seconds.
    """
    newest = await _page(caller, key, {"limit": limit})
    found, following = list(newest.rows), newest.following
    for _ in range(pages - 1):
        if following is None:
            break
        older = await _page(caller, key, {"limit": limit, "offset": following})
        found = [*older.rows, *found]
        # A page that does not lead further would be asked for without end.
        following = older.following if older.following and older.following > following else None
    whole = [await _whole(caller, key, row) if _is_shortened(row) else row for row in found]
    return History(newest.key or key, newest.session_id, whole, newest.session, newest.in_flight)


async def _page(caller: Caller, key: str, params: Payload) -> History:
    # Without this the Gateway cuts every text after 8,000 characters.
    asked = {"sessionKey": key, "maxChars": PAGE_CHARS, **params}
    return History.read(await caller.call("chat.history", asked, seconds=HISTORY_SECONDS))


async def _whole(caller: Caller, key: str, row: Payload) -> Payload:
    """A row whose text was cut, in full; as it is where the Gateway does not have it or does not know the call."""
    message_id = mapping(row.get("__openclaw")).get("id")
    if not isinstance(message_id, str):
        return row
    asked = {"sessionKey": key, "messageId": message_id, "maxChars": ROW_CHARS}
    try:
        reply = mapping(await caller.call("chat.message.get", asked, seconds=HISTORY_SECONDS))
    except CallFailed:
        return row
    message = mapping(reply.get("message"))
    return {**row, "content": message["content"]} if reply.get("ok") and "content" in message else row


def _is_shortened(row: Payload) -> bool:
    return any(is_shortened(str(block.get("text") or "")) for block in blocks_of(row))
