"""The live stream: one reader a process feeds every open stream; a frame's bytes are built once.

Events are read in commit order below the oldest transaction that still runs, so a reader never skips one that
commits late. A flood becomes one ``interaction.reset``: page the list again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import orjson

from rejoinder.contract.errors import NotReadyError
from rejoinder.contract.identity import Identity
from rejoinder.contract.questions import Question
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics
from rejoinder.store import signals as s
from rejoinder.store.events import STREAMED, Event, Events, Place
from rejoinder.store.questions import Questions
from rejoinder.store.signals import Signals

BATCH = 500
#: More events at once than this are told as one reset: a whole batch of lapsed deadlines is one.
FLOOD = 200
#: A subscriber that reads slower than this many frames behind is told to page again.
QUEUE = 1_000
REPLAY = 2_000
LOOK_AGAIN = 0.002

log = get_logger("tail")


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event, ready to write. ``audience`` says who may see it; a reset is everybody's."""

    data: bytes
    audience: str | None = None
    everybody: bool = False


def sse(event: str, body: dict[str, object], seq: int | None = None) -> bytes:
    head = b"" if seq is None else b"id: %d\n" % seq
    return head + b"event: " + event.encode() + b"\ndata: " + orjson.dumps(body) + b"\n\n"


def reset_frame(place: Place | None, why: str) -> Frame:
    return Frame(sse("interaction.reset", {"reason": why}, place.seq if place else None), everybody=True)


class Subscriber:
    """One open stream. ``next`` waits for a frame; None means that ``seconds`` passed without one."""

    def __init__(self, viewer: Identity) -> None:
        self.viewer = viewer
        self._queue: asyncio.Queue[Frame] = asyncio.Queue(maxsize=QUEUE)
        self._overrun: Frame | None = None

    def offer(self, frame: Frame, place: Place) -> None:
        if not frame.everybody and not self.viewer.may_see(frame.audience):
            return
        if self._overrun is not None:
            self._overrun = reset_frame(place, "slow reader")
            return
        try:
            self._queue.put_nowait(frame)
        except asyncio.QueueFull:
            # A frame was not kept: nothing after it may be shown as if none were missing.
            while not self._queue.empty():
                self._queue.get_nowait()
            self._overrun = reset_frame(place, "slow reader")
            self._queue.put_nowait(self._overrun)

    async def next(self, seconds: float) -> bytes | None:
        try:
            async with asyncio.timeout(seconds):
                frame = await self._queue.get()
        except TimeoutError:
            return None
        if self._overrun is not None:
            frame, self._overrun = self._overrun, None
        return frame.data


class Tail:
    def __init__(self, events: Events, questions: Questions, signals: Signals, *, poll: float) -> None:
        self._events = events
        self._questions = questions
        self._poll = poll
        self._subscribers: set[Subscriber] = set()
        self._place: Place | None = None
        self._wake = asyncio.Event()
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.delay = 0.0
        signals.hear(s.EVENTS, lambda _id: self._wake.set())
        signals.on_connect(self._look)

    async def _look(self) -> None:
        self._wake.set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="tail")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @asynccontextmanager
    async def subscribe(
        self, viewer: Identity, last_event_id: int | None
    ) -> AsyncIterator[tuple[list[bytes], Subscriber]]:
        """``(frames to send first, the live subscriber)``. With ``last_event_id`` the first are exactly what was
        missed, or one reset where that is no longer known. Whatever happens after this call began is not missed."""
        subscriber = Subscriber(viewer)
        async with self._lock:
            if self._place is None or not self._subscribers:
                self._place = await self._events.tip()
            self._subscribers.add(subscriber)
            here = self._place
        metrics.streams.inc()
        try:
            missed = [] if last_event_id is None else await self._missed(viewer, last_event_id, here)
            yield missed, subscriber
        finally:
            metrics.streams.dec()
            self._subscribers.discard(subscriber)

    async def _missed(self, viewer: Identity, last_event_id: int, here: Place) -> list[bytes]:
        place = await self._events.place_of(last_event_id) if 0 <= last_event_id < 2**62 else None
        if place is None:
            return [reset_frame(here, "unknown event id").data]
        frames: list[bytes] = []
        read = 0
        while place < here:
            events = [e for e in await self._events.since(place, BATCH) if Place(e.xid, e.seq) <= here]
            if not events:
                break
            read += len(events)
            if read > REPLAY:
                return [reset_frame(here, "too far behind").data]
            place = Place(events[-1].xid, events[-1].seq)
            frames += [f.data for f in await self._frames(events) if viewer.may_see(f.audience)]
        return frames

    async def _run(self) -> None:
        while True:
            try:
                # Not wait_for: on Python 3.11 it loses a cancellation that comes together with the event.
                async with asyncio.timeout(self._poll):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self._catch_up()
            except NotReadyError:
                continue
            except Exception:
                log.exception("the stream could not be read")

    async def _catch_up(self) -> None:
        """Read until nothing newer exists, looking again while a running transaction holds events back."""
        wait = LOOK_AGAIN
        while self._subscribers:
            async with self._lock:
                place = self._place
                if place is None:
                    return
                events = await self._events.since(place, BATCH)
                if events:
                    last = Place(events[-1].xid, events[-1].seq)
                    await self._publish(events, last)
                    self._place = last
                    wait = LOOK_AGAIN
                    self._set_delay(0.0)
                    if len(events) == BATCH:
                        continue
                age = await self._events.unseen_age(self._place or place)
            if age is None:
                self._set_delay(0.0)
                return
            self._set_delay(age)
            await asyncio.sleep(wait)
            wait = min(wait * 2, 0.1)

    def _set_delay(self, age: float) -> None:
        self.delay = age
        metrics.stream_delay.set(age)

    async def _publish(self, events: list[Event], last: Place) -> None:
        if sum(1 for e in events if e.kind in STREAMED) > FLOOD:
            frames = [reset_frame(last, "many changes at once")]
        else:
            frames = await self._frames(events)
        for subscriber in list(self._subscribers):
            for frame in frames:
                subscriber.offer(frame, last)

    async def _frames(self, events: list[Event]) -> list[Frame]:
        shown = [e for e in events if e.kind in STREAMED and e.interaction_id is not None]
        added = [
            e.interaction_id for e in shown if e.kind == "interaction.add" and e.interaction_id is not None
        ]
        questions = await self._questions.by_ids(added) if added else {}
        return [frame for e in shown if (frame := _frame(e, questions)) is not None]


def _frame(event: Event, questions: dict[UUID, Question]) -> Frame | None:
    assert event.interaction_id is not None
    if event.kind == "interaction.add":
        question = questions.get(event.interaction_id)
        if question is None:
            return None
        return Frame(sse(event.kind, question.as_item(), event.seq), event.audience)
    body: dict[str, object] = {"interaction_id": str(event.interaction_id), "group_id": event.group_id}
    if event.kind == "interaction.removed":
        body["reason"] = event.reason
    return Frame(sse(event.kind, body, event.seq), event.audience)
