"""The button that shows how an agent's session stands: its context, the limits, its sub-agents; and compacts it.

It writes no message. It uses the pipe's own connection; where that is another deploy's, one of its own that listens to
nothing. A message of an older bridge that ends with a sub-agent's task id opens this sub-agent at once, to be read.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from rejoinder.openclaw.calls import send_chat
from rejoinder.openclaw.client import GatewayClient
from rejoinder.openclaw.errors import GatewayError
from rejoinder.openclaw.history import read_history
from rejoinder.openclaw.standing import Child, find_child, list_children, read_limits, read_standing
from rejoinder.openwebui import facts
from rejoinder.openwebui.advice import advice
from rejoinder.openwebui.deployment import SettingError, client_for
from rejoinder.openwebui.dialog import Call, Dialog, Gone, Line, Part
from rejoinder.openwebui.host import Host, UnknownHost
from rejoinder.openwebui.runs import said_at_end
from rejoinder.openwebui.valves import EventValves, PipeValves
from rejoinder.turns.items import Card, Text
from rejoinder.turns.transcript import items_of

log = logging.getLogger("rejoinder.openwebui")

READY_SECONDS = 10.0
COMPACT_SECONDS = 180.0
CONTEXT, LIMITS, CHILDREN = "Context", "Limits", "Sub-agents"
#: Lines of a sub-agent's transcript that are shown, and characters of each.
TRANSCRIPT, SHOWN = 200, 2_000
_COMPACT, _CHILD = "compact", "child:"
_MARKER = re.compile(r"<!--[^>]*?task[-_ ]?id\W*([\w:.-]{6,200}?)\W*-->", re.IGNORECASE)
_tasks: set[asyncio.Task[None]] = set()


class Action:
    """What Open WebUI loads."""

    class Valves(EventValves):
        """See `valves`."""

    def __init__(self) -> None:
        self.valves = self.Valves()

    async def action(
        self,
        body: Mapping[str, Any],
        __user__: Mapping[str, Any] | None = None,
        __event_emitter__: Any = None,
        __event_call__: Any = None,
        __request__: Any = None,
    ) -> None:
        """The button was pressed under a message. Returns at once; the window lives on beside."""
        if body.get("event"):
            return  # another button under the message, which the page tells every action of
        task = asyncio.get_running_loop().create_task(
            self._show(dict(body), dict(__user__ or {}), __event_emitter__, __event_call__, __request__)
        )
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    async def _show(
        self, body: Mapping[str, Any], user: Mapping[str, Any], emitter: Any, call: Call, request: Any
    ) -> None:
        app = getattr(request, "app", None)
        try:
            kept = PipeValves(**await Host.probe(app).valves(self.valves.PIPE_ID))
            agent = kept.AGENT_ID.strip() or "main"
            key = f"agent:{agent}:openwebui-{user.get('id')}-{body.get('chat_id')}"
            async with client_for(kept) as client:
                await client.ready(READY_SECONDS)
                await Window(client, key, Dialog(call)).show(old_task(body))
        except Gone:
            log.info("The page that asked for a session's status went away.")
        except (SettingError, UnknownHost, GatewayError) as error:
            told = advice(error) if isinstance(error, GatewayError) else str(error)
            await emitter({"type": "notification", "data": {"type": "error", "content": told}})
        except Exception:
            fault = uuid.uuid4().hex[:12]
            log.exception("The status of a session could not be shown (%s).", fault)
            told = f"The status could not be shown. Open WebUI's log says more under {fault}."
            await emitter({"type": "notification", "data": {"type": "error", "content": told}})


def old_task(body: Mapping[str, Any]) -> str | None:
    """The sub-agent's task id that the message the button was pressed under carries, hidden, from an older bridge."""
    messages = body.get("messages")
    for message in reversed(messages if isinstance(messages, list) else []):
        if isinstance(message, Mapping) and message.get("id") == body.get("id"):
            found = _MARKER.search(str(message.get("content") or ""))
            return found[1] if found else None
    return None


class Window:
    """The window of one session, from its opening to its end."""

    def __init__(self, client: GatewayClient, key: str, dialog: Dialog) -> None:
        self._client, self._key, self._dialog = client, key, dialog
        self._children: dict[str, Child] = {}

    async def show(self, task: str | None = None) -> None:
        """Show it, and do what is pressed until it is closed. task: a sub-agent to begin with."""
        dialog = self._dialog
        await dialog.open("OpenClaw", (CONTEXT, LIMITS, CHILDREN))
        if task is not None:
            await self._detail(task)
        await asyncio.gather(self._context(), self._limits(), self._list())
        while (pressed := await dialog.pressed()) is not None:
            if pressed == _COMPACT:
                await self._compact()
            elif pressed.startswith(_CHILD):
                await self._detail(pressed.removeprefix(_CHILD))

    async def _context(self, note: str = "") -> None:
        try:
            standing = await read_standing(self._client, self._key)
        except GatewayError as error:
            await self._failed(CONTEXT, error)
            return
        if standing is None:
            await self._dialog.put(CONTEXT, Part(CONTEXT, note="The agent has no session for this chat yet."))
            return
        full = facts.context(standing) or "How full the context is, is known after the next reply."
        lines = [Line("Model", standing.model)] if standing.model else []
        lines.append(Line("", full, percent=standing.percent))
        if standing.compactions:
            lines.append(Line("Compacted", f"{standing.compactions} times"))
        if standing.goal:
            lines.append(Line("Goal", f"{standing.goal} ({standing.goal_status})"))
        await self._dialog.put(CONTEXT, Part(CONTEXT, lines, note, ("Compact", _COMPACT)))

    async def _limits(self) -> None:
        try:
            limits = await read_limits(self._client)
        except GatewayError as error:
            await self._failed(LIMITS, error)
            return
        now = time.time()
        lines = [
            Line(
                facts.name(one),
                facts.left(one) + (f", resets {facts.when(one, now)}" if one.resets_at else ""),
                percent=round(one.used),
            )
            for one in limits
        ]
        note = "" if lines else "The providers in use name no limits."
        await self._dialog.put(LIMITS, Part(LIMITS, lines, note))

    async def _list(self) -> None:
        try:
            children = await list_children(self._client, self._key)
        except GatewayError as error:
            await self._failed(CHILDREN, error)
            return
        self._children |= {child.task: child for child in children}
        lines = [
            Line(_short(child.title, 90) or "Sub-agent", _state(child), presses=f"{_CHILD}{child.task}")
            for child in children
        ]
        note = "" if lines else "This session started no sub-agents."
        await self._dialog.put(CHILDREN, Part(CHILDREN, lines, note))

    async def _detail(self, task: str) -> None:
        try:
            child = await find_child(self._client, task) or self._children.get(task)
            rows: Sequence[Mapping[str, Any]] = ()
            if child is not None:
                rows = (await read_history(self._client, child.key, limit=TRANSCRIPT, pages=1)).rows
        except GatewayError as error:
            await self._dialog.detail(Part("Sub-agent", note=advice(error)))
            return
        if child is None:
            await self._dialog.detail(
                Part("Sub-agent", note="The Gateway does not know this sub-agent any more.")
            )
            return
        lines = [Line("State", _state(child)), Line("Task", _short(child.title, SHOWN))]
        for item in items_of(rows):
            if isinstance(item, Text):
                lines.append(Line("", _short(item.text, SHOWN, keep=True)))
            elif isinstance(item, Card):
                told = f"{item.status}\n{_short(item.output or '', SHOWN, keep=True)}".strip()
                lines.append(Line(item.name, told))
        await self._dialog.detail(Part("Sub-agent", lines))

    async def _compact(self) -> None:
        try:
            standing = (await read_history(self._client, self._key, limit=1, pages=1)).session
            if standing is not None and standing.has_active_run:
                await self._context("A reply is being written. Compact when it is finished.")
                return
            await self._dialog.put(CONTEXT, Part(CONTEXT, note="Compacting… This can take minutes."))
            run_id = f"owui-action-compact-{uuid.uuid4()}"

            async def send() -> None:
                await send_chat(self._client, self._key, "/compact", run_id, deliver=False)

            told = await said_at_end(self._client, self._key, run_id, send, COMPACT_SECONDS)
            note = told or "The session was compacted."
        except TimeoutError:
            note = "The Gateway still compacts. Open this window again later."
        except GatewayError as error:
            note = advice(error)
        await self._context(note)

    async def _failed(self, name: str, error: GatewayError) -> None:
        await self._dialog.put(name, Part(name, note=advice(error)))


def _state(child: Child) -> str:
    told = child.status.replace("_", " ") or "unknown"
    if child.tools:
        told += f", {child.tools} tool {'call' if child.tools == 1 else 'calls'}"
    if child.started_at and child.ended_at:
        told += f", {max(0, round((child.ended_at - child.started_at) / 1000))} s"
    return told


def _short(text: str, limit: int, *, keep: bool = False) -> str:
    line = text.strip() if keep else " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"
