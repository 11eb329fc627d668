"""What the real Host lets a Function do outside of a request, in its database and in its page.

The product stands on these facts: a message that nobody asked for appears in an open tab and is the chat's newest one,
its chat counts as generating, Stop reaches its task, and a chat's time tells which one is newer.
"""

from __future__ import annotations

import asyncio
import uuid
from itertools import pairwise

import pytest

from tests.live.rig.host import Host
from tests.live.rig.lab import MODEL, Lab
from tests.live.rig.page import ChatPage
from tests.support import assert_eventually


@pytest.fixture
async def lab(host: Host) -> Lab:
    return await Lab.install(host)


async def linear(host: Host, chat_id: str, *expected: str) -> None:
    """Every message of the chat is in one chain that ends with these."""
    history = await host.history(chat_id)
    thread = await host.thread(chat_id)
    assert len(thread) == len(history["messages"])
    assert [one["id"] for one in thread][-len(expected) :] == list(expected)
    for parent, child in pairwise(thread):
        assert parent["childrenIds"] == [child["id"]]


async def test_a_message_nobody_asked_for_appears_in_an_open_tab_and_the_next_one_follows_it(
    host: Host, lab: Lab, host_page: ChatPage
) -> None:
    chat_id, reply = await lab.chat()
    await host_page.show(chat_id)
    await host_page.shows(reply, "Hello, first question")
    message, gate = await lab.begin(chat_id)
    await host_page.shows(message, "first")
    await host_page.generating()
    await lab.release(gate)
    await host_page.shows(message, "first second")
    await host_page.generating(False)
    await linear(host, chat_id, reply, message)

    await host_page.send("and now")
    await host_page.page.get_by_text("Hello, and now").wait_for()
    thread = await host.thread(chat_id)
    asked, answered = thread[-2:]
    assert (asked["content"], asked["parentId"]) == ("and now", message)
    await host.finished(chat_id, answered["id"])
    await linear(host, chat_id, reply, message, asked["id"], answered["id"])

    shown = await (await host_page.reload()).ids()
    assert shown[-4:] == [reply, message, asked["id"], answered["id"]]
    await host_page.shows(message, "first second")
    assert host_page.complaints == []


async def test_a_chat_with_only_a_writer_counts_as_generating_and_the_page_queues_what_is_sent(
    host: Host, lab: Lab, host_page: ChatPage
) -> None:
    chat_id, _ = await lab.chat()
    await host_page.show(chat_id)
    message, gate = await lab.begin(chat_id)
    await host_page.shows(message, "first")
    assert len(await host.tasks(chat_id)) == 1
    assert await host.active(chat_id)
    await host_page.send("queued question")
    await host_page.page.get_by_text("queued question").wait_for()
    assert all(one["content"] != "queued question" for one in await host.thread(chat_id))

    await lab.release(gate)
    await host.finished(chat_id, message)

    async def sent() -> bool:
        return any(one["content"] == "queued question" for one in await host.thread(chat_id))

    await assert_eventually(sent, "the page did not send what it had queued", 20)
    thread = await host.thread(chat_id)
    assert (thread[-2]["content"], thread[-2]["parentId"]) == ("queued question", message)
    await host.finished(chat_id, thread[-1]["id"])
    assert not await host.active(chat_id)


async def test_a_tab_opened_in_between_shows_what_is_there_and_the_rest(
    host: Host, lab: Lab, host_page: ChatPage
) -> None:
    chat_id, _ = await lab.chat()
    message, gate = await lab.begin(chat_id)
    await assert_eventually(lambda: host.active(chat_id))
    await host_page.show(chat_id)
    await host_page.shows(message, "first")
    await host_page.generating()
    await lab.release(gate)
    await host_page.shows(message, "first second")
    await host_page.generating(False)


async def test_the_pages_stop_cancels_the_writer(host: Host, lab: Lab, host_page: ChatPage) -> None:
    chat_id, _ = await lab.chat()
    await host_page.show(chat_id)
    message, _ = await lab.begin(chat_id)
    await host_page.shows(message, "first")
    await host_page.stop.click()
    found = await host.finished(chat_id, message)
    assert found["content"] == "first "
    assert ["stopped", message] in await lab.notes()
    await host_page.generating(False)
    await (await host_page.reload()).shows(message, "first")
    await host_page.generating(False)


async def test_stop_by_the_api_cancels_the_writer(host: Host, lab: Lab) -> None:
    chat_id, _ = await lab.chat()
    message, _ = await lab.begin(chat_id)
    await assert_eventually(lambda: host.active(chat_id))
    await host.stop_chat(chat_id)
    assert (await host.finished(chat_id, message))["content"] == "first "
    assert ["stopped", message] in await lab.notes()
    assert await host.tasks(chat_id) == []


async def test_what_the_tabs_hear(host: Host, lab: Lab) -> None:
    chat_id, reply = await lab.chat()
    async with host.tab(chat_id) as here, host.tab() as elsewhere:
        message, gate = await lab.begin(chat_id)
        added = (await here.heard(chat_id, "chat:messages"))["data"]["data"]
        assert set(added["messages"]) == {reply, message}
        assert added["currentId"] == message
        await lab.release(gate)
        await here.heard(chat_id, "chat:active", lambda data: data["active"] is False)
        await elsewhere.heard(chat_id, "chat:active", lambda data: data["active"] is False)
        final = here.of(chat_id, "chat:completion")[-1]["data"]["data"]
        assert final["done"]
        assert final["output"][0]["content"][0]["text"] == "first second"
        # A tab that shows another chat is not told of the message; it finds it when it opens the chat.
        assert elsewhere.of(chat_id, "chat:messages") == []


async def test_the_chats_time_moves_with_the_message(host: Host, lab: Lab) -> None:
    chat_id, _ = await lab.chat()
    begun = (await host.chat(chat_id))["updated_at"]
    message, gate = await lab.begin(chat_id)
    await assert_eventually(lambda: host.active(chat_id))
    between = (await host.chat(chat_id))["updated_at"]
    await lab.release(gate)
    await host.finished(chat_id, message)
    assert begun <= between <= (await host.chat(chat_id))["updated_at"]


async def test_of_writers_that_race_for_one_message_one_gets_it(host: Host, lab: Lab) -> None:
    chat_id, reply = await lab.chat()
    wanted = str(uuid.uuid4())
    begun = await asyncio.gather(*(lab.begin(chat_id, wanted) for _ in range(4)))

    async def backed_off() -> bool:
        return (await lab.notes()).count(["claimed already", wanted]) == 3

    await assert_eventually(backed_off, "three of the four did not back off")
    for _, gate in begun:
        await lab.release(gate)
    await host.finished(chat_id, wanted)
    await linear(host, chat_id, reply, wanted)


async def test_messages_that_begin_together_follow_each_other(host: Host, lab: Lab) -> None:
    chat_id, reply = await lab.chat()
    begun = await asyncio.gather(*(lab.begin(chat_id) for _ in range(3)))
    for _, gate in begun:
        await lab.release(gate)
    for message, _ in begun:
        await host.finished(chat_id, message)
    thread = await host.thread(chat_id)
    assert thread[1]["id"] == reply
    await linear(host, chat_id, *(one["id"] for one in thread[1:]))
    assert {message for message, _ in begun} == {one["id"] for one in thread[2:]}


async def test_after_a_kill_the_message_is_there_unfinished_and_can_be_found(host: Host, lab: Lab) -> None:
    chat_id, reply = await lab.chat()
    message, _ = await lab.begin(chat_id)
    await assert_eventually(lambda: host.active(chat_id))
    await asyncio.to_thread(host.restart)
    left = (await host.history(chat_id))["messages"][message]
    assert (left["parentId"], left["done"]) == (reply, False)
    assert await host.tasks(chat_id) == []
    assert not await host.active(chat_id)
    # The pipe comes to life again when the models are listed.
    assert MODEL in await host.models()
    _, answer = await host.send(chat_id, MODEL, "still there")
    assert (await host.finished(chat_id, answer))["content"] == "Hello, still there"
