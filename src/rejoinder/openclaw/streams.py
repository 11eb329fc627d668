"""The events of one run, for whoever follows it: bounded, and never in the reader's way.

A run is claimed by its id. What arrived before the claim is kept for a while: the first events of a run can be
faster than the answer to the request that started it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Literal

from rejoinder.openclaw.frames import Event

#: Events kept for one follower that does not read.
STREAM_EVENTS = 2_000
#: Runs, and events of each, kept for nobody yet. With both bounds full this is the most that early events cost.
EARLY_RUNS = 32
EARLY_EVENTS = 200
#: Runs whose early events were given up and that may still be claimed.
_CUT_RUNS = 1_000


@dataclass(frozen=True, slots=True)
class Gap:
    """Events may be missing here: read the run's history.

    `overflow`: this follower was too slow and the oldest events went. `sequence`: the connection lost some.
    `drop`: the connection broke; what follows comes over another one. `early`: some went before the claim.
    """

    reason: Literal["overflow", "sequence", "drop", "early"]


class RunStream:
    """The events of one run in order, with a Gap wherever some may be missing. Iterate over it once.

    It ends after `close`; a run's own end does not end it, because a run may push several terminals.
    """

    def __init__(self, run_id: str, streams: Streams) -> None:
        self.run_id = run_id
        self._streams = streams
        self._kept: deque[Event | Gap] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def __aiter__(self) -> RunStream:
        return self

    async def __anext__(self) -> Event | Gap:
        while not self._kept:
            if self._closed:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._kept.popleft()

    def __len__(self) -> int:
        return len(self._kept)

    def close(self) -> None:
        """Nothing more is kept for this follower; what is there can still be read."""
        self._closed = True
        self._streams.forget(self)
        self._wake()

    def put(self, item: Event | Gap) -> None:
        if self._closed:
            return
        if isinstance(item, Gap) and self._kept and isinstance(self._kept[-1], Gap):
            return
        self._kept.append(item)
        if len(self._kept) > STREAM_EVENTS:
            # The newest stay: a run's end must reach even a follower that slept through the run.
            while len(self._kept) > STREAM_EVENTS or isinstance(self._kept[0], Gap):
                self._kept.popleft()
            self._kept.popleft()
            self._kept.appendleft(Gap("overflow"))
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Streams:
    """Who follows which run, and what came before anybody did."""

    def __init__(self) -> None:
        self._followers: dict[str, list[RunStream]] = {}
        self._early: OrderedDict[str, deque[Event]] = OrderedDict()
        self._cut: OrderedDict[str, None] = OrderedDict()

    def claim(self, run_id: str) -> RunStream:
        """Follow a run; its early events come first. Several may follow one run, the first gets the early ones."""
        stream = RunStream(run_id, self)
        self._followers.setdefault(run_id, []).append(stream)
        if self._cut.pop(run_id, False) is None:
            stream.put(Gap("early"))
        for event in self._early.pop(run_id, ()):
            stream.put(event)
        return stream

    def discard(self, run_id: str) -> None:
        """Nobody will follow this run: its early events go."""
        self._early.pop(run_id, None)
        self._cut.pop(run_id, None)

    def feed(self, event: Event) -> None:
        """Hand an event to the followers of its run, or keep it for one."""
        run_id = event.run_id
        if run_id is None:
            return
        followers = self._followers.get(run_id)
        if followers:
            for stream in followers:
                stream.put(event)
            return
        kept = self._early.get(run_id)
        if kept is None:
            kept = self._early[run_id] = deque()
            if len(self._early) > EARLY_RUNS:
                self._lose(self._early.popitem(last=False)[0])
        else:
            self._early.move_to_end(run_id)
        kept.append(event)
        if len(kept) > EARLY_EVENTS:
            kept.popleft()
            self._lose(run_id)

    def gap(self, reason: Literal["sequence", "drop"]) -> None:
        """Events were lost on the connection: every follower must know, and so must who claims later."""
        for followers in self._followers.values():
            for stream in followers:
                stream.put(Gap(reason))
        for run_id in self._early:
            self._lose(run_id)

    def close(self) -> None:
        """No event comes any more."""
        for followers in list(self._followers.values()):
            for stream in list(followers):
                stream.close()

    def forget(self, stream: RunStream) -> None:
        followers = self._followers.get(stream.run_id)
        if followers and stream in followers:
            followers.remove(stream)
            if not followers:
                del self._followers[stream.run_id]

    def _lose(self, run_id: str) -> None:
        self._cut[run_id] = None
        self._cut.move_to_end(run_id)
        if len(self._cut) > _CUT_RUNS:
            self._cut.popitem(last=False)
