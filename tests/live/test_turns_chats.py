"""The whole way: a real Gateway's runs as messages of a real Open WebUI, in its database and in its page reloaded."""

from __future__ import annotations

import asyncio
import uuid

from rejoinder.openwebui.bundle import build
from rejoinder.turns.identity import message_id
from tests.live import chats
from tests.live.chats import ECHO, ChatSession, checked, first_words, replies
from tests.live.rig.gateway import Gateway
from tests.live.rig.host import Host
from tests.live.rig.model import Model, fail, hold, prompt, say, tool
from tests.live.rig.page import ChatPage
from tests.live.rig.watching import Session, Watch
from tests.support import assert_eventually

pipe, watch, chat = chats.pipe, chats.watch, chats.chat


async def test_a_persons_turn(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, host_page: ChatPage
) -> None:
    _, reply = await host.send(
        chat.chat, pipe, prompt(say("Let me look.", tools=[ECHO]), say("Two ", "things ", "found."))
    )
    (only,) = await checked(host, watch, chat, host_page, ("Let me look. Two things found.", ["exec"]))
    assert only["id"] == reply


async def test_a_turn_typed_in_the_page_streams_there(
    host: Host, watch: Watch, chat: ChatSession, model: Model, host_page: ChatPage
) -> None:
    await host_page.show(chat.chat)
    model.rule("say it slowly", say("The first part ", hold("middle"), "and the last."))
    await host_page.send("say it slowly")
    await model.held("middle")
    await host_page.page.get_by_text("The first part").wait_for()
    await host_page.generating()
    model.release("middle")
    await checked(host, watch, chat, host_page, ("The first part and the last.", []))


async def test_a_run_of_the_agents_own_appears_in_the_open_page(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, model: Model, host_page: ChatPage
) -> None:
    await first_words(host, watch, chat, pipe)
    await host_page.show(chat.chat)
    run, over = await watch.begin(chat, say(tools=[ECHO]), say("By ", hold("middle"), "myself."))
    await model.held("middle")
    mine = message_id(chat.key, run)
    assert mine is not None
    await host_page.shows(mine, "By")
    await host_page.generating()
    model.release("middle")
    await over
    await host_page.shows(mine, "By myself.")
    await host_page.generating(False)
    found = await checked(host, watch, chat, host_page, ("Hello.", []), ("By myself.", ["exec"]))
    assert found[1]["id"] == mine
    assert found[1]["model"] == pipe


async def test_a_run_of_the_agents_own_begins_an_empty_chat(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, model: Model, host_page: ChatPage
) -> None:
    await host_page.show(chat.chat)
    run, over = await watch.begin(chat, say(tools=[ECHO]), say("I begin ", hold("middle"), "myself."))
    await model.held("middle")
    mine = message_id(chat.key, run)
    assert mine is not None
    await host_page.shows(mine, "I begin")
    await host_page.generating()
    model.release("middle")
    await over
    await host_page.shows(mine, "I begin myself.")
    (first,) = await checked(host, watch, chat, host_page, ("I begin myself.", ["exec"]))
    assert (first["id"], first["parentId"], first["model"]) == (mine, None, pipe)
    # A person answers, and the chat goes on from there.
    await host.send(chat.chat, pipe, prompt(say("Hello.")))
    await checked(host, watch, chat, host_page, ("I begin myself.", ["exec"]), ("Hello.", []))


async def test_two_wakes_of_a_schedule_are_two_messages(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, host_page: ChatPage
) -> None:
    await first_words(host, watch, chat, pipe)
    job = await watch.client.call(
        "cron.add",
        {
            "name": f"live {uuid.uuid4()}",
            "schedule": {"kind": "every", "everyMs": 3_600_000},
            "wakeMode": "now",
            "sessionTarget": f"session:{chat.key}",
            "payload": {"kind": "agentTurn", "message": prompt(say(tools=[ECHO]), say("It is time."))},
            "delivery": {"mode": "none"},
        },
    )
    try:
        for count in (2, 3):
            await watch.client.call("cron.run", {"id": job["id"], "mode": "force"})
            await replies(host, chat, count)
            await watch.idle(chat)
    finally:
        await watch.client.call("cron.remove", {"id": job["id"]})
    wake = ("It is time.", ["exec"])
    await checked(host, watch, chat, host_page, ("Hello.", []), wake, wake)


async def test_a_message_from_another_session(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, host_page: ChatPage
) -> None:
    await first_words(host, watch, chat, pipe)
    told = prompt(say(tools=[ECHO]), say("I got it."), lead="From another agent.")
    order = tool("sessions_send", sessionKey=chat.key, message=told, timeoutSeconds=0)
    _, run = await watch.send(Session(), say(tools=[order]), say("Sent."))
    await watch.heard.ended(run)
    await checked(host, watch, chat, host_page, ("Hello.", []), ("I got it.", ["exec"]))


async def test_a_sub_agents_end_while_the_parent_idles(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, model: Model, host_page: ChatPage
) -> None:
    model.rule("CHILD-RESULT", say("The child found it."))
    child = prompt(say(tools=[ECHO]), say(hold("child"), "CHILD-", "RESULT"), lead="A task.")
    order = prompt(say("I ask a child.", tools=[tool("sessions_spawn", task=child)]), say("It works."))
    _, reply = await host.send(chat.chat, pipe, order)
    await model.held("child")
    await host.finished(chat.chat, reply)
    model.release("child")
    await checked(
        host,
        watch,
        chat,
        host_page,
        ("I ask a child. It works.", ["sessions_spawn"]),
        ("The child found it.", []),
    )


async def test_a_sub_agents_end_while_the_parent_works(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, model: Model, host_page: ChatPage
) -> None:
    model.rule("CHILD-RESULT", say("The child found it as well."))
    child = prompt(say("CHILD-", "RESULT"), lead="A task.")
    order = prompt(
        say("I ask a child.", tools=[tool("sessions_spawn", task=child)]), say("I work ", hold("mine"), "on.")
    )
    _, reply = await host.send(chat.chat, pipe, order)
    await model.held("mine")
    await watch.ended_beside(chat)
    model.release("mine")
    await host.finished(chat.chat, reply)
    await watch.said(chat, "The child found it as well.")
    # Put into the run that works, or told afterwards in a run of its own: either way it is told once.
    thread = [one for one in await host.thread(chat.chat) if one["role"] == "assistant"]
    texts = [" ".join(str(one["content"]).split()) for one in thread]
    assert texts in (
        ["I ask a child. I work on. The child found it as well."],
        ["I ask a child. I work on.", "The child found it as well."],
    )
    expected = [(one, ["sessions_spawn"] if place == 0 else []) for place, one in enumerate(texts)]
    await checked(host, watch, chat, host_page, *expected)


async def test_a_tab_that_shows_another_chat_finds_the_reply_when_it_comes_back(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, model: Model, host_page: ChatPage
) -> None:
    await first_words(host, watch, chat, pipe)
    other = ChatSession(host, await host.new_chat(pipe))
    await first_words(host, watch, other, pipe)
    await host_page.show(other.chat)
    shown = await host_page.ids()
    run, over = await watch.begin(chat, say(tools=[ECHO]), say("Meanwhile ", hold("there"), "elsewhere."))
    await model.held("there")
    mine = message_id(chat.key, run)
    assert mine is not None
    # The chat that is on the screen stays as it is.
    await host_page.generating(False)
    assert await host_page.ids() == shown
    await host_page.show(chat.chat)
    await host_page.shows(mine, "Meanwhile")
    await host_page.generating()
    await host_page.show(other.chat)
    model.release("there")
    await over
    await replies(host, chat, 2)
    assert await host_page.ids() == shown
    await checked(host, watch, chat, host_page, ("Hello.", []), ("Meanwhile elsewhere.", ["exec"]))


async def test_a_tab_closed_and_opened_mid_turn(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, model: Model, host_page: ChatPage
) -> None:
    await first_words(host, watch, chat, pipe)
    run, over = await watch.begin(chat, say("Before ", hold("closed"), "between ", hold("open"), "after."))
    await model.held("closed")
    mine = message_id(chat.key, run)
    assert mine is not None
    await host_page.show(chat.chat)
    await host_page.shows(mine, "Before")
    await host_page.page.goto(f"{host.url}/health")
    model.release("closed")
    await model.held("open")
    await host_page.show(chat.chat)
    await host_page.shows(mine, "Before between")
    await host_page.generating()
    model.release("open")
    await over
    await host_page.shows(mine, "Before between after.")
    await checked(host, watch, chat, host_page, ("Hello.", []), ("Before between after.", []))


async def test_two_turns_back_to_back(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, host_page: ChatPage
) -> None:
    await first_words(host, watch, chat, pipe)
    _, first = await watch.begin(chat, say(tools=[ECHO]), say("One."))
    _, second = await watch.begin(chat, say("Two."))
    await asyncio.gather(first, second)
    await checked(host, watch, chat, host_page, ("Hello.", []), ("One.", ["exec"]), ("Two.", []))


async def test_stop_of_a_persons_turn_stops_the_agent(
    host: Host, watch: Watch, chat: ChatSession, model: Model, host_page: ChatPage
) -> None:
    model.rule("talk on", say("As far as ", hold("middle"), "never said"))
    await host_page.show(chat.chat)
    await host_page.send("talk on")
    await model.held("middle")
    await host_page.page.get_by_text("As far as").wait_for()
    await host_page.stop.click()
    await watch.idle(chat)
    await checked(host, watch, chat, host_page, ("As far as", []))


async def test_stop_of_an_agents_own_run(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, model: Model, host_page: ChatPage
) -> None:
    await first_words(host, watch, chat, pipe)
    await host_page.show(chat.chat)
    run, _ = await watch.begin(chat, say("Half of ", hold("middle"), "never said"))
    await model.held("middle")
    mine = message_id(chat.key, run)
    assert mine is not None
    await host_page.shows(mine, "Half of")
    await host_page.stop.click()
    await watch.idle(chat)
    await checked(host, watch, chat, host_page, ("Hello.", []), ("Half of", []))


async def test_send_now_lets_the_agent_finish_and_answers_next(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, model: Model, host_page: ChatPage
) -> None:
    await first_words(host, watch, chat, pipe)
    await host_page.show(chat.chat)
    model.rule("and now me", say("Now you."))
    run, over = await watch.begin(chat, say("Mine ", hold("middle"), "first."))
    await model.held("middle")
    mine = message_id(chat.key, run)
    assert mine is not None
    await host_page.shows(mine, "Mine")
    await host_page.send("and now me")
    await host_page.page.get_by_role("button", name="Send now").click()

    async def sent() -> bool:
        return any(one["content"] == "and now me" for one in await host.thread(chat.chat))

    await assert_eventually(sent, "the message was not sent")
    model.release("middle")
    await over
    await checked(host, watch, chat, host_page, ("Hello.", []), ("Mine first.", []), ("Now you.", []))


async def test_a_message_typed_while_the_agent_writes_follows_it(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, model: Model, host_page: ChatPage
) -> None:
    await first_words(host, watch, chat, pipe)
    await host_page.show(chat.chat)
    model.rule("and now me", say("Now you."))
    run, over = await watch.begin(chat, say("Mine ", hold("middle"), "first."))
    await model.held("middle")
    mine = message_id(chat.key, run)
    assert mine is not None
    await host_page.shows(mine, "Mine")
    await host_page.send("and now me")
    model.release("middle")
    await over
    await checked(host, watch, chat, host_page, ("Hello.", []), ("Mine first.", []), ("Now you.", []))


async def test_the_host_dies_mid_turn_and_comes_back(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, model: Model, host_page: ChatPage
) -> None:
    await first_words(host, watch, chat, pipe)
    _, reply = await host.send(
        chat.chat, pipe, prompt(say(tools=[ECHO]), say("Going ", hold("middle"), "on."))
    )
    await model.held("middle")
    # Nobody signs in and nobody lists models after this but the Host itself at its start.
    host.kill()
    host.spawn()
    await assert_eventually(lambda: host._healthy(), "the Host did not come back", 120)
    model.release("middle")
    found = await checked(host, watch, chat, host_page, ("Hello.", []), ("Going on.", ["exec"]))
    assert found[1]["id"] == reply


async def test_a_run_that_ended_while_the_host_was_down(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, host_page: ChatPage
) -> None:
    await first_words(host, watch, chat, pipe)
    host.kill()
    run, _ = await watch.ask(chat, say(tools=[ECHO]), say("Nobody saw this."))
    await watch.idle(chat)
    host.spawn()
    await assert_eventually(lambda: host._healthy(), "the Host did not come back", 120)
    found = await checked(host, watch, chat, host_page, ("Hello.", []), ("Nobody saw this.", ["exec"]))
    assert found[1]["id"] == message_id(chat.key, run)


async def test_a_redeploy_mid_turn_loses_and_doubles_nothing(
    gateway: Gateway,
    host: Host,
    watch: Watch,
    chat: ChatSession,
    pipe: str,
    model: Model,
    host_page: ChatPage,
) -> None:
    await first_words(host, watch, chat, pipe)
    _, over = await watch.begin(chat, say("Old ", hold("middle"), "deploy."))
    await model.held("middle")
    await host.install("openclaw_gateway", build()["openclaw_gateway"] + "\n# deployed again\n")
    await host.call(
        "POST",
        "/api/v1/functions/id/openclaw_gateway/valves/update",
        {"GATEWAY_URL": gateway.url, "GATEWAY_TOKEN": gateway.token, "STATE_DIR": str(host.data / "oc2")},
    )
    await host.models()
    model.release("middle")
    await over
    await watch.ask(chat, say("New deploy."))
    await checked(host, watch, chat, host_page, ("Hello.", []), ("Old deploy.", []), ("New deploy.", []))


async def test_a_model_that_fails_says_so_in_the_reply(
    host: Host, watch: Watch, chat: ChatSession, pipe: str
) -> None:
    _, reply = await host.send(chat.chat, pipe, prompt(fail(400, "the scripted failure")))
    found = await host.finished(chat.chat, reply)
    assert found["error"]["content"]
    await watch.idle(chat)


async def test_a_plain_call_of_the_api_is_answered(host: Host, watch: Watch, pipe: str) -> None:
    assert await host.ask(pipe, prompt(say("By ", "itself."))) == "By itself."


async def test_a_chosen_model_is_used_and_the_agents_own_again(
    host: Host, watch: Watch, chat: ChatSession, pipe: str
) -> None:
    chosen = "openclaw_gateway.live/scripted"

    async def offered() -> bool:
        return chosen in await host.models()

    await assert_eventually(offered, "the Gateway's model is not offered")
    for model, words in ((chosen, "As chosen."), (pipe, "As always.")):
        _, reply = await host.send(chat.chat, model, prompt(say(words)))
        found = await host.finished(chat.chat, reply)
        assert (found["content"], found.get("error")) == (words, None)
        await watch.idle(chat)
