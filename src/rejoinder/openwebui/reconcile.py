"""What happened while nobody looked: runs that ended unseen, and messages that nobody finished.

A session that changed at or after its chat did has its history read, and every closed run in it without a finished
message gets one. Two recorded times are compared and nothing waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from rejoinder.openclaw.errors import GatewayError
from rejoinder.openclaw.frames import Payload, mapping
from rejoinder.openclaw.sessions import Row
from rejoinder.openwebui.claim import Missing
from rejoinder.openwebui.title import text_of
from rejoinder.turns import signals
from rejoinder.turns.identity import OwnRun, message_id, parse_key
from rejoinder.turns.transcript import RunRows, meta_of, runs_in

if TYPE_CHECKING:
    from rejoinder.openwebui.bridge import Bridge

log = logging.getLogger("rejoinder.openwebui")

#: Histories read at the same time after a start.
TOGETHER = 4
CUT_OFF = (
    "This reply was cut off before it was finished, and the agent's transcript has no more of it. "
    "Send the message again if you still need an answer."
)


@dataclass(slots=True)
class Standing:
    """A chat as it stood when the connection was made: when it last changed, in seconds, and what was unfinished."""

    changed: int
    unfinished: list[str] = field(default_factory=list)


class Reconciler:
    """Does it for one bridge, whenever the whole list was read."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self.known: dict[str, Standing] = {}

    async def run(self, rows: Sequence[Row]) -> None:
        """Look after every chat of the list."""
        chats = {row.key: chat.chat for row in rows if (chat := parse_key(row.key)) is not None}
        standings = await self._bridge.host.standings(chats.values())
        due: list[Row] = []
        for row in rows:
            found = standings.get(chats[row.key])
            if found is None:
                continue
            standing = self.known[row.key] = Standing(found[0], list(found[1]))
            if standing.unfinished or (row.updated_at or 0) >= standing.changed * 1000:
                due.append(row)
        gate = asyncio.Semaphore(TOGETHER)

        async def one(row: Row) -> None:
            async with gate:
                await self._look(row)

        await asyncio.gather(*(one(row) for row in due))

    async def _look(self, row: Row) -> None:
        bridge, standing = self._bridge, self.known[row.key]
        asked = bridge.table.now
        try:
            payload = await bridge.history(row.key)
        except GatewayError as error:
            log.info("The history of a session could not be read: %s", error)
            return
        missing = self.judge(row.key, payload, standing)
        left = await self._left(row.key, standing, missing)
        bridge.feed(signals.HistoryRead(row.key, payload, adopt=True, asked=asked, left=left), missing)
        session = Row.read({"sessionKey": row.key, **mapping(payload.get("sessionInfo"))})
        going_on = payload.get("inFlightRun") or (
            session is not None and (session.has_active_run or session.status == "running")
        )
        if not going_on:
            await self._finish_rest(row.key, standing, missing)

    async def _left(self, key: str, standing: Standing, told: Mapping[str, Missing]) -> dict[str, str]:
        """What was asked of the chat's unfinished replies that no run of the history names, oldest first: it may wait
        in the Gateway, or be in a collection, which names no message."""
        chat = parse_key(key)
        ones = [
            one for one in standing.unfinished if one not in told and self._bridge.messages.sink(one) is None
        ]
        if chat is None or not ones:
            return {}
        async with self._bridge.host.edit(chat.chat) as found:
            known = dict(found.messages) if found is not None else {}
        mine = [one for one in ones if self._ours(known.get(one, {}))]
        asked = {
            one: known.get(str(known[one].get("parentId")), {})
            for one in sorted(mine, key=partial(_depth, known))
        }
        return {
            str(OwnRun(chat.chat, one, "left")): text_of(message)
            for one, message in asked.items()
            if message.get("role") == "user"
        }

    def _ours(self, message: Mapping[str, Any]) -> bool:
        notes = mapping(message.get("meta"))
        return str(message.get("model") or "").startswith(self._bridge.models) or bool(
            notes.get("openclaw_run")
        )

    async def _finish_rest(self, key: str, standing: Standing, told: Mapping[str, Missing]) -> None:
        chat = parse_key(key)
        if chat is None or not standing.unfinished:
            return
        async with self._bridge.host.edit(chat.chat) as found:
            known = dict(found.messages) if found is not None else {}
        for one in standing.unfinished:
            message = known.get(one)
            if message is None or one in told or message.get("done"):
                continue
            if self._ours(message) and self._bridge.messages.sink(one) is None:
                await self._bridge.messages.finish_cut(key, one, CUT_OFF)

    def judge(self, key: str, payload: Payload, standing: Standing) -> dict[str, Missing]:
        """For each message that the history's runs have: what is done if the chat does not have it."""
        found: dict[str, Missing] = {}
        session_id = payload.get("sessionId")
        for run in runs_in(payload.get("messages") or (), session_id):
            one = message_id(key, run.run_id, run.input_run, session_id=session_id)
            if one is None:
                continue
            when, changed = _last(run), standing.changed * 1000
            # A chat knows its last change by the second only.
            found[one] = "put" if when >= changed + 1000 else "doubt" if when >= changed else "leave"
        return found


def _depth(messages: Mapping[str, Mapping[str, Any]], one: str) -> int:
    """How many messages stand above it."""
    seen: set[str] = set()
    at: object = one
    while isinstance(at, str) and at in messages and at not in seen:
        seen.add(at)
        at = messages[at].get("parentId")
    return len(seen)


def _last(run: RunRows) -> float:
    """When the run last wrote, in the Gateway's milliseconds."""
    stamps: list[Any] = [meta_of(row).get("recordTimestampMs") or row.get("timestamp") for row in run.rows]
    return max((float(stamp) for stamp in stamps if isinstance(stamp, (int, float))), default=0.0)
