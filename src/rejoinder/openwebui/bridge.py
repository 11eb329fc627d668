"""One connection to a Gateway, and the chats it writes into.

The reader of the connection feeds the run table and hands each action on at once; everything that takes time is done
beside. There is one bridge for a Gateway in a process; a new deploy's bridge retires the one before it, which then
claims nothing more, finishes what it shows and goes.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

from rejoinder.openclaw.calls import abort_chat, send_chat
from rejoinder.openclaw.client import GatewayClient
from rejoinder.openclaw.clock import Clock
from rejoinder.openclaw.connection import Drop
from rejoinder.openclaw.errors import CallFailed, GatewayError, Refused
from rejoinder.openclaw.frames import Event
from rejoinder.openclaw.handshake import Access, Hello
from rejoinder.openclaw.history import read_history
from rejoinder.openclaw.sessions import Row, list_sessions
from rejoinder.openwebui.afterwards import Afterwards
from rejoinder.openwebui.claim import Missing
from rejoinder.openwebui.host import Host
from rejoinder.openwebui.inline import Inline
from rejoinder.openwebui.intent import intent
from rejoinder.openwebui.messages import Messages
from rejoinder.openwebui.reconcile import Reconciler
from rejoinder.openwebui.registry import Registry, new_writer_id
from rejoinder.openwebui.writer import Writer
from rejoinder.turns import signals
from rejoinder.turns.finish import Final
from rejoinder.turns.identity import chat_key, message_id, parse_key
from rejoinder.turns.items import Text
from rejoinder.turns.signals import Action, Signal
from rejoinder.turns.table import RunTable

log = logging.getLogger("rejoinder.openwebui")

#: Runs that are remembered as settled.
_KEPT = 500
#: Seconds for work that was cancelled to come to its end.
_GRACE = 5
STEERED = "This message was added to the reply that was being written."
LOST = "The Gateway ended before it took up this message, which waited for its turn. Send it again."
COLLECTED = "This message is answered together with the next one."


class Bridge:
    """The listener of one Gateway's connection.

    models: how the ids of the chat models begin that this bridge answers for, such as `openclaw_gateway.`.
    send_stop: whether a Stop also sends `/stop`, which ends a tool that still runs.
    """

    def __init__(
        self,
        host: Host,
        access: Access,
        *,
        models: str = "openclaw_gateway.",
        send_stop: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self.id = new_writer_id()
        self.host = host
        self.models = models
        self.send_stop = send_stop
        self.client = GatewayClient(access, self, clock=clock)
        self.table = RunTable(self._accepts)
        self.registry = Registry(host.anchor)
        self.afterwards = Afterwards(
            host, self.client, settled=self._settled, idle=self._idle, spawn=self.spawn
        )
        self.messages = Messages(
            host,
            self.registry,
            self.id,
            stopped=self._writer_stopped,
            emptied=self._emptied,
            lines=self.afterwards.lines,
            finished=self.afterwards.finished,
        )
        self.listed: dict[str, Row] = {}
        self.retired = False
        self.hellos = 0
        #: The model last set for a session by this bridge; None for the agent's own.
        self.chosen: dict[str, str | None] = {}
        #: What a session's person was told once, and need not be told again.
        self.noted: set[tuple[str, str]] = set()
        self._settled_runs: dict[str, None] = {}
        self._extra: set[str] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        self._reconciler = Reconciler(self)

    def start(self) -> None:
        """Connect, and take over from the bridges before."""
        self.registry.enter(self.id, self.retire)
        self.client.start()

    def retire(self) -> None:
        """Claim nothing more; go when what is shown is finished."""
        self.retired = self.messages.retired = True
        self._emptied()

    async def close(self) -> None:
        """Disconnect at once."""
        self.retired = self.messages.retired = True
        ending = {task for task in self._tasks if task is not asyncio.current_task()}
        for task in ending:
            task.cancel()
        if ending:
            # One that is cut off in the Host's database has its connection to give back, and may not be cut off there.
            await asyncio.wait(ending, timeout=_GRACE)
        await self.messages.close()
        await self.client.close()
        self.registry.leave(self.id)
        self._stir()

    # What the connection tells.

    def on_hello(self, hello: Hello, sessions: Sequence[Row], rebooted: bool) -> None:
        self.hellos += 1
        self.listed = {row.key: row for row in sessions}
        self.feed(signals.Hello(hello.boot_id, [row.raw for row in sessions]))
        self._reconcile(sessions)

    def on_event(self, event: Event) -> None:
        row = Row.read(event.payload) if event.name == "sessions.changed" else None
        # Some of them tell of something else and say nothing of how the session stands.
        if row is not None and row.status is not None:
            self.listed[row.key] = row
            if row.last_run_id and str(event.payload.get("reason") or "").endswith(".settled"):
                self._settled_runs[row.last_run_id] = None
                while len(self._settled_runs) > _KEPT:
                    del self._settled_runs[next(iter(self._settled_runs))]
        self.feed(signals.Pushed(event.name, event.payload))

    def on_gap(self) -> None:
        self.feed(signals.Gap())

    def on_drop(self, drop: Drop) -> None:
        self.feed(signals.Dropped())

    def on_refused(self, refused: Refused) -> None:
        self._stir()

    # What is done about it.

    def feed(self, signal: Signal, missing: Mapping[str, Missing] | None = None) -> None:
        """Tell the run table something and do what it answers. missing: for runs that nobody watched, by message."""
        for action in self.table.feed(signal):
            self._act(action, missing)
        self._stir()

    def _act(self, action: Action, missing: Mapping[str, Missing] | None) -> None:
        if isinstance(action, signals.Show):
            self.messages.show(action.run, action.diff, first=action.first)
        elif isinstance(action, signals.End):
            self.afterwards.ended(action.run, action.final)
            how: Missing = "put"
            if missing is not None and not action.run.state.events:
                how = missing.get(action.run.message_id or "", "put")
            self.messages.end(action.run, action.final, missing=how)
        elif isinstance(action, signals.Discard):
            self.messages.discard(action.run)
        elif isinstance(action, signals.Cut):
            if chat_key(action.run.key):
                self.messages.leave(action.run.message_id)
        elif isinstance(action, signals.ReadHistory):
            self.spawn(self._read(action.key))
        elif isinstance(action, signals.ReadList):
            self.spawn(self._list())
        elif isinstance(action, signals.Steered):
            self._without_run(action.key, action.run_id, Final([Text("elsewhere", STEERED)]))
        elif isinstance(action, signals.Collected):
            self._without_run(action.key, action.run_id, Final([Text("elsewhere", COLLECTED)]))
        elif isinstance(action, signals.Lost):
            self._without_run(action.key, action.run_id, Final([], error=LOST))

    def _without_run(self, key: str, run_id: str, final: Final) -> None:
        """A message that no run of its own answers: its reply says so."""
        reply_id = message_id(key, run_id)
        if reply_id is not None:
            self.messages.end_without_run(key, run_id, reply_id, final)

    async def _read(self, key: str) -> None:
        try:
            payload = await self.history(key)
        except GatewayError as error:
            log.info("The history of a session could not be read: %s", error)
            # After a drop the next hello asks again for whatever is still open.
            if self.client.connected:
                restarting = isinstance(error, CallFailed) and error.restarting
                self.feed(signals.HistoryFailed(key, restarting))
            return
        standing = self._reconciler.known.get(key)
        self.feed(
            signals.HistoryRead(key, payload),
            self._reconciler.judge(key, payload, standing) if standing is not None else None,
        )

    async def history(self, key: str) -> dict[str, Any]:
        """A session's history as the run table reads it. Raises what a call raises."""
        found = await read_history(self.client, key)
        payload: dict[str, Any] = {"sessionKey": key, "messages": list(found.rows)}
        if found.session_id:
            payload["sessionId"] = found.session_id
        if found.session is not None:
            payload["sessionInfo"] = found.session.raw
        flight = found.in_flight
        if flight is not None:
            payload["inFlightRun"] = {
                "runId": flight.run_id,
                "text": flight.text,
                "events": list(flight.events),
                "startedAt": flight.started_at,
            }
        return payload

    async def _list(self) -> None:
        try:
            rows = await list_sessions(self.client)
        except GatewayError as error:
            log.info("The sessions could not be listed: %s", error)
            return
        self.listed = {row.key: row for row in rows}
        self.feed(signals.Listed([row.raw for row in rows]))
        self._reconcile(rows)

    def _reconcile(self, rows: Iterable[Row]) -> None:
        if not self.retired:
            self.spawn(self._reconciler.run([row for row in rows if chat_key(row.key)]))

    # What requests ask for.

    def accept(self, key: str) -> None:
        """Follow a session that is no chat's, for a request without a chat."""
        self._extra.add(key)

    def forget(self, key: str) -> None:
        """Follow it no more."""
        self._extra.discard(key)

    def active(self, key: str) -> bool:
        """Whether a run goes on in the session, or the Gateway is about to go on with one that a restart cut."""
        row = self.listed.get(key)
        recovers = row is not None and row.status == "running"
        return any(
            run.key == key and not run.ending and (recovers or not run.cut) for run in self.table.unfinished()
        )

    async def idle(self, key: str) -> None:
        """Wait until no run goes on in the session. The Gateway's word ends it and no clock."""
        while self.active(key) and not self.retired:
            await self._stirred()

    def left_waiting(self, key: str, message_id: str) -> None:
        """A message that waited for the session was taken back: with Stop, nobody waits for a cut run any longer."""
        self.spawn(self._left_waiting(key, message_id))

    async def _left_waiting(self, key: str, message_id: str) -> None:
        chat = parse_key(key)
        if chat is not None and await intent(self.host, chat.user, chat.chat, message_id) == "stop":
            self.feed(signals.GivenUp(key))

    async def _settled(self, run_id: str) -> None:
        """Wait until the Gateway said that nothing of the run is left to do: only then its files are there."""
        while self.client.connected and run_id not in self._settled_runs:
            await self._stirred()

    async def _idle(self, key: str, run_id: str) -> None:
        """Wait until the run is settled, or the session's row says that nothing runs there."""
        while self.client.connected and run_id not in self._settled_runs:
            row = self.listed.get(key)
            if row is not None and not row.has_active_run and row.status != "running":
                return
            await self._stirred()

    async def greeted_after(self, hellos: int) -> None:
        """Wait until the Gateway was greeted more often than `hellos` times."""
        while self.hellos <= hellos and not self.retired:
            await self._stirred()

    async def _stirred(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def hand_over(self, key: str, run_id: str, message_id: str, inline: Inline) -> None:
        """A request ended before its run: find out why, and write on or stop.

        Called from the request itself, which must not be kept: everything else is done beside.
        """
        request = asyncio.current_task()
        self.spawn(self._hand_over(key, run_id, message_id, inline, request))

    async def _hand_over(
        self, key: str, run_id: str, message_id: str, inline: Inline, request: asyncio.Task[Any] | None
    ) -> None:
        chat = parse_key(key)
        if chat is None:
            await self.stop(key, run_id)
            return
        meant = "send" if inline.left else await intent(self.host, chat.user, chat.chat, message_id)
        if request is not None and request is not asyncio.current_task():
            # The Host writes its own end of the request into the message: ours comes after.
            await asyncio.wait((request,))
        self.messages.take_over(key, run_id, message_id, inline, stop=meant == "stop")
        if meant == "stop":
            running = self._running(key, message_id)
            await self.stop(key, running or run_id)
            if running is None:
                # It was still queued: no run of it will ever tell its end.
                self.messages.give_up(message_id)

    def _writer_stopped(self, writer: Writer) -> None:
        self.spawn(self._stop_or_go_on(writer))

    async def _stop_or_go_on(self, writer: Writer) -> None:
        place = writer.place
        key = next(
            (run.key for run in self.table.unfinished() if run.message_id == place.message_id),
            None,
        )
        if key is None or await intent(self.host, place.user_id, place.chat_id, place.message_id) != "stop":
            await writer.resume()
            return
        if not await self.stop(key, self._running(key, place.message_id)):
            await writer.resume()

    def _running(self, key: str, message_id: str) -> str | None:
        return next(
            (
                run.run_id
                for run in reversed(self.table.unfinished())
                if run.key == key and run.message_id == message_id
            ),
            None,
        )

    async def stop(self, key: str, run_id: str | None) -> bool:
        """Stop a run on the Gateway. False if it cannot be told; the run's own end says the rest."""
        try:
            await abort_chat(self.client, key, run_id)
            if self.send_stop:
                await send_chat(self.client, key, "/stop", f"owui-action-stop-{uuid.uuid4()}")
        except GatewayError as error:
            log.warning("A run could not be stopped: %s", error)
            return False
        return True

    # Its own life.

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work beside the reader."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._spawned)

    def _spawned(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            if task.cancelling():
                # Ended by us in the middle of the Host's database, which may tell that as a fault of its own.
                log.info("Something of a chat was left undone at the end: %r", error)
            else:
                log.error("Something of a chat could not be done.", exc_info=error)
        self._emptied()

    def _emptied(self) -> None:
        if self.retired and not self.messages.busy and not self._tasks and self._closing is None:
            self.registry.leave(self.id)
            # Not `spawn`: that would come back here.
            self._closing = asyncio.get_running_loop().create_task(self.client.close())

    def _stir(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _accepts(self, key: str) -> bool:
        return chat_key(key) or key in self._extra
