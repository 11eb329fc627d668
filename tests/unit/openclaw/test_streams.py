"""A run's events reach who follows it, those before the claim too; whoever is slow loses the oldest and knows it."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from rejoinder.openclaw.frames import Event
from rejoinder.openclaw.streams import EARLY_EVENTS, EARLY_RUNS, STREAM_EVENTS, Gap, RunStream, Streams


def event(run_id: str, number: int = 0) -> Event:
    return Event("chat", {"runId": run_id, "number": number})


async def kept(stream: RunStream) -> list[Event | Gap]:
    stream.close()
    return [item async for item in stream]


async def test_early_events_come_first_and_once() -> None:
    streams = Streams()
    early = [event("r", number) for number in range(3)]
    for one in early:
        streams.feed(one)
    stream = streams.claim("r")
    streams.feed(late := event("r", 3))
    assert await kept(stream) == [*early, late]
    assert await kept(streams.claim("r")) == []


async def test_the_first_of_several_followers_gets_the_early_ones() -> None:
    streams = Streams()
    streams.feed(event("r"))
    first, second = streams.claim("r"), streams.claim("r")
    streams.feed(event("r", 1))
    assert await kept(first) == [event("r"), event("r", 1)]
    assert await kept(second) == [event("r", 1)]


async def test_a_long_early_run_says_what_it_lost() -> None:
    streams = Streams()
    for number in range(EARLY_EVENTS + 10):
        streams.feed(event("r", number))
    found = await kept(streams.claim("r"))
    assert found[0] == Gap("early")
    assert found[1:] == [event("r", number) for number in range(10, EARLY_EVENTS + 10)]


async def test_a_run_that_was_pushed_out_says_so() -> None:
    streams = Streams()
    for number in range(EARLY_RUNS + 1):
        streams.feed(event(f"r{number}"))
    assert await kept(streams.claim("r0")) == [Gap("early")]
    assert await kept(streams.claim("r1")) == [event("r1")]
    assert await kept(streams.claim("never seen")) == []


async def test_a_slow_follower_loses_the_oldest_and_keeps_the_end() -> None:
    streams = Streams()
    slow, other = streams.claim("r"), streams.claim("other")
    count = STREAM_EVENTS + 500
    for number in range(count):
        streams.feed(event("r", number))
    streams.feed(event("other"))
    assert len(slow) == STREAM_EVENTS
    found = await kept(slow)
    assert found[0] == Gap("overflow")
    assert found[-1] == event("r", count - 1)
    assert sum(isinstance(item, Gap) for item in found) == 1
    assert await kept(other) == [event("other")]


async def test_lost_frames_are_told_where_they_were_lost() -> None:
    streams = Streams()
    streams.feed(event("early"))
    stream = streams.claim("r")
    streams.feed(event("r", 1))
    streams.gap("sequence")
    streams.gap("drop")
    streams.feed(event("r", 2))
    assert await kept(stream) == [event("r", 1), Gap("sequence"), event("r", 2)]
    assert await kept(streams.claim("early")) == [Gap("early"), event("early")]


async def test_a_follower_that_waits_is_woken_by_an_event_and_by_the_end() -> None:
    streams = Streams()
    stream = streams.claim("r")
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    streams.feed(event("r"))
    assert await waiting == event("r")
    ending = asyncio.ensure_future(anext(stream, None))
    await asyncio.sleep(0)
    streams.close()
    assert await ending is None


async def test_a_cancelled_wait_loses_nothing() -> None:
    streams = Streams()
    stream = streams.claim("r")
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    streams.feed(event("r"))
    assert await anext(stream) == event("r")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["feed", "claim", "close", "gap"]))))
def test_what_a_follower_sees_is_in_order_and_never_silently_short(steps: list[tuple[str, str]]) -> None:
    async def play() -> None:
        streams = Streams()
        told: dict[str, int] = {}
        following: dict[str, RunStream] = {}
        for run_id, step in steps:
            if step == "feed":
                told[run_id] = told.get(run_id, 0) + 1
                streams.feed(event(run_id, told[run_id]))
            elif step == "claim" and run_id not in following:
                following[run_id] = streams.claim(run_id)
            elif step == "gap":
                streams.gap("sequence")
            elif step == "close" and run_id in following:
                await check(await kept(following.pop(run_id)))
        for stream in following.values():
            await check(await kept(stream))

    async def check(found: list[Event | Gap]) -> None:
        last: int | None = None
        for item in found:
            if isinstance(item, Gap):
                last = None
                continue
            number = item.payload["number"]
            assert last is None or number == last + 1
            last = number

    asyncio.run(play())
