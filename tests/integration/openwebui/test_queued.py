"""Messages that the Gateway took into a busy session: each is answered once, and no reply waits for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from rejoinder.openwebui.bridge import COLLECTED, LOST, Bridge
from rejoinder.openwebui.turn import reply
from tests.fake_gateway import FakeGateway
from tests.integration.openwebui.conftest import Connect
from tests.integration.openwebui.hosts import World, key_of, stub, user_says
from tests.integration.openwebui.test_bridge import (
    asked_by,
    collect,
    done,
    new_run,
    quiet,
    remember,
    shown,
    tell,
    text,
)
from tests.integration.openwebui.test_restarts import back
from tests.support import assert_eventually
from tests.unit.turns.script import SESSION, Frames


async def queued(gateway: FakeGateway, world: World, bridge: Bridge, chat_id: str, reply_id: str) -> Any:
    """A message that the Gateway takes and does not answer yet: its request, and its frames."""
    before = len(sends(gateway))
    request = asyncio.ensure_future(collect(reply(bridge, asked_by(world, chat_id, reply_id), quiet)))
    await assert_eventually(lambda: len(sends(gateway)) > before)
    f = Frames(sends(gateway)[-1], key_of(world, chat_id))
    tell(gateway, f.bare())
    session = bridge.table._session(key_of(world, chat_id))
    await assert_eventually(lambda: f.run in session.queued)
    return request, f


def sends(gateway: FakeGateway) -> list[str]:
    """The ids of the messages that were sent."""
    return [p["idempotencyKey"] for one in gateway.connections for m, p in one.requests if m == "chat.send"]


async def test_collected_messages_are_answered_in_the_reply_to_the_last_of_them(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    one, two = stub(), stub()
    chat_id = await world.chat(user_says("one"), one, user_says("two"), two)
    bridge = await connect()
    key = key_of(world, chat_id)
    first, _ = await queued(gateway, world, bridge, chat_id, one["id"])
    second, _ = await queued(gateway, world, bridge, chat_id, two["id"])
    f = Frames(new_run(), key)
    together = f.asked(idempotencyKey=f"followup-collect:{SESSION}:3b6b9ff3")
    remember(gateway, key, together, f.said("Both."))
    tell(gateway, *f.begin(), f.row(together), f.says("Both.", "Both.", "i"))
    # No settled push comes for such a run.
    tell(gateway, *f.final("Both."), f.chat("final", "Both."))
    assert shown(await first)[-1]["content"][0]["text"] == COLLECTED
    assert shown(await second)[-1]["content"][0]["text"] == "Both."
    await assert_eventually(lambda: not bridge.messages.busy)
    # The Host's requests write both; nobody wrote a third.
    assert len((await world.history(chat_id))["messages"]) == 4


async def test_a_queued_message_that_a_killed_gateway_forgot_says_so(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("one"), left)
    bridge = await connect()
    request, _ = await queued(gateway, world, bridge, chat_id, left["id"])
    await gateway.kill()
    await back(gateway, bridge)
    assert (await request)[-1] == {"error": LOST}
    await assert_eventually(lambda: not bridge.messages.busy)


async def test_stop_of_a_queued_message_ends_its_reply(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("one"), left)
    world.answers[chat_id] = lambda code: ["stop", 40]
    bridge = await connect()
    request, _ = await queued(gateway, world, bridge, chat_id, left["id"])
    request.cancel()
    await asyncio.wait((request,))
    (only,) = await done(world, chat_id, 1)
    assert text(only) == ""
    await assert_eventually(lambda: not bridge.messages.busy)


async def test_a_queued_message_whose_request_broke_off_is_answered_all_the_same(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("one"), left)
    world.answers[chat_id] = lambda code: None
    bridge = await connect()
    key = key_of(world, chat_id)
    request, mine = await queued(gateway, world, bridge, chat_id, left["id"])
    request.cancel()
    await asyncio.wait((request,))
    f = Frames(new_run(), key)
    remember(gateway, key, mine.asked(), f.said("Late."))
    tell(gateway, *f.begin(), f.row(mine.asked()), f.says("Late.", "Late.", "i"))
    tell(gateway, *f.final("Late."), f.chat("final", "Late."))
    (only,) = await done(world, chat_id, 1)
    assert (only["id"], text(only)) == (left["id"], "Late.")
