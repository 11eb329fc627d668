"""The live tail over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from rejoinder.doors import blocking, stream
from tests.integration.doors.edge import Edge, edge, served
from tests.support import assert_eventually


@dataclass
class Reading:
    """One open stream. ``next()`` waits for a frame, ``comment()`` for a comment."""

    response: httpx2.Response
    frames: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    comments: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def next(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.frames.get(), 20)

    async def comment(self) -> str:
        return await asyncio.wait_for(self.comments.get(), 20)

    async def read(self) -> None:
        frame: dict[str, Any] = {}
        async for line in self.response.aiter_lines():
            if line.startswith(":"):
                self.comments.put_nowait(line[1:].strip())
            elif line:
                name, _, value = line.partition(": ")
                frame[name] = json.loads(value) if name == "data" else value
            elif frame:
                self.frames.put_nowait(frame)
                frame = {}
        self.ended.set()


@asynccontextmanager
async def reading(who: httpx2.AsyncClient, **headers: str) -> AsyncIterator[Reading]:
    async with who.stream("GET", "/api/interactions/stream", headers=headers, timeout=60) as response:
        assert response.status_code == 200
        made = Reading(response)
        task = asyncio.create_task(made.read())
        try:
            assert await made.comment() == "connected"
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def answered(e: Edge, **arguments: Any) -> str:
    asked = await e.ask(**arguments)
    done = await e.owner.post(f"/api/interactions/{asked.id}/answer", json={"answer": "x"})
    assert done.status_code == 200
    await asked.call
    return asked.id


async def test_what_happens_is_told_as_it_happens(database_url: str) -> None:
    async with served(database_url) as e:
        await answered(e)  # before: not told
        async with reading(e.owner) as tail:
            headers = tail.response.headers
            assert headers["content-type"].startswith("text/event-stream")
            assert "no-cache" in headers["cache-control"]
            assert headers["x-accel-buffering"] == "no"
            identifier = await answered(e, group_id="g")
            added, done = await tail.next(), await tail.next()
            listed = (await e.owner.get(f"/api/interactions/{identifier}")).json()["data"]
            assert (added["event"], done["event"]) == ("interaction.add", "interaction.answered")
            assert added["data"].items() <= listed.items()
            assert done["data"] == {"interaction_id": identifier, "group_id": "g"}
            asked = await e.ask(group_id="h")
            assert (await tail.next())["data"]["interaction_id"] == asked.id
            await e.owner.post(f"/api/interactions/{asked.id}/cancel")
            removed = await tail.next()
            assert removed["event"] == "interaction.removed"
            assert removed["data"] == {"interaction_id": asked.id, "group_id": "h", "reason": "cancelled"}
            await asked.call


@pytest.mark.parametrize("by", ["header", "parameter"])
async def test_a_reader_that_comes_back_gets_exactly_what_it_missed(database_url: str, by: str) -> None:
    async with served(database_url) as e:
        async with reading(e.owner) as tail:
            await answered(e)
            await tail.next()
            last = (await tail.next())["id"]
        missed = [await answered(e) for _ in range(3)]
        if by == "header":
            again = reading(e.owner, **{"Last-Event-ID": last})
        else:
            e.owner.params = httpx2.QueryParams({"last_event_id": last})
            again = reading(e.owner)
        async with again as tail:
            e.owner.params = httpx2.QueryParams()
            seen = [await tail.next() for _ in range(6)]
            assert [one["data"]["interaction_id"] for one in seen[::2]] == missed
            assert [one["event"] for one in seen] == ["interaction.add", "interaction.answered"] * 3
            live = await answered(e)
            assert (await tail.next())["data"]["interaction_id"] == live


async def test_a_place_that_is_not_known_is_told_as_a_reset(database_url: str) -> None:
    async with served(database_url) as e, reading(e.owner, **{"Last-Event-ID": "999999999"}) as tail:
        assert (await tail.next())["event"] == "interaction.reset"


@pytest.mark.parametrize("place", ["x", "-1", "1712-0", "1.5", "9" * 19, "9" * 400, "\u0663", "1 2"])
async def test_a_place_that_is_no_number_is_refused(database_url: str, place: str) -> None:
    async with edge(database_url) as e:
        refused = await e.owner.get("/api/interactions/stream", params={"last_event_id": place})
        assert (refused.status_code, refused.json()["field"]) == (400, "last_event_id")


async def test_restricted_readers_see_only_their_own(database_url: str) -> None:
    async with served(database_url) as e:
        sue = await e.client("sue", "read", owner="owner")
        async with sue, reading(sue) as hers, reading(e.owner) as all_:
            await answered(e)
            await answered(e, audience="tom")
            mine = await answered(e, audience="sue")
            assert [(await hers.next())["data"]["interaction_id"] for _ in range(2)] == [mine, mine]
            assert hers.frames.empty()
            for _ in range(6):
                await all_.next()


async def test_silence_is_broken_though_others_questions_come(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "KEEP_ALIVE", 0.3)
    async with served(database_url) as e:
        sue = await e.client("sue", "read", owner="owner")
        async with sue, reading(sue) as hers:
            for _ in range(3):
                noise = asyncio.create_task(answered(e))
                assert await hers.comment() == "keep-alive"
                await noise
            assert hers.frames.empty()


async def test_a_revoked_key_reads_no_longer(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "LOOK_AGAIN", 0.1)
    async with served(database_url) as e:
        ann = await e.client("ann", "read")
        async with ann, reading(ann) as tail:
            assert (await e.owner.delete("/api/keys/ann")).status_code == 200
            await asyncio.wait_for(tail.ended.wait(), 20)


async def test_many_readers_each_get_every_frame_and_none_is_left(database_url: str) -> None:
    async with served(database_url) as e:
        tails = [reading(e.owner) for _ in range(30)]
        opened = await asyncio.gather(*(tail.__aenter__() for tail in tails))
        identifier = await answered(e)
        for one in opened:
            assert (await one.next())["data"]["interaction_id"] == identifier
            assert (await one.next())["event"] == "interaction.answered"
        await asyncio.gather(*(tail.__aexit__(None, None, None) for tail in tails))
        await assert_eventually(lambda: not e.node.tail._subscribers, "a reader that left is still served")


async def test_asking_for_the_head_of_a_stream_ends(database_url: str) -> None:
    async with edge(database_url) as e:
        head = await e.owner.head("/api/interactions/stream")
        assert head.status_code == 200
        assert head.headers["content-type"].startswith("text/event-stream")
