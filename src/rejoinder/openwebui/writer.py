"""The task that writes one message: it streams into every open page and finishes the message in the database.

While it writes it is a task of the chat, so that the page shows Stop and queues what is typed. What is shown so far is
kept in the Host's response stream BEFORE it is told, so that a page that opens meanwhile loses nothing. The chat's row
is written when the message is claimed and when it is finished, and at no other time.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from rejoinder.openwebui.claim import TASK, Place
from rejoinder.openwebui.emit import Emission, Event, joined
from rejoinder.openwebui.facts import new_lines, with_lines
from rejoinder.openwebui.host import Emit, Host
from rejoinder.openwebui.intent import Hook
from rejoinder.turns.finish import Final
from rejoinder.turns.reducer import Op

log = logging.getLogger("rejoinder.openwebui")


def finished_fields(emission: Emission, final: Final) -> dict[str, Any]:
    """A finished message's fields in the database."""
    fields: dict[str, Any] = {
        "content": emission.text,
        "output": list(emission.output),
        "done": True,
    }
    if final.error and not final.silent:
        fields["error"] = {"content": final.error}
    if final.usage:
        fields["usage"] = final.usage.told
    return fields


class Writer:
    """Writes one claimed message. Feed it by `show` and `end`, which return at once.

    on_stopped: somebody cancelled the task (Stop or Send now). The writer rests, and still takes what it is fed, until
        `resume` lets it go on in a new task or its end comes.
    on_over: the message is finished, or its chat is gone.
    lines: what stands above the finished message. It is written with it, and may keep it for a moment.
    hook: has the pages note which of Stop and Send now was used.
    """

    def __init__(
        self,
        host: Host,
        place: Place,
        emission: Emission,
        *,
        on_stopped: Callable[[Writer], None],
        on_over: Callable[[Writer], None],
        lines: Callable[[], Awaitable[list[str]]],
        hook: Hook,
    ) -> None:
        self.place = place
        self.task_id = place.task_id
        self._host = host
        self._emission = emission
        self._events: list[Event] = []
        self._final: Final | None = None
        self._wake = asyncio.Event()
        self._emit: Emit | None = None
        self._on_stopped, self._on_over, self._lines = on_stopped, on_over, lines
        self._hook = hook
        self._over = False
        self._running = False
        self._entered = False
        self._begun = False

    async def begin(self) -> None:
        """Show the message in the open pages and start to write."""
        place = self.place
        self._emit = await self._host.emitter(place.user_id, place.chat_id, place.message_id)
        await self._emit({"type": "chat:messages", "data": place.turn})
        if self._emission.output:
            # Taken over: what the message shows already is told as a whole.
            self._events.append({"type": "snapshot"})
        await self._start()

    async def resume(self) -> None:
        """Go on in a new task after the page cancelled the last one."""
        if self._over or self._running:
            return
        # The Host forgets an ended task a moment later: the next one needs a name of its own.
        self.task_id = str(uuid.uuid4())
        self._events.append({"type": "snapshot"})
        await self._start()

    def show(self, diff: Iterable[Op]) -> None:
        """More of the message."""
        if self._final is None:
            self._events += self._emission.apply(diff)
            self._wake.set()

    def end(self, final: Final) -> None:
        """The message is finished and is exactly this."""
        self._final = final
        self._wake.set()
        if self._begun and not self._running and not self._over:
            # Nobody's task any more: it was stopped.
            self._running = True
            asyncio.get_running_loop().create_task(self._finish_safely())

    async def _start(self) -> None:
        self._running, self._entered = True, False
        place = self.place
        task = await self._host.start_task(place.chat_id, self.task_id, self._run())
        task.add_done_callback(self._left_out)
        self._begun = True
        if self._emit is not None:
            await self._emit({"type": "chat:active", "data": {"active": True}})

    def _left_out(self, task: asyncio.Task[None]) -> None:
        # Cancelled before its first step, a task runs nothing at all of what it should have done.
        if task.cancelled() and not self._entered and not self._over:
            self._rest()

    def _rest(self) -> None:
        self._running = False
        if self._final is None:
            self._on_stopped(self)
        else:
            self.end(self._final)

    async def _run(self) -> None:
        self._entered = True
        try:
            while True:
                await self._tell()
                if self._final is not None:
                    break
                await self._wake.wait()
                self._wake.clear()
        except asyncio.CancelledError:
            if not self._over:
                self._rest()
            raise
        except Exception:
            # The pages lose the stream; the finished message still comes.
            log.exception("The message %s of a chat could not be streamed.", self.place.message_id)
            while self._final is None:
                await self._wake.wait()
                self._wake.clear()
        # Finishing is not broken off half-way by a Stop that comes now.
        await asyncio.shield(asyncio.ensure_future(self._finish_safely()))

    async def _tell(self) -> None:
        events, self._events = joined(self._events), []
        if not events:
            return
        assert self._emit is not None
        self._hook.look()
        place, output = self.place, list(self._emission.output)
        await self._host.save_stream(
            place.chat_id, place.message_id, self.task_id, self._emission.text, output
        )
        if any(event["type"] == "snapshot" for event in events):
            # The whole has everything that came meanwhile: told one by one as well it would be there twice.
            await self._emit({"type": "chat:completion", "data": {"output": output}})
            return
        for event in events:
            await self._emit({"type": "response:completion", "data": event})

    async def _finish_safely(self) -> None:
        try:
            await self._finish()
        except Exception:
            log.exception("The message %s of a chat could not be finished.", self.place.message_id)
        finally:
            self._over = True
            self._on_over(self)

    async def _finish(self) -> None:
        written: Final | None = None
        while written is not self._final:
            # Another end may come while one is written: the last one stays.
            written = self._final
            assert written is not None
            await self._write(written)

    async def _write(self, final: Final) -> None:
        place = self.place
        self._emission.finish(final.items)
        fields = {**finished_fields(self._emission, final), "meta": {**place.meta, TASK: self.task_id}}
        told = await self._lines()
        shown: list[dict[str, Any]] = []
        async with self._host.edit(place.chat_id) as chat:
            message = chat.messages.get(place.message_id) if chat is not None else None
            if chat is not None and message is not None:
                shown = new_lines(message, told)
                await chat.put(place.message_id, {**fields, **with_lines(message, told)})
        if self._emit is None:
            self._emit = await self._host.emitter(place.user_id, place.chat_id, place.message_id)
        data: dict[str, Any] = {"done": True, "content": fields["content"], "output": fields["output"]}
        if "usage" in fields:
            data["usage"] = fields["usage"]
        if "error" in fields:
            await self._emit({"type": "chat:message:error", "data": {"error": fields["error"]}})
        for line in shown:
            await self._emit({"type": "status", "data": line})
        await self._emit({"type": "chat:completion", "data": data})
        if await self._host.end_task(place.chat_id, self.task_id):
            await self._emit({"type": "chat:active", "data": {"active": False}})


async def announce_finished(host: Host, place: Place, error: str | None = None) -> None:
    """Tell the open pages of a message that was written whole, with its lines."""
    emit = await host.emitter(place.user_id, place.chat_id, place.message_id)
    await emit({"type": "chat:messages", "data": place.turn})
    message = place.turn["messages"][place.message_id]
    if error:
        await emit({"type": "chat:message:error", "data": {"error": {"content": error}}})
    data = {"done": True, "content": message.get("content", ""), "output": message.get("output", [])}
    await emit({"type": "chat:completion", "data": data})
    if not await host.tasks(place.chat_id):
        await emit({"type": "chat:active", "data": {"active": False}})
