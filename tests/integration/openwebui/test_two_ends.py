"""A run's end is told again, with more in it, in the very moment in which the first one is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rejoinder.openwebui.claim import claim
from rejoinder.openwebui.emit import Emission
from rejoinder.openwebui.intent import Hook
from rejoinder.openwebui.registry import Registry, new_writer_id
from rejoinder.openwebui.turn import reply
from rejoinder.openwebui.writer import Writer
from rejoinder.turns.finish import Final
from rejoinder.turns.items import Text
from tests.fake_gateway import FakeGateway
from tests.integration.openwebui.conftest import Connect
from tests.integration.openwebui.hosts import World, key_of, stub, user_says
from tests.integration.openwebui.test_bridge import asked_by, done, quiet, remember, sent, shown, tell, text
from tests.support import assert_eventually
from tests.unit.turns.script import Frames

FIRST, SECOND = Final([Text("a", "First.")]), Final([Text("a", "First.\n\nSecond.")])


def at_the_next_edit(world: World, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do something while a message is being written."""
    real, left = world.host.edit, [act]

    @asynccontextmanager
    async def edit(chat_id: str) -> AsyncIterator[Any]:
        async with real(chat_id) as chat:
            yield chat
            if left:
                left.pop()()

    monkeypatch.setattr(world.host, "edit", edit)


async def no_lines() -> list[str]:
    return []


async def test_the_last_end_of_a_writers_message_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    chat_id = await world.chat(user_says("hello"))
    place = await claim(
        world.host,
        Registry(world.host.anchor),
        new_writer_id(),
        user_id=world.user,
        chat_id=chat_id,
        message_id=stub()["id"],
        run_id="run",
    )
    assert place is not None
    over: list[Writer] = []
    hook = Hook(world.host, place.user_id, chat_id, place.message_id, lambda work: work.close())
    writer = Writer(
        world.host,
        place,
        Emission(),
        on_stopped=lambda _: None,
        on_over=over.append,
        lines=no_lines,
        hook=hook,
    )
    await writer.begin()
    at_the_next_edit(world, monkeypatch, lambda: writer.end(SECOND))
    writer.end(FIRST)
    await assert_eventually(lambda: over)
    (only,) = await done(world, chat_id, 1)
    assert text(only) == SECOND.text
    told = [one.data for one in world.seen(chat_id, place.message_id) if one.type == "chat:completion"]
    assert told[-1]["content"] == SECOND.text


async def test_an_end_that_comes_while_the_host_writes_the_request_is_written_after_it(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("hello"), left)
    bridge = await connect()
    key = key_of(world, chat_id)

    async def request() -> None:
        events = [event async for event in reply(bridge, asked_by(world, chat_id, left["id"]), quiet)]
        run = bridge.table.find(key, f.run)
        assert run is not None
        bridge.messages.end(run, SECOND)
        if bridge.messages._tasks:
            await asyncio.wait(bridge.messages._tasks)
        async with world.host.edit(chat_id) as chat:
            assert chat is not None
            await chat.put(left["id"], {"done": True, "content": "First.", "output": shown(events)})

    running = asyncio.ensure_future(request())
    f = Frames((await sent(gateway))["idempotencyKey"], key)
    remember(gateway, key, f.asked(), f.said("First."))
    tell(
        gateway,
        *f.begin(),
        f.row(f.asked()),
        f.says("First.", "First.", "i"),
        *f.final("First."),
        f.settled(),
    )
    await running

    async def both() -> bool:
        return text((await world.replies(chat_id))[0]) == SECOND.text

    await assert_eventually(both)


async def test_a_busy_database_is_asked_for_the_lock_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_id = await world.chat(user_says("hello"))
    transaction = world.host.chats._chat_transaction
    refusals = [RuntimeError("(sqlite3.OperationalError) database is locked")] * 3

    @asynccontextmanager
    async def busy(chat: str) -> AsyncIterator[Any]:
        if refusals:
            raise refusals.pop()
        async with transaction(chat) as found:
            yield found

    monkeypatch.setattr(world.host.chats, "_chat_transaction", busy)
    async with world.host.edit(chat_id) as chat:
        assert chat is not None
        chat.rename("Written")
    assert (refusals, await world.title(chat_id)) == ([], "Written")
    refusals += [RuntimeError("the disk is gone")]
    with pytest.raises(RuntimeError, match="the disk is gone"):
        async with world.host.edit(chat_id):
            pass
