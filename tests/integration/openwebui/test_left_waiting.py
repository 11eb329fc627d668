"""Messages that waited in the Gateway while Open WebUI was restarted: each is answered in its own reply, by whatever
run answered it, and none is answered in a message that nobody asked for."""

from __future__ import annotations

import pytest

from rejoinder.openwebui.bridge import COLLECTED
from rejoinder.openwebui.reconcile import CUT_OFF
from tests.fake_gateway import FakeGateway
from tests.integration.openwebui.conftest import Connect
from tests.integration.openwebui.hosts import World, key_of, stub, user_says
from tests.integration.openwebui.test_bridge import done, new_run, remember, tell, text
from tests.support import assert_eventually
from tests.unit.turns.script import SESSION, Frames, Row
from tests.unit.turns.test_queued import collection


def collected(f: Frames, *texts: str, number: int = 0) -> Row:
    """The input of a run that answers these messages together."""
    return f.asked(collection(*texts)["content"], idempotencyKey=f"followup-collect:{SESSION}:{number}")


def standing(gateway: FakeGateway, key: str, *, active: bool) -> None:
    status = (
        {"status": "running", "hasActiveRun": True} if active else {"status": "done", "hasActiveRun": False}
    )
    gateway.sessions = [{"key": key, "sessionId": SESSION, "updatedAt": 2_000_000, **status}]


async def test_what_was_collected_and_answered_meanwhile_is_in_the_reply_to_the_last(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    one, two, never = stub(), stub(), stub()
    asked = [user_says("first"), one, user_says("second"), two, user_says("third"), never]
    chat_id = await world.chat(*asked, at=1_000)
    f = Frames(new_run(), key_of(world, chat_id))
    remember(gateway, f.key, collected(f, "first", "second"), f.said("Both."))
    standing(gateway, f.key, active=False)
    await connect()
    replies = await done(world, chat_id, 3)
    assert [text(reply) for reply in replies] == [COLLECTED, "Both.", ""]
    assert replies[2]["error"]["content"] == CUT_OFF
    assert len((await world.history(chat_id))["messages"]) == 6


async def test_what_is_collected_afterwards_is_as_well(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    one, two = stub(), stub()
    chat_id = await world.chat(user_says("first"), one, user_says("second"), two, at=1_000)
    key = key_of(world, chat_id)
    busy = Frames(new_run(), key)
    remember(gateway, key, busy.asked(), inFlightRun={"runId": busy.run, "text": "Mine", "events": []})
    standing(gateway, key, active=True)
    bridge = await connect()
    await assert_eventually(lambda: bridge.table._session(key).queued and bridge.active(key))
    remember(gateway, key, busy.said("Mine."))
    tell(gateway, *busy.final("Mine."), busy.settled())
    await done_but(world, chat_id, 1)
    # The Gateway takes them up one by one.
    for number, words in enumerate(("first", "second")):
        f = Frames(new_run(), key)
        row = collected(f, words, number=number)
        remember(gateway, key, row, f.said(f"To {words}."))
        tell(
            gateway,
            *f.begin(),
            f.row(row),
            f.says(f"To {words}.", f"To {words}.", "i"),
            *f.final(f"To {words}."),
        )
        await done_but(world, chat_id, number + 2)
    assert [text(reply) for reply in await done(world, chat_id, 3)] == ["To first.", "To second.", "Mine."]
    assert not bridge.table._session(key).queued


async def test_a_message_that_waited_for_a_run_of_its_own_is_answered_in_its_own_reply(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("first"), left, at=1_000)
    key = key_of(world, chat_id)
    busy = Frames(new_run(), key)
    remember(gateway, key, busy.asked(), inFlightRun={"runId": busy.run, "text": "Mine", "events": []})
    standing(gateway, key, active=True)
    bridge = await connect()
    await assert_eventually(lambda: bridge.table._session(key).queued and bridge.active(key))
    remember(gateway, key, busy.said("Mine."))
    tell(gateway, *busy.final("Mine."), busy.settled())
    await done_but(world, chat_id, 1)
    f, mine = Frames(new_run(), key), Frames(f"msg-{chat_id}-{left['id']}-1700000000000", key)
    remember(gateway, key, mine.asked("first"), f.said("Yours."))
    # Its input may be told after its first words.
    tell(gateway, *f.begin(), f.says("Yours.", "Yours.", "i"), f.row(mine.asked("first")), *f.final("Yours."))
    assert [text(reply) for reply in await done(world, chat_id, 2)] == ["Yours.", "Mine."]


async def test_a_reply_that_was_ended_as_lost_is_written_anew_by_the_run_that_answers_it_after_all(
    gateway: FakeGateway, world: World, connect: Connect
) -> None:
    left = stub()
    chat_id = await world.chat(user_says("first"), left, at=1_000)
    key = key_of(world, chat_id)
    standing(gateway, key, active=False)
    await connect()
    (only,) = await done(world, chat_id, 1)
    assert only["error"]["content"] == CUT_OFF
    f, mine = Frames(new_run(), key), Frames(f"msg-{chat_id}-{left['id']}-1", key)
    remember(gateway, key, mine.asked("first"), f.said("Late."))
    tell(
        gateway,
        f.row(mine.asked("first")),
        *f.begin(),
        f.says("Late.", "Late.", "i"),
        *f.final("Late."),
        f.settled(),
    )
    await written(world, chat_id, "Late.")
    (only,) = await done(world, chat_id, 1)
    assert (only["id"], only.get("error")) == (left["id"], None)


@pytest.mark.parametrize("shared", [False, True])
async def test_a_run_writes_into_no_chat_that_its_user_may_not_write_into(
    gateway: FakeGateway, world: World, connect: Connect, shared: bool
) -> None:
    chat_id, theirs = await world.chat(user_says("mine")), await world.chat(user_says("hello"))
    other = await world.another_user(shared_with=chat_id if shared else None)
    await connect()
    f = Frames(new_run(), key_of(world, chat_id).replace(world.user, other))
    good = Frames(new_run(), key_of(world, theirs))
    for one in (f, good):
        remember(gateway, one.key, one.asked(), one.said("Said."))
        tell(gateway, *one.begin(), one.row(one.asked()), one.says("Said.", "Said.", "i"))
        tell(gateway, *one.final("Said."), one.settled())
    assert [text(reply) for reply in await done(world, theirs, 1)] == ["Said."]
    if shared:
        (only,) = await done(world, chat_id, 1)
        assert (text(only), only["user_id"]) == ("Said.", other)
    else:
        assert await world.replies(chat_id) == []


async def done_but(world: World, chat_id: str, count: int) -> None:
    """Until so many replies are finished."""

    async def there() -> bool:
        return sum(bool(reply["done"]) for reply in await world.replies(chat_id)) == count

    await assert_eventually(there, f"{count} finished replies")


async def written(world: World, chat_id: str, words: str) -> None:
    """Until a reply says this."""

    async def there() -> bool:
        return any(text(reply) == words and reply["done"] for reply in await world.replies(chat_id))

    await assert_eventually(there, f"a reply says {words}")
