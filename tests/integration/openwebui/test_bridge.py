"""Runs of a Gateway as messages of a chat, over a real socket into a Host."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from rejoinder.openwebui.bridge import Bridge
from rejoinder.openwebui.reconcile import CUT_OFF
from rejoinder.openwebui.registry import Registry, new_writer_id
from rejoinder.openwebui.turn import Asked, TurnError, reply
from rejoinder.turns.identity import message_id
from tests.fake_gateway import FakeGateway, Fault
from tests.integration.openwebui.conftest import Connect
from tests.integration.openwebui.hosts import World, key_of, stub, user_says
from tests.support import assert_eventually
from tests.unit.turns.script import SESSION, Frame, Frames


def new_run() -> str:
    return str(uuid.uuid4())


def tell(gateway: FakeGateway, *frames: Frame) -> None:
    for name, payload in frames:
        gateway.broadcast(name, payload)


def remember(gateway: FakeGateway, key: str, *rows: dict[str, Any], **more: Any) -> None:
    known = gateway.histories.setdefault(key, {"sessionKey": key, "sessionId": SESSION, "messages": []})
    known["messages"] = [*known["messages"], *rows]
    known.pop("inFlightRun", None)
    known.update(more)


def whole(f: Frames, text: str, call: str | None = None) -> tuple[list[Frame], list[dict[str, Any]]]:
    """Everything a run tells, and the rows it leaves."""
    tools = [f.call(call), f.result(call)] if call else []
    rows = [f.called(call), f.returned(call)] if call else []
    frames = [*f.begin(), f.row(f.asked()), *tools, f.says(text, text, "item"), *f.final(text), f.settled()]
    return frames, [f.asked(), *rows, f.said(text)]


async def done(world: World, chat_id: str, count: int) -> list[dict[str, Any]]:
    async def finished() -> list[dict[str, Any]]:
        replies = await world.replies(chat_id)
        return replies if len(replies) == count and all(one["done"] for one in replies) else []

    found: list[dict[str, Any]] = await assert_eventually(finished, f"{count} finished replies")
    # The Host's task is over as well: the page shows no Stop.
    await assert_eventually(lambda: no_tasks(world, chat_id))
    return found


async def no_tasks(world: World, chat_id: str) -> bool:
    return not await world.host.tasks(chat_id)


def text(message: dict[str, Any]) -> str:
    return str(message["content"])


def cards(message: dict[str, Any]) -> list[str]:
    return [item["name"] for item in message["output"] if item["type"] == "function_call"]


def replayed(world: World, chat_id: str, message: str) -> list[dict[str, Any]]:
    """What a page makes of the events it was told of a message: items by id, as Open WebUI's own page keeps them."""
    items: list[dict[str, Any]] = []
    for one in world.seen(chat_id, message):
        data = one.data or {}
        if isinstance(data.get("output"), list):
            items = [dict(item) for item in data["output"]]
    return items


async def test_an_agents_run_is_one_ordinary_message(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    asked = user_says("hello")
    answer = stub(content="Hi.", done=True, output=[])
    chat_id = await world.chat(asked, answer)
    await connect()
    key, run = key_of(world, chat_id), new_run()
    frames, rows = whole(Frames(run, key), "The report is ready.", "c1")
    remember(gateway, key, *rows)
    tell(gateway, *frames)
    replies = await done(world, chat_id, 2)
    assert [text(one) for one in replies] == ["Hi.", "The report is ready."]
    assert replies[1]["id"] == message_id(key, run)
    assert replies[1]["parentId"] == answer["id"]
    assert cards(replies[1]) == ["exec"]
    assert replies[1]["model"] == "openclaw_gateway.default"
    assert "eader" not in text(replies[1])


async def test_the_pages_are_told_in_the_order_that_ends_the_reply(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    chat_id = await world.chat(user_says("hello"))
    await connect()
    key = key_of(world, chat_id)
    f = Frames(new_run(), key)
    remember(gateway, key, f.asked(), f.called("c1"), f.returned("c1"), f.said("Done now."))
    tell(gateway, *f.begin(), f.row(f.asked()), f.call("c1"))
    reply_id = message_id(key, f.run)
    assert reply_id is not None
    await assert_eventually(
        lambda: [one for one in world.seen(chat_id, reply_id) if one.type == "chat:active"]
    )
    # It goes on: a task of the chat, nothing written in the row yet, the page told to show it.
    assert len(await world.host.tasks(chat_id)) == 1
    (going_on,) = await world.replies(chat_id)
    assert (going_on["done"], going_on["content"]) == (False, "")
    first = world.seen(chat_id, reply_id)[0]
    assert first.type == "chat:messages"
    assert first.data["currentId"] == reply_id
    tell(gateway, f.result("c1"), f.says("Done now.", "Done now.", "i"), *f.final("Done now."), f.settled())
    await done(world, chat_id, 1)
    await assert_eventually(lambda: world.seen(chat_id, reply_id)[-1].type == "chat:active")
    kinds = [(one.type, (one.data or {}).get("done")) for one in world.seen(chat_id, reply_id)]
    assert kinds[-2:] == [("chat:completion", True), ("chat:active", None)]
    assert world.seen(chat_id, reply_id)[-1].data == {"active": False}
    items = replayed(world, chat_id, reply_id)
    assert [item["type"] for item in items] == ["function_call", "function_call_output", "message"]


async def test_two_connections_give_one_message(gateway: FakeGateway, world: World, connect: Connect) -> None:
    chat_id = await world.chat(user_says("hello"))
    await connect()
    await connect()  # a new deploy: the first is retired and claims nothing more
    key = key_of(world, chat_id)
    for number in range(3):
        frames, rows = whole(Frames(new_run(), key), f"Report {number}.")
        remember(gateway, key, *rows)
        tell(gateway, *frames)
    replies = await done(world, chat_id, 3)
    assert [text(one) for one in replies] == ["Report 0.", "Report 1.", "Report 2."]


async def test_runs_that_start_together_chain(gateway: FakeGateway, world: World, connect: Connect) -> None:
    chat_id = await world.chat(user_says("hello"))
    await connect()
    key = key_of(world, chat_id)
    told = [whole(Frames(new_run(), key), f"Report {number}.") for number in range(4)]
    for _, rows in told:
        remember(gateway, key, *rows)
    for frames, _ in told:
        tell(gateway, *frames)
    replies = await done(world, chat_id, 4)
    history = await world.history(chat_id)
    assert all(len(one["childrenIds"]) <= 1 for one in history["messages"].values())
    assert sorted(text(one) for one in replies) == [f"Report {number}." for number in range(4)]


@pytest.mark.parametrize("word", ["NO_REPLY", "no_reply", "ANNOUNCE_SKIP"])
async def test_a_run_that_says_nothing_gets_no_message(
    gateway: FakeGateway, world: World, connect: Connect, word: str
) -> None:
    chat_id = await world.chat(user_says("hello"))
    await connect()
    key = key_of(world, chat_id)
    f = Frames(new_run(), key)
    remember(gateway, key, f.asked())
    tell(gateway, *f.begin(), f.row(f.asked()), f.says(word, word, "i"), *f.final(), f.settled())
    frames, rows = whole(Frames(new_run(), key), "Something.")
    remember(gateway, key, *rows)
    tell(gateway, *frames)
    assert [text(one) for one in await done(world, chat_id, 1)] == ["Something."]


async def test_lost_frames_are_made_good_from_the_transcript(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    chat_id = await world.chat(user_says("hello"))
    await connect()
    key = key_of(world, chat_id)
    f = Frames(new_run(), key)
    remember(gateway, key, f.asked(), f.called("c1"), f.returned("c1"), f.said("All of it is here."))
    (connection,) = gateway.live
    tell(gateway, *f.begin(), f.row(f.asked()), f.says("All of", "All of", "i"))
    connection.skip()
    tell(gateway, *f.final("All of it is here."), f.settled())
    (only,) = await done(world, chat_id, 1)
    assert (text(only), cards(only)) == ("All of it is here.", ["exec"])


async def test_a_run_that_ended_while_nobody_looked_gets_its_message(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    chat_id = await world.chat(user_says("hello"), at=1_000)
    key, old, new = key_of(world, chat_id), new_run(), new_run()
    before, after = Frames(old, key), Frames(new, key)
    rows = []
    for f, words, when in ((before, "Long gone.", 500_000), (after, "Missed.", 2_000_000)):
        for row in (f.asked(), f.said(words)):
            row["__openclaw"] = {**row["__openclaw"], "recordTimestampMs": when}
            rows.append(row)
    remember(gateway, key, *rows)
    gateway.sessions = [{"key": key, "sessionId": SESSION, "status": "done", "updatedAt": 2_000_001}]
    await connect()
    replies = await done(world, chat_id, 1)
    # What is older than the chat's last change was there once, or was another program's.
    assert [(text(one), one["id"]) for one in replies] == [("Missed.", message_id(key, new))]


async def test_a_reply_of_a_process_that_died_is_taken_over_and_finished(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    asked, left = user_says("hello"), stub()
    chat_id = await world.chat(asked, left)
    key = key_of(world, chat_id)
    f = Frames(f"msg-{chat_id}-{left['id']}-1", key)
    flight = {"runId": f.run, "text": "So far", "events": []}
    remember(gateway, key, f.asked(), inFlightRun=flight)
    gateway.sessions = [{"key": key, "sessionId": SESSION, "status": "running", "hasActiveRun": True}]
    await connect()
    await assert_eventually(lambda: world.seen(chat_id, left["id"]))
    remember(gateway, key, f.said("So far, so good."))
    tell(gateway, f.says("So far, so good.", None, "i"), *f.final("So far, so good."), f.settled())
    (only,) = await done(world, chat_id, 1)
    assert (only["id"], text(only)) == (left["id"], "So far, so good.")


@pytest.mark.parametrize("alive", [True, False])
async def test_a_message_is_taken_over_from_a_dead_writer_only(
    gateway: FakeGateway, world: World, connect: Connect, alive: bool
) -> None:
    writer = new_writer_id()
    left = stub(meta={"openclaw_writer": writer, "openclaw_run": "x", "task_id": "t"}, content="mine")
    chat_id = await world.chat(user_says("hello"), left)
    key = key_of(world, chat_id)
    f = Frames(f"msg-{chat_id}-{left['id']}-1", key)
    remember(gateway, key, f.asked(), f.said("Finished."))
    registry = Registry(world.host.anchor)
    if alive:
        registry.enter(writer, lambda: None)
    await connect()
    tell(gateway, *f.begin(), f.says("Finished.", "Finished.", "i"), *f.final("Finished."), f.settled())
    other, rows = whole(Frames(new_run(), key), "Next.")
    remember(gateway, key, *rows)
    tell(gateway, *other)

    if alive:

        async def next_came() -> bool:
            return any(text(one) == "Next." and one["done"] for one in await world.replies(chat_id))

        await assert_eventually(next_came)
        first = (await world.replies(chat_id))[0]
        assert (text(first), first["done"]) == ("mine", False)
    else:
        assert [text(one) for one in await done(world, chat_id, 2)] == ["Finished.", "Next."]
    registry.leave(writer)


async def test_an_orphan_that_no_transcript_knows_is_ended_with_a_word(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left, foreign = stub(), stub(model="somebody.else")
    chat_id = await world.chat(user_says("hello"), left)
    other_id = await world.chat(user_says("hello"), foreign)
    key = key_of(world, chat_id)
    gateway.sessions = [
        {"key": key, "sessionId": SESSION, "status": "done", "updatedAt": 1},
        {"key": key_of(world, other_id), "sessionId": "other", "status": "done", "updatedAt": 1},
    ]
    await connect()
    (only,) = await done(world, chat_id, 1)
    assert only["error"]["content"] == CUT_OFF
    assert [one["done"] for one in await world.replies(other_id)] == [False]


async def test_a_deleted_chat_hurts_no_other(gateway: FakeGateway, world: World, connect: Connect) -> None:
    chat_id = await world.chat(user_says("hello"))
    await connect()
    gone, rows = whole(Frames(new_run(), key_of(world, str(uuid.uuid4()))), "For nobody.")
    frames, rows = whole(Frames(new_run(), key_of(world, chat_id)), "For you.")
    remember(gateway, key_of(world, chat_id), *rows)
    tell(gateway, *gone, *frames)
    assert [text(one) for one in await done(world, chat_id, 1)] == ["For you."]


@pytest.mark.parametrize("meant", ["stop", "send", None])
async def test_stop_ends_the_run_and_send_now_does_not(
    gateway: FakeGateway, world: World, connect: Connect, meant: str | None
) -> None:
    chat_id = await world.chat(user_says("hello"))
    key = key_of(world, chat_id)
    await connect()
    aborted: list[dict[str, Any]] = []

    def abort(params: dict[str, Any]) -> dict[str, Any]:
        aborted.append(params)
        return {"ok": True, "aborted": True, "runIds": []}

    gateway.handlers["chat.abort"] = abort
    world.answers[chat_id] = lambda code: [meant, 40] if meant else None
    f = Frames(new_run(), key)
    remember(gateway, key, f.asked())
    tell(gateway, *f.begin(), f.row(f.asked()), f.says("Half", "Half", "i"))
    reply_id = message_id(key, f.run)
    assert reply_id is not None
    await assert_eventually(
        lambda: [one for one in world.seen(chat_id, reply_id) if one.type == "chat:active"]
    )
    await stop_tasks()
    if meant == "stop":
        await assert_eventually(lambda: aborted)
        assert aborted[0] == {"sessionKey": key, "runId": f.run}
        remember(gateway, key, f.said("Half", stop="aborted"))
        tell(gateway, f.over(aborted=True, stopReason="rpc"), f.chat("aborted", "Half", stopReason="rpc"))
        tell(gateway, f.settled("killed"))
    else:
        # A page that does not know counts as Send now: nothing is lost.
        await assert_eventually(lambda: has_tasks(world, chat_id))
        assert not aborted
        remember(gateway, key, f.said("Half and the rest."))
        tell(gateway, f.says("Half and the rest.", " and the rest.", "i"))
        tell(gateway, *f.final("Half and the rest."), f.settled())
    (only,) = await done(world, chat_id, 1)
    assert text(only) == ("Half" if meant == "stop" else "Half and the rest.")


async def has_tasks(world: World, chat_id: str) -> bool:
    return bool(await world.host.tasks(chat_id))


async def stop_tasks() -> None:
    """What the Host's Stop does: cancel the chat's tasks and wait for them."""
    for task in asyncio.all_tasks():
        name = getattr(task.get_coro(), "__qualname__", "")
        if name == "Writer._run":
            task.cancel()
            await asyncio.wait((task,))


# A person's own turn.


async def quiet(words: str, done: bool) -> None:
    return None


async def hosted(world: World, bridge: Bridge, asked: Asked) -> list[dict[str, Any]]:
    """A turn as the Host runs it: the stream is read and its end written into the chat, in one task."""
    events = [event async for event in reply(bridge, asked, quiet)]
    output = shown(events)
    said = "\n\n".join(item["content"][0]["text"] for item in output if item["type"] == "message")
    assert asked.chat is not None
    assert asked.message is not None
    async with world.host.edit(asked.chat) as chat:
        assert chat is not None
        await chat.put(asked.message, {"done": True, "content": said, "output": output})
    return events


async def collect(events: AsyncIterator[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event async for event in events]


def shown(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What Open WebUI's stream handler makes of the events (its own rules, for the kinds that are used)."""
    items: list[dict[str, Any]] = []
    for event in events:
        if event.get("type") == "response.output_item.added":
            item = event["item"]
            at = next((n for n, one in enumerate(items) if one["id"] == item["id"]), None)
            if at is not None:
                items[at] = item
            else:
                items.insert(event["output_index"], item)
        elif str(event.get("type")).endswith(".delta"):
            item = items[event["output_index"]]
            assert item["id"] == event["item_id"]
            part = item["content"][0]
            items[event["output_index"]] = {
                **item,
                "content": [{**part, "text": part["text"] + event["delta"]}],
            }
        elif event.get("type") == "response.completed":
            items = event["response"].get("output", items)
    return items


def asked_by(world: World, chat_id: str, reply_id: str, **more: Any) -> Asked:
    return Asked(agent="main", user=world.user, chat=chat_id, message=reply_id, text="hello", **more)


async def sent(gateway: FakeGateway) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        return next(
            (p for c in gateway.connections for m, p in c.requests if m == "chat.send"),
            None,
        )

    params = await assert_eventually(found, "a message was sent")
    assert params is not None
    return params


async def test_a_persons_turn_streams_through_its_own_request(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    asked, left = user_says("hello"), stub()
    chat_id = await world.chat(asked, left)
    bridge = await connect()
    key = key_of(world, chat_id)
    turn = asyncio.ensure_future(collect(reply(bridge, asked_by(world, chat_id, left["id"]), quiet)))
    params = await sent(gateway)
    assert params["sessionKey"] == key
    assert params["idempotencyKey"].startswith(f"msg-{chat_id}-{left['id']}-")
    assert params["queueMode"] == "followup"
    f = Frames(params["idempotencyKey"], key)
    frames, rows = whole(f, "Hello, you.", "c1")
    remember(gateway, key, *rows)
    tell(gateway, *frames)
    events = await turn
    items = shown(events)
    assert [item["type"] for item in items] == ["function_call", "function_call_output", "message"]
    assert items[-1]["content"][0]["text"] == "Hello, you."
    # The Host writes it, nobody else.
    assert [one["done"] for one in await world.replies(chat_id)] == [False]


async def test_a_turn_whose_request_is_closed_is_finished_by_a_writer(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("hello"), left)
    world.answers[chat_id] = lambda code: None
    bridge = await connect()
    key = key_of(world, chat_id)
    turn = asyncio.ensure_future(collect(reply(bridge, asked_by(world, chat_id, left["id"]), quiet)))
    f = Frames((await sent(gateway))["idempotencyKey"], key)
    tell(
        gateway,
        *f.begin(),
        f.row(f.asked()),
        *(x for n in range(3) for x in (f.call(f"c{n}"), f.result(f"c{n}"))),
    )

    def three_cards() -> bool:
        run = bridge.table.find(key, f.run)
        return run is not None and len(run.state.items) == 3

    await assert_eventually(three_cards)
    turn.cancel()
    await asyncio.wait((turn,))
    rows = [row for n in range(5) for row in (f.called(f"c{n}"), f.returned(f"c{n}"))]
    remember(gateway, key, f.asked(), *rows, f.said("Five done."))
    tell(gateway, *(x for n in range(3, 5) for x in (f.call(f"c{n}"), f.result(f"c{n}"))))
    tell(gateway, f.says("Five done.", "Five done.", "i"), *f.final("Five done."), f.settled())
    (only,) = await done(world, chat_id, 1)
    assert (only["id"], text(only), len(cards(only))) == (left["id"], "Five done.", 5)
    calls = [item for item in only["output"] if item["type"] == "function_call"]
    results = [item for item in only["output"] if item["type"] == "function_call_output"]
    assert [one["call_id"] for one in calls] == [one["call_id"] for one in results]


@pytest.mark.parametrize("closed", [True, False])
async def test_a_turn_that_the_agent_answers_with_nothing_ends(
    gateway: FakeGateway, world: World, connect: Connect, closed: bool
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("hello"), left)
    world.answers[chat_id] = lambda code: None
    bridge = await connect()
    key = key_of(world, chat_id)
    turn = asyncio.ensure_future(hosted(world, bridge, asked_by(world, chat_id, left["id"])))
    f = Frames((await sent(gateway))["idempotencyKey"], key)
    if closed:
        tell(gateway, *f.begin(), f.row(f.asked()))
        await assert_eventually(lambda: bridge.active(key))
        turn.cancel()
        await asyncio.wait((turn,))
        await assert_eventually(lambda: has_tasks(world, chat_id))
    remember(gateway, key, f.asked())
    tell(gateway, f.says("NO_REPLY", "NO_REPLY", "i"), *f.final(), f.settled())
    (only,) = await done(world, chat_id, 1)
    assert text(only) == ""


async def test_a_message_waits_for_the_run_that_goes_on(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("hello"), left)
    bridge = await connect()
    key = key_of(world, chat_id)
    f = Frames(new_run(), key)
    tell(gateway, *f.begin(), f.row(f.asked()), f.says("Working", "Working", "i"))
    await assert_eventually(lambda: bridge.active(key))
    lines: list[str] = []

    async def note(words: str, over: bool) -> None:
        lines.append(words)

    turn = asyncio.ensure_future(collect(reply(bridge, asked_by(world, chat_id, left["id"]), note)))
    await assert_eventually(lambda: lines)
    assert not any(method == "chat.send" for one in gateway.connections for method, _ in one.requests)
    remember(gateway, key, f.asked(), f.said("Working."))
    tell(gateway, *f.final("Working."), f.settled())
    params = await sent(gateway)
    g = Frames(params["idempotencyKey"], key)
    frames, rows = whole(g, "Mine.")
    remember(gateway, key, *rows)
    tell(gateway, *frames)
    assert shown(await turn)[-1]["content"][0]["text"] == "Mine."
    assert lines[0].startswith("Queued")


async def test_a_queued_message_is_answered_in_its_own_reply(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    # The Gateway answers it with a run of another id, whose input is the sent message.
    left = stub()
    chat_id = await world.chat(user_says("hello"), left)
    bridge = await connect()
    key = key_of(world, chat_id)
    turn = asyncio.ensure_future(collect(reply(bridge, asked_by(world, chat_id, left["id"]), quiet)))
    own = Frames((await sent(gateway))["idempotencyKey"], key)
    tell(gateway, own.bare())
    other = Frames(new_run(), key)
    remember(gateway, key, own.asked(), other.said("Late."))
    tell(gateway, own.row(own.asked()), *other.begin(), other.says("Late.", "Late.", "i"))
    tell(gateway, *other.final("Late."), other.settled())
    assert shown(await turn)[-1]["content"][0]["text"] == "Late."


async def test_a_dropped_send_is_sent_again_under_the_same_id(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("hello"), left)
    bridge = await connect()
    key = key_of(world, chat_id)
    seen: list[str] = []

    def take(params: dict[str, Any]) -> dict[str, Any]:
        seen.append(params["idempotencyKey"])
        if len(seen) == 1:
            gateway.live[-1].abort()
        return {"runId": params["idempotencyKey"], "status": "started"}

    gateway.handlers["chat.send"] = take
    turn = asyncio.ensure_future(collect(reply(bridge, asked_by(world, chat_id, left["id"]), quiet)))
    await assert_eventually(lambda: len(seen) == 2)
    assert seen[0] == seen[1]
    f = Frames(seen[0], key)
    frames, rows = whole(f, "Here.")
    remember(gateway, key, *rows)
    tell(gateway, *frames)
    assert shown(await turn)[-1]["content"][0]["text"] == "Here."


async def test_a_refused_message_says_what_to_do(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    chat_id = await world.chat(user_says("hello"), stub())
    bridge = await connect()
    gateway.handlers["chat.send"] = lambda _: Fault(
        {"code": "INVALID_REQUEST", "message": "unknown agent: main"}
    )
    with pytest.raises(TurnError, match="AGENT_ID"):
        await collect(reply(bridge, asked_by(world, chat_id, str(uuid.uuid4())), quiet))
    assert not bridge.active(key_of(world, chat_id))


async def test_a_request_without_a_chat_gets_its_reply(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    bridge = await connect()
    asked = Asked(agent="main", user=None, chat=None, message=None, text="hello")
    turn = asyncio.ensure_future(collect(reply(bridge, asked, quiet)))
    params = await sent(gateway)
    f = Frames(params["idempotencyKey"], params["sessionKey"])
    frames, rows = whole(f, "By itself.")
    remember(gateway, params["sessionKey"], *rows)
    tell(gateway, *frames)
    assert shown(await turn)[-1]["content"][0]["text"] == "By itself."


async def test_a_retired_bridge_finishes_what_it_streams(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("hello"), left)
    old = await connect()
    key = key_of(world, chat_id)
    turn = asyncio.ensure_future(hosted(world, old, asked_by(world, chat_id, left["id"])))
    f = Frames((await sent(gateway))["idempotencyKey"], key)
    tell(gateway, *f.begin(), f.row(f.asked()), f.says("Still", "Still", "i"))
    await connect()
    frames = [f.says("Still mine.", " mine.", "i"), *f.final("Still mine."), f.settled()]
    remember(gateway, key, f.asked(), f.said("Still mine."))
    tell(gateway, *frames)
    assert shown(await turn)[-1]["content"][0]["text"] == "Still mine."
    # Only the Host's own request writes there, and the old connection goes.
    await assert_eventually(lambda: not old.client.connected)
    (only,) = await world.replies(chat_id)
    assert text(only) == "Still mine."
    assert not (only.get("meta") or {}).get("openclaw_writer")
    frames, rows = whole(Frames(new_run(), key), "By the new one.")
    remember(gateway, key, *rows)
    tell(gateway, *frames)

    async def came() -> bool:
        return any(text(one) == "By the new one." for one in await world.replies(chat_id))

    await assert_eventually(came)


async def test_a_slow_page_of_one_chat_keeps_no_other_waiting(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    slow_id, quick_id = await world.chat(user_says("a")), await world.chat(user_says("b"))
    bridge = await connect()
    gate, emitter = asyncio.Event(), bridge.host.emitter

    async def slowed(user_id: str, chat_id: str, message_id: str) -> Any:
        if chat_id == slow_id:
            await gate.wait()
        return await emitter(user_id, chat_id, message_id)

    bridge.host.emitter = slowed  # type: ignore[method-assign]
    for chat_id, words in ((slow_id, "Slow."), (quick_id, "Quick.")):
        frames, rows = whole(Frames(new_run(), key_of(world, chat_id)), words)
        remember(gateway, key_of(world, chat_id), *rows)
        tell(gateway, *frames)
    assert [text(one) for one in await done(world, quick_id, 1)] == ["Quick."]
    gate.set()
    assert [text(one) for one in await done(world, slow_id, 1)] == ["Slow."]
