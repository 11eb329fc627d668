"""A Gateway that is killed and comes back: its recoveries go on in the messages that were cut, through the whole bridge."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rejoinder.openwebui.bridge import Bridge
from rejoinder.openwebui.turn import reply
from rejoinder.turns.identity import message_id
from tests.fake_gateway import RESTARTING, FakeGateway
from tests.integration.openwebui.conftest import Connect
from tests.integration.openwebui.hosts import World, key_of, stub, user_says
from tests.integration.openwebui.test_bridge import (
    asked_by,
    cards,
    done,
    has_tasks,
    hosted,
    new_run,
    quiet,
    remember,
    sent,
    shown,
    tell,
    text,
)
from tests.support import assert_eventually
from tests.unit.turns.restarts import MOMENTS, Moment, recovering, waiting
from tests.unit.turns.script import Frames


def stands(gateway: FakeGateway, key: str, moment: Moment) -> None:
    """The Gateway lists and remembers what it does at this moment."""
    others = [one for one in gateway.sessions if one["key"] != key]
    gateway.sessions = [*others, {**moment.listed, "updatedAt": 1}]
    gateway.histories[key] = {"sessionKey": key, **moment.history}


async def pass_by(gateway: FakeGateway, key: str, *moments: Moment) -> None:
    for moment in moments:
        stands(gateway, key, moment)
        tell(gateway, *moment.frames)
        for connection in gateway.live:
            await connection.flushed()


async def back(gateway: FakeGateway, bridge: Bridge) -> None:
    """The Gateway starts anew, and the bridge is connected again."""
    hellos = bridge.hellos
    gateway.boot_id = new_run()
    await gateway.start()

    def greeted() -> bool:
        bridge.client.retry()
        return bridge.hellos > hellos

    await assert_eventually(greeted)


async def cut_run(
    gateway: FakeGateway, world: World, bridge: Bridge, chat_id: str
) -> tuple[Frames, list[Any]]:
    """A run of the agent's own that shows “Cut ” when the Gateway is killed; its frames and its rows."""
    key = key_of(world, chat_id)
    f = Frames(new_run(), key)
    stands(gateway, key, Moment("", (), {"key": key, "status": "running", "hasActiveRun": True}, ()))
    tell(gateway, *f.begin(), f.row(f.asked()), f.call("c1"), f.result("c1"), f.says("Cut ", "Cut ", "i"))
    await assert_eventually(lambda: has_tasks(world, chat_id))
    await gateway.kill()
    await assert_eventually(lambda: not bridge.client.connected)
    return f, [f.asked(), f.called("c1"), f.returned("c1")]


@pytest.mark.parametrize("joins", MOMENTS)
async def test_a_recovery_goes_on_in_the_cut_message_whenever_the_connection_is_back(
    gateway: FakeGateway, world: World, connect: Connect, joins: str
) -> None:
    chat_id = await world.chat(user_says("hello"))
    bridge = await connect()
    key = key_of(world, chat_id)
    f, rows = await cut_run(gateway, world, bridge, chat_id)
    moments = [waiting(tuple(rows), key), *recovering(new_run(), tuple(rows), key)]
    place = MOMENTS.index(joins)
    stands(gateway, key, moments[place])
    await back(gateway, bridge)
    await pass_by(gateway, key, *moments[place + 1 :])
    (only,) = await done(world, chat_id, 1)
    assert (only["id"], text(only), cards(only)) == (message_id(key, f.run), "Carried on.", ["exec", "exec"])
    assert not bridge.table.unfinished()


async def test_a_persons_turn_that_a_restart_cuts_ends_its_request_and_is_written_on(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("hello"), left)
    bridge = await connect()
    key = key_of(world, chat_id)
    turn = asyncio.ensure_future(hosted(world, bridge, asked_by(world, chat_id, left["id"])))
    f = Frames((await sent(gateway))["idempotencyKey"], key)
    tell(gateway, *f.begin(), f.row(f.asked()), f.says("Before. ", "Before. ", "i"), f.call("c1"))

    def shows() -> bool:
        run = bridge.table.find(key, f.run)
        return run is not None and len(run.state.items) == 2

    await assert_eventually(shows)
    await gateway.kill()
    rows = (f.asked(), f.called("c1"))
    moments = [waiting(rows, key), *recovering(new_run(), rows, key)]
    stands(gateway, key, moments[0])
    await back(gateway, bridge)
    # The request is over, and no call of it is left for the Host to run itself.
    items = shown(await turn)
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    assert calls == [item["call_id"] for item in items if item["type"] == "function_call_output"] == ["c1"]
    # The message is not: a task of the chat writes on in it, from what it really showed.
    await assert_eventually(lambda: has_tasks(world, chat_id))
    (going_on,) = await world.replies(chat_id)
    assert (going_on["id"], going_on["done"]) == (left["id"], False)
    await assert_eventually(
        lambda: [
            one
            for one in world.seen(chat_id, left["id"])
            if one.type == "chat:completion" and one.data.get("output")
        ]
    )
    first = next(one for one in world.seen(chat_id, left["id"]) if one.type == "chat:completion")
    assert [item["type"] for item in first.data["output"]] == ["message", "function_call"]
    await pass_by(gateway, key, *moments[1:])
    (only,) = await done(world, chat_id, 1)
    assert (only["id"], text(only), cards(only)) == (left["id"], "Carried on.", ["exec", "exec"])


async def test_a_recovery_that_ended_before_the_connection_is_in_the_reply_of_the_request(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("hello"), left)
    bridge = await connect()
    key = key_of(world, chat_id)
    turn = asyncio.ensure_future(hosted(world, bridge, asked_by(world, chat_id, left["id"])))
    f = Frames((await sent(gateway))["idempotencyKey"], key)
    tell(gateway, *f.begin(), f.row(f.asked()), f.says("Cut ", "Cut ", "i"))
    await assert_eventually(lambda: bridge.active(key))
    await gateway.kill()
    moments = [waiting((f.asked(),), key), *recovering(new_run(), (f.asked(),), key)]
    stands(gateway, key, moments[-1])
    await back(gateway, bridge)
    assert shown(await turn)[-1]["content"][0]["text"] == "Carried on."
    (only,) = await done(world, chat_id, 1)
    assert (only["id"], text(only), cards(only)) == (left["id"], "Carried on.", ["exec"])


async def test_a_message_typed_after_the_restart_waits_for_the_recovery(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("hello"))
    bridge = await connect()
    key = key_of(world, chat_id)
    f, rows = await cut_run(gateway, world, bridge, chat_id)
    moments = [waiting(tuple(rows), key), *recovering(new_run(), tuple(rows), key)]
    stands(gateway, key, moments[0])
    await back(gateway, bridge)
    lines: list[str] = []

    async def note(words: str, over: bool) -> None:
        lines.append(words)

    async with world.host.edit(chat_id) as chat:
        assert chat is not None
        asked = user_says("and now me")
        await chat.put(
            asked["id"], {**asked, "parentId": message_id(key, f.run), "childrenIds": [], "done": True}
        )
        await chat.put(left["id"], {**left, "parentId": asked["id"], "childrenIds": []})
    turn = asyncio.ensure_future(collected(reply(bridge, asked_by(world, chat_id, left["id"]), note)))
    await assert_eventually(lambda: lines)
    await pass_by(gateway, key, *moments[1:])
    mine = Frames((await sent(gateway))["idempotencyKey"], key)
    remember(gateway, key, mine.asked(), mine.said("Now you."))
    tell(gateway, *mine.begin(), mine.row(mine.asked()), mine.says("Now you.", "Now you.", "i"))
    tell(gateway, *mine.final("Now you."), mine.settled())
    assert shown(await turn)[-1]["content"][0]["text"] == "Now you."
    first = (await world.replies(chat_id))[0]
    assert (text(first), first["done"]) == ("Carried on.", True)


async def test_stop_of_a_message_that_waits_for_a_recovery_lets_go_of_the_cut_run(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("hello"))
    bridge = await connect()
    key = key_of(world, chat_id)
    f, rows = await cut_run(gateway, world, bridge, chat_id)
    stands(gateway, key, waiting(tuple(rows), key))
    await back(gateway, bridge)
    world.answers[chat_id] = lambda code: ["stop", 40]
    lines: list[str] = []

    async def note(words: str, over: bool) -> None:
        lines.append(words)

    turn = asyncio.ensure_future(collected(reply(bridge, asked_by(world, chat_id, left["id"]), note)))
    await assert_eventually(lambda: lines)
    turn.cancel()
    await asyncio.wait((turn,))
    (only,) = await done(world, chat_id, 1)
    assert (only["id"], text(only), cards(only)) == (message_id(key, f.run), "Cut", ["exec"])
    assert not bridge.active(key)


async def collected(events: Any) -> list[dict[str, Any]]:
    return [event async for event in events]


async def test_a_turn_cancelled_while_its_tool_runs_is_not_lost(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    # A chat's program that ends requests after a while of silence: nobody pressed anything.
    left = stub()
    chat_id = await world.chat(user_says("hello"), left)
    world.answers[chat_id] = lambda code: None
    bridge = await connect()
    key = key_of(world, chat_id)
    turn = asyncio.ensure_future(collected(reply(bridge, asked_by(world, chat_id, left["id"]), quiet)))
    f = Frames((await sent(gateway))["idempotencyKey"], key)
    tell(gateway, *f.begin(), f.row(f.asked()), f.call("c1"))

    def called() -> bool:
        run = bridge.table.find(key, f.run)
        return run is not None and len(run.state.items) == 1

    await assert_eventually(called)
    turn.cancel()
    await asyncio.wait((turn,))
    await assert_eventually(lambda: has_tasks(world, chat_id))
    remember(gateway, key, f.asked(), f.called("c1"), f.returned("c1", "found"), f.said("Done at last."))
    tell(gateway, f.result("c1", "found"), f.says("Done at last.", "Done at last.", "i"))
    tell(gateway, *f.final("Done at last."), f.settled())
    (only,) = await done(world, chat_id, 1)
    assert (only["id"], text(only), cards(only)) == (left["id"], "Done at last.", ["exec"])
    (output,) = [item for item in only["output"] if item["type"] == "function_call_output"]
    assert output["output"][0]["text"] == "found"
    asked = [method for one in gateway.connections for method, _ in one.requests]
    assert asked.count("chat.send") == 1
    assert "chat.abort" not in asked


@pytest.mark.parametrize("call", ["sessions.patch", "chat.send"])
@pytest.mark.parametrize("how", ["refused", "cut"])
async def test_a_message_is_sent_once_the_gateway_is_back_whichever_call_met_its_restart(
    gateway: FakeGateway, world: World, connect: Connect, call: str, how: str
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("hello"), left)
    bridge = await connect()
    key = key_of(world, chat_id)
    met = asyncio.Event()
    answers = {"sessions.patch": lambda params: {}, "chat.send": lambda params: {"status": "started"}}

    def restarts(params: dict[str, Any]) -> Any:
        met.set()
        if how == "refused":
            return RESTARTING
        for connection in gateway.live:
            connection.abort()
        return {}

    gateway.handlers.update({**answers, call: restarts})
    told: list[tuple[str, bool]] = []

    async def tells(words: str, over: bool) -> None:
        told.append((words, over))

    asked = asked_by(world, chat_id, left["id"], model="live/scripted")
    request = asyncio.ensure_future(anext(reply(bridge, asked, tells)))
    await met.wait()
    gateway.handlers.update(answers)
    await gateway.stop()
    await assert_eventually(lambda: not bridge.client.connected)
    await back(gateway, bridge)
    f = Frames((await assert_eventually(lambda: sends(gateway)))[-1], key)
    tell(gateway, *f.begin(), f.row(f.asked()), f.says("Here.", "Here.", "i"))
    assert "Here." in str(await request)
    assert len(set(sends(gateway))) == 1
    assert all(over for _, over in told[-1:])


def sends(gateway: FakeGateway) -> list[str]:
    """The ids under which messages were sent, oldest first."""
    calls = [one for connection in gateway.connections for one in connection.requests]
    return [params["idempotencyKey"] for name, params in calls if name == "chat.send"]
