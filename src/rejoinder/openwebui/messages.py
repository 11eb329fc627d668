"""Which run writes which message, and the claims that come before: the part of a bridge that touches chats.

Everything that is told here returns at once. What a chat must be asked for is done one after the other for each chat,
so that messages stand in the order in which their runs came, and no chat waits for another.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from rejoinder.openwebui.claim import Missing, Place, claim
from rejoinder.openwebui.emit import Emission
from rejoinder.openwebui.host import Host
from rejoinder.openwebui.inline import Inline
from rejoinder.openwebui.intent import Hook
from rejoinder.openwebui.registry import Registry
from rejoinder.openwebui.writer import Writer, announce_finished, finished_fields
from rejoinder.turns.finish import Final
from rejoinder.turns.identity import parse_key
from rejoinder.turns.reducer import Op
from rejoinder.turns.signals import Run

log = logging.getLogger("rejoinder.openwebui")

#: How many messages written by this process are remembered, so that more of one is known for ours.
_KEPT = 2_000


class Opening:
    """A message that is being claimed, or that rests after a Stop: what comes meanwhile is kept."""

    def __init__(self, emission: Emission | None = None) -> None:
        self.emission = emission or Emission()
        self.final: Final | None = None
        self.ended = asyncio.Event()

    def show(self, diff: Iterable[Op]) -> None:
        """More of the message."""
        if self.final is None:
            self.emission.apply(diff)

    def end(self, final: Final) -> None:
        """The message is exactly this."""
        self.final = final
        self.ended.set()


class Messages:
    """The messages of one bridge.

    stopped: somebody pressed Stop or Send now on a message that a writer of ours writes.
    lines: what stands above a message whose run is over. finished: a message of ours is written to its end.
    """

    def __init__(
        self,
        host: Host,
        registry: Registry,
        writer_id: str,
        *,
        stopped: Callable[[Writer], None],
        emptied: Callable[[], None],
        lines: Callable[[str], Awaitable[list[str]]],
        finished: Callable[[str], None],
    ) -> None:
        self._host, self._registry, self._writer_id = host, registry, writer_id
        self._stopped, self._emptied, self._lines, self._finished = stopped, emptied, lines, finished
        self._sinks: dict[str, Inline | Opening | Writer] = {}
        self._mine: OrderedDict[str, None] = OrderedDict()
        self._chats: dict[str, asyncio.Lock] = {}
        self._overtaken: dict[str, tuple[str, str, Final]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.retired = False

    @property
    def busy(self) -> bool:
        """Whether anything is written or claimed."""
        return bool(self._sinks or self._tasks)

    def sink(self, message_id: str) -> Inline | Opening | Writer | None:
        """Who shows a message now."""
        return self._sinks.get(message_id)

    def stream(self, message_id: str) -> Inline:
        """A request of the Host's streams this message itself from now on."""
        inline = Inline()
        self._sinks[message_id] = inline
        self._registry.hold(message_id)
        return inline

    def streamed(self, message_id: str, inline: Inline) -> None:
        """The request had the whole reply. The Host writes it into the chat before the request's task ends."""
        if self._sinks.get(message_id) is not inline:
            return
        self._remember(message_id)
        request = asyncio.current_task()
        del self._sinks[message_id]
        if request is None:
            self._released(message_id)
        else:
            request.add_done_callback(lambda _: self._released(message_id))

    def show(self, run: Run, diff: Iterable[Op], *, first: bool) -> None:
        """More of a run's message. `first`: this is all of it, and it is to be claimed."""
        message_id = run.message_id
        if message_id is None:
            return
        sink = self._sinks.get(message_id)
        if sink is None:
            if not first or self.retired or parse_key(run.key) is None:
                return
            opening = self._sinks[message_id] = Opening()
            opening.show(diff)
            self.spawn(self._open(run.key, run.run_id, message_id, opening))
        else:
            sink.show(diff)

    def end(self, run: Run, final: Final, *, missing: Missing = "put") -> None:
        """A run's message is exactly this."""
        message_id = run.message_id
        if message_id is None:
            return
        sink = self._sinks.get(message_id)
        closing = isinstance(sink, Inline) and sink.closing and not sink.left
        streamed = sink is None and message_id in self._mine and self._registry.held(message_id)
        if closing or streamed:
            # The Host is about to write what the request streamed: this comes after it.
            self._overtaken[message_id] = (run.key, run.run_id, final)
        elif sink is not None:
            sink.end(final)
        elif not self.retired and parse_key(run.key) is not None:
            self.spawn(self._write(run.key, run.run_id, message_id, final, missing))

    def discard(self, run: Run) -> None:
        """The run said nothing: whoever waits for it ends without a text. Only a person's turn has anybody."""
        sink = self._sinks.get(run.message_id or "")
        if isinstance(sink, Inline):
            sink.end(None)
        elif sink is not None:
            sink.end(Final([], silent=True))

    def give_up(self, message_id: str) -> None:
        """Nothing comes of the message any more: whoever waits for its end gets it."""
        sink = self._sinks.get(message_id)
        if sink is not None:
            sink.end(Final([], silent=True))

    def end_without_run(self, key: str, run_id: str, message_id: str, final: Final) -> None:
        """No run answers the message. Nobody may show it: then whoever did died, and it stands there unfinished."""
        sink = self._sinks.get(message_id)
        if sink is not None:
            sink.end(final)
        elif not self.retired and parse_key(key) is not None and message_id not in self._mine:
            self.spawn(self._write(key, run_id, message_id, final, "leave"))

    def leave(self, message_id: str | None) -> None:
        """A restart cut the message's run: a request that streams it ends, and a writer goes on."""
        sink = self._sinks.get(message_id or "")
        if isinstance(sink, Inline):
            sink.leave()

    def take_over(self, key: str, run_id: str, message_id: str, inline: Inline, *, stop: bool) -> None:
        """The request that streamed a message is over before its run. stop: the run is being stopped, so the
        message is finished when it ends and not shown as going on."""
        opening = Opening(inline.emission)
        if inline.final is not None:
            opening.end(inline.final)
        self._sinks[message_id] = opening
        if stop:
            work = self._rest(key, run_id, message_id, opening)
        else:
            work = self._open(key, run_id, message_id, opening, own=True)
        self.spawn(self._taken_over(message_id, work))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work beside, and see to it that it is not forgotten."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._spawned)

    async def close(self) -> None:
        """Give up whatever is being claimed. Writers that run stay the Host's tasks."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def finish_cut(self, key: str, message_id: str, text: str) -> None:
        """End a message whose run is nowhere to be found."""
        fields = {"done": True, "error": {"content": text}}
        place = await self._claim(key, message_id, message_id, finished=fields, missing="leave")
        if place is not None:
            # A run may answer it all the same: then it is ours to write anew.
            self._remember(message_id)
            await announce_finished(self._host, place, text)

    async def _open(
        self, key: str, run_id: str, message_id: str, opening: Opening, *, own: bool = False
    ) -> None:
        place = None
        try:
            own = own or message_id in self._mine
            place = await self._claim(key, run_id, message_id, own=own)
            if place is not None:
                self._remember(message_id)
                writer = Writer(
                    self._host,
                    place,
                    opening.emission,
                    on_stopped=self._stopped,
                    on_over=lambda _: self._over(message_id),
                    lines=partial(self._lines, message_id),
                    hook=Hook(self._host, place.user_id, place.chat_id, message_id, self.spawn),
                )
                self._sinks[message_id] = writer
                if opening.final is not None:
                    writer.end(opening.final)
                await writer.begin()
        finally:
            if place is None and self._sinks.get(message_id) is opening:
                self._gone(message_id)
        if place is None and opening.final is not None:
            # It was somebody else's while it ran; if nobody finished it, it is finished here.
            await self._write(key, run_id, message_id, opening.final, "leave")

    async def _taken_over(self, message_id: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        finally:
            # By now the message itself says whose it is.
            self._registry.release(message_id)

    async def _rest(self, key: str, run_id: str, message_id: str, opening: Opening) -> None:
        try:
            await opening.ended.wait()
            written: Final | None = None
            while written is not opening.final:
                written = opening.final
                assert written is not None
                await self._write(key, run_id, message_id, written, "leave", own=True)
        finally:
            if self._sinks.get(message_id) is opening:
                self._gone(message_id)

    async def _write(
        self,
        key: str,
        run_id: str,
        message_id: str,
        final: Final,
        missing: Missing,
        *,
        own: bool = False,
    ) -> None:
        emission = Emission()
        emission.finish(final.items)
        error = None if final.silent else final.error
        fields = finished_fields(emission, final)
        told = await self._lines(message_id)
        own = own or message_id in self._mine
        how: dict[str, Any] = {"finished": fields, "lines": told, "missing": missing, "own": own}
        place = await self._claim(key, run_id, message_id, **how)
        if place is not None:
            self._remember(message_id)
            await announce_finished(self._host, place, error)
            self._finished(message_id)

    async def _claim(self, key: str, run_id: str, message_id: str, **how: Any) -> Place | None:
        chat = parse_key(key)
        if chat is None:
            return None
        # Claims of one chat go in the order in which they were asked for: the lock is fair.
        lock = self._chats.setdefault(chat.chat, asyncio.Lock())
        async with lock:
            return await claim(
                self._host,
                self._registry,
                self._writer_id,
                user_id=chat.user,
                chat_id=chat.chat,
                message_id=message_id,
                run_id=run_id,
                **how,
            )

    def _remember(self, message_id: str) -> None:
        self._registry.wrote(message_id)
        self._mine[message_id] = None
        self._mine.move_to_end(message_id)
        if len(self._mine) > _KEPT:
            self._mine.popitem(last=False)

    def _over(self, message_id: str) -> None:
        self._finished(message_id)
        self._gone(message_id)

    def _gone(self, message_id: str) -> None:
        self._sinks.pop(message_id, None)
        self._empty()

    def _released(self, message_id: str) -> None:
        self._registry.release(message_id)
        late = self._overtaken.pop(message_id, None)
        if late is not None:
            key, run_id, final = late
            self.spawn(self._write(key, run_id, message_id, final, "leave", own=True))
        else:
            self._finished(message_id)
        self._empty()

    def _spawned(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("A message of a chat could not be written.", exc_info=task.exception())
        self._empty()

    def _empty(self) -> None:
        if not self.busy:
            self._emptied()
