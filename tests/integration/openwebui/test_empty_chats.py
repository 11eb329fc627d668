"""A chat that nobody has written in yet: an agent that speaks first begins it, however its emptiness is kept."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rejoinder.turns.identity import message_id
from tests.fake_gateway import FakeGateway
from tests.integration.openwebui.conftest import Connect
from tests.integration.openwebui.hosts import Told, World, key_of
from tests.integration.openwebui.test_bridge import cards, done, new_run, remember, tell, text, whole
from tests.support import assert_eventually
from tests.unit.turns.script import SESSION, Frames

MODELS = ["openclaw_gateway.default"]
#: What a chat's JSON may be while it has no message: as its page makes it, by the API, or as an import left it.
EMPTY: dict[str, dict[str, Any] | None] = {
    "of the page": {"models": MODELS, "history": {"messages": {}, "currentId": None}, "messages": []},
    "no current id": {"models": MODELS, "history": {"messages": {}}},
    "a current id of nothing": {"models": MODELS, "history": {"messages": {}, "currentId": "gone"}},
    "an empty current id": {"models": MODELS, "history": {"messages": {}, "currentId": ""}},
    "no messages": {"models": MODELS, "history": {"currentId": None}},
    "messages of null": {"models": MODELS, "history": {"messages": None, "currentId": None}},
    "messages in a list": {"models": MODELS, "history": {"messages": [], "currentId": None}},
    "an empty history": {"models": MODELS, "history": {}},
    "a history of null": {"models": MODELS, "history": None},
    "a history in a list": {"models": MODELS, "history": []},
    "no history": {"models": MODELS},
    "no models": {"history": {"messages": {}, "currentId": None}},
    "nothing": {},
    "null": None,
}
every_shape = pytest.mark.parametrize("shape", list(EMPTY))


async def empty_chat(world: World, shape: str, at: int = 0) -> str:
    """A chat without a message, whose JSON is just this."""
    chat_id = await world.chat(at=at)
    async with world.host.edit(chat_id) as chat:
        assert chat is not None
        chat._chat.chat = copy.deepcopy(EMPTY[shape])
        world.host.changed(chat._chat)
    return chat_id


@every_shape
async def test_a_run_of_the_agents_own_begins_the_chat_and_the_next_follows_it(
    shape: str, gateway: FakeGateway, world: World, connect: Connect
) -> None:
    chat_id = await empty_chat(world, shape)
    await connect()
    key = key_of(world, chat_id)
    told: list[str] = []

    def seen() -> list[Told]:
        return world.seen(chat_id, told[-1])

    for place, words in enumerate(("I speak first.", "And once more.")):
        f = Frames(new_run(), key)
        mine = message_id(key, f.run)
        assert mine is not None
        told.append(mine)
        frames, rows = whole(f, words, f"c{place}")
        remember(gateway, key, *rows)
        # Its first tool shows it, before anything of it is finished.
        start = next(n for n, (_, one) in enumerate(frames) if one.get("stream") == "tool") + 1
        tell(gateway, *frames[:start])
        first = (await assert_eventually(seen))[0]
        assert (first.type, first.data["currentId"]) == ("chat:messages", mine)
        assert first.data["messages"][mine]["parentId"] == ([None, *told][place])
        tell(gateway, *frames[start:])
        await done(world, chat_id, place + 1)
    replies = await world.replies(chat_id)
    assert [(one["id"], text(one), cards(one)) for one in replies] == [
        (told[0], "I speak first.", ["exec"]),
        (told[1], "And once more.", ["exec"]),
    ]
    assert [(one["parentId"], one["childrenIds"]) for one in replies] == [(None, [told[1]]), (told[0], [])]
    models = (EMPTY[shape] or {}).get("models") or [""]
    assert [one["model"] for one in replies] == models * 2
    assert set((await world.history(chat_id))["messages"]) == set(told)


@every_shape
async def test_a_first_run_that_ended_while_nobody_looked_begins_the_chat(
    shape: str, gateway: FakeGateway, world: World, connect: Connect
) -> None:
    chat_id = await empty_chat(world, shape, at=1_000)
    key = key_of(world, chat_id)
    f = Frames(new_run(), key)
    rows = [f.asked(), f.said("I spoke first.")]
    for row in rows:
        row["__openclaw"] = {**row["__openclaw"], "recordTimestampMs": 2_000_000}
    remember(gateway, key, *rows)
    gateway.sessions = [{"key": key, "sessionId": SESSION, "status": "done", "updatedAt": 2_000_001}]
    await connect()
    mine = message_id(key, f.run)
    assert mine is not None
    await assert_eventually(lambda: world.seen(chat_id, mine))
    (only,) = await done(world, chat_id, 1)
    assert (only["id"], text(only), only["parentId"]) == (mine, "I spoke first.", None)
