"""A Gateway that is killed, or whose wire is cut, in the middle of runs that show in a chat."""

from __future__ import annotations

import asyncio
import signal

import pytest

from rejoinder.turns.identity import message_id
from tests.live import chats, proof
from tests.live.chats import ECHO, ChatSession, card_names, checked, deploy, first_words, replies, words
from tests.live.rig import places
from tests.live.rig.gateway import Gateway
from tests.live.rig.host import Host
from tests.live.rig.model import Model, hold, prompt, say
from tests.live.rig.page import ChatPage
from tests.live.rig.watching import Watch, watching
from tests.live.rig.wire import Wire
from tests.live.test_gateway_restarts import RECOVERY
from tests.support import assert_eventually

pipe, watch, chat = chats.pipe, chats.watch, chats.chat


async def test_after_kill_9_of_the_gateway_each_run_goes_on_in_its_own_message(
    gateway: Gateway,
    host: Host,
    watch: Watch,
    chat: ChatSession,
    pipe: str,
    model: Model,
    host_page: ChatPage,
) -> None:
    other = ChatSession(host, await host.new_chat(pipe))
    await first_words(host, watch, other, pipe)
    model.rule(RECOVERY, say(tools=[ECHO]), say("Carried on."))
    _, mine = await host.send(chat.chat, pipe, prompt(say(tools=[ECHO]), say("Cut ", hold("user"), "off")))
    run, _ = await watch.begin(other, say("Cut ", hold("agent"), "off"))
    await model.held("user")
    await model.held("agent")
    await asyncio.to_thread(gateway.restart)
    (only,) = await replies(host, chat, 1, within=120)
    assert (only["id"], words(only["content"]), card_names(only)) == (mine, "Carried on.", ["exec", "exec"])
    found = await replies(host, other, 2, within=120)
    assert found[1]["id"] == message_id(other.key, run)
    assert words(found[1]["content"]) == "Carried on."
    proof.in_database()
    for one, message in ((chat, mine), (other, found[1]["id"])):
        await host_page.show(one.chat)
        await host_page.shows(message, "Carried on.")
        await host_page.generating(False)
        await proof.in_page(host_page, message)


async def test_after_an_announced_restart_each_run_goes_on_in_its_own_message(
    gateway: Gateway,
    host: Host,
    watch: Watch,
    chat: ChatSession,
    pipe: str,
    model: Model,
    host_page: ChatPage,
) -> None:
    if gateway.version == places.GATEWAY_NEWEST:
        # This one ends instead, and is started by its supervisor: the test before is its case.
        return
    other = ChatSession(host, await host.new_chat(pipe))
    await first_words(host, watch, other, pipe)
    model.rule(RECOVERY, say("Carried on."))
    _, mine = await host.send(chat.chat, pipe, prompt(say(tools=[ECHO]), say("Cut ", hold("user"), "off")))
    run, _ = await watch.begin(other, say("Cut ", hold("agent"), "off"))
    await model.held("user")
    await model.held("agent")
    gateway.request_restart()
    (only,) = await replies(host, chat, 1, within=120)
    assert (only["id"], words(only["content"]), card_names(only)) == (mine, "Carried on.", ["exec"])
    found = await replies(host, other, 2, within=120)
    assert (found[1]["id"], words(found[1]["content"])) == (message_id(other.key, run), "Carried on.")
    proof.in_database()
    for one, message in ((chat, mine), (other, found[1]["id"])):
        await host_page.show(one.chat)
        await host_page.shows(message, "Carried on.")
        await host_page.generating(False)
        await proof.in_page(host_page, message)
    # It keeps a cut run in its books, and would wait minutes for it before it ends.
    gateway.kill()


@pytest.mark.parametrize("how", ["SIGTERM", "SIGTERM, then SIGKILL"])
async def test_the_host_is_stopped_mid_turn_and_started_again(
    host: Host,
    watch: Watch,
    chat: ChatSession,
    pipe: str,
    model: Model,
    host_page: ChatPage,
    how: str,
) -> None:
    # As a container is stopped: asked, and killed where it does not end in time. A person's turn and the agent's own.
    other = ChatSession(host, await host.new_chat(pipe))
    await first_words(host, watch, other, pipe)
    _, mine = await host.send(chat.chat, pipe, prompt(say(tools=[ECHO]), say("Going ", hold("user"), "on.")))
    run, over = await watch.begin(other, say("Mine ", hold("agent"), "too."))
    await model.held("user")
    await model.held("agent")
    theirs = message_id(other.key, run)
    assert theirs is not None

    async def shown() -> bool:
        return any(one["id"] == theirs for one in await host.thread(other.chat))

    await assert_eventually(shown)
    host.signal(signal.SIGTERM)
    if how == "SIGTERM":
        await asyncio.to_thread(host.wait, 60)
    else:
        host.kill()
    # One run ends while nobody is there, the other one goes on.
    model.release("agent")
    await over
    host.spawn()
    await assert_eventually(lambda: host._healthy(), "the Host did not come back", 120)
    model.release("user")
    found = await checked(host, watch, chat, host_page, ("Going on.", ["exec"]))
    assert found[0]["id"] == mine
    await checked(host, watch, other, host_page, ("Hello.", []), ("Mine too.", []))


async def test_a_gateway_that_is_asked_to_stop_lets_the_reply_come_to_its_end(
    gateway: Gateway,
    host: Host,
    watch: Watch,
    chat: ChatSession,
    pipe: str,
    model: Model,
    host_page: ChatPage,
) -> None:
    _, mine = await host.send(chat.chat, pipe, prompt(say(tools=[ECHO]), say("All ", hold("user"), "of it.")))
    await model.held("user")
    gateway.signal(signal.SIGTERM)
    model.release("user")
    (only,) = await replies(host, chat, 1, within=120)
    assert (only["id"], words(only["content"]), card_names(only)) == (mine, "All of it.", ["exec"])
    # What else it runs, or takes for running after a crash, it waits for up to 315 s. The reply does not.
    gateway.kill()
    proof.in_database()
    await host_page.show(chat.chat)
    await host_page.shows(mine, "All of it.")
    await host_page.generating(False)
    await proof.in_page(host_page)


async def test_a_container_stop_of_the_gateway_lets_the_reply_go_on_after_its_start(
    gateway: Gateway,
    host: Host,
    watch: Watch,
    chat: ChatSession,
    pipe: str,
    model: Model,
    host_page: ChatPage,
) -> None:
    # Asked to stop, it waits for the run; whoever stops the container does not, and kills it.
    model.rule(RECOVERY, say("Carried on."))
    _, mine = await host.send(chat.chat, pipe, prompt(say(tools=[ECHO]), say("Cut ", hold("user"), "off")))
    await model.held("user")
    gateway.signal(signal.SIGTERM)
    gateway.kill()
    await asyncio.to_thread(gateway.start)
    (only,) = await replies(host, chat, 1, within=120)
    assert (only["id"], words(only["content"])) == (mine, "Carried on.")
    proof.in_database()
    await host_page.show(chat.chat)
    await host_page.shows(mine, "Carried on.")
    await host_page.generating(False)
    await proof.in_page(host_page)


async def test_a_cut_wire_loses_no_word(
    gateway: Gateway, host: Host, chat: ChatSession, pipe: str, model: Model, host_page: ChatPage
) -> None:
    async with Wire.to(gateway.port) as wire, watching(gateway) as watch:
        await deploy(host, gateway, wire.url)
        await first_words(host, watch, chat, pipe)
        run, over = await watch.begin(
            chat, say("Before. ", hold("one"), tools=[ECHO]), say("Between. ", hold("two"), "After.")
        )
        await model.held("one")
        mine = message_id(chat.key, run)
        assert mine is not None

        async def shown() -> bool:
            return any(one["id"] == mine for one in await host.thread(chat.chat))

        await assert_eventually(shown)
        wire.cut()
        model.release("one")
        await model.held("two")
        wire.mend()
        model.release("two")
        await over
        await checked(host, watch, chat, host_page, ("Hello.", []), ("Before. Between. After.", ["exec"]))
    await deploy(host, gateway, gateway.url)
