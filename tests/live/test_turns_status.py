"""The status button under a reply, in a real page: what it shows is the real Gateway's, and it writes no message."""

from __future__ import annotations

import re

from playwright.async_api import expect

from rejoinder.openwebui.bundle import build
from tests.live import chats
from tests.live.chats import ECHO, ChatSession, replies
from tests.live.rig.host import Host
from tests.live.rig.model import Model, prompt, say, tool
from tests.live.rig.page import ChatPage
from tests.live.rig.watching import Watch

pipe, watch, chat = chats.pipe, chats.watch, chats.chat

ACTION = "openclaw_status_action"
BUTTON = re.compile("openclaw.status", re.IGNORECASE)


async def test_the_status_of_a_session_and_its_compaction(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, model: Model, host_page: ChatPage
) -> None:
    await host.install(ACTION, build()[ACTION])
    found = await host.call("GET", f"/api/v1/functions/id/{ACTION}")
    if not found["is_global"]:
        await host.call("POST", f"/api/v1/functions/id/{ACTION}/toggle/global")
    await host.models()
    model.rule("CHILD-RESULT", say("The child found it."))
    child = prompt(say(tools=[ECHO]), say("CHILD-", "RESULT"), lead="A task.")
    order = prompt(say("I ask a child.", tools=[tool("sessions_spawn", task=child)]), say("It works."))
    await host.send(chat.chat, pipe, order)
    _, last = await replies(host, chat, 2)
    await watch.idle(chat)
    try:
        await host_page.show(chat.chat)
        message = host_page.message(last["id"])
        await message.hover()
        await message.get_by_role("button", name=BUTTON).click()
        dialog = host_page.page.locator("#openclaw-status")
        await expect(dialog).to_contain_text(re.compile(r"Context .* of 128k"))
        await expect(dialog).to_contain_text("live/scripted")
        await expect(dialog).to_contain_text("name no limits")

        # The sub-agent, with its transcript, and back.
        await dialog.get_by_role("button", name="A task.").click()
        await expect(dialog).to_contain_text("CHILD-RESULT")
        await expect(dialog).to_contain_text("exec")
        await dialog.get_by_role("button", name="Back").click()

        await dialog.get_by_role("button", name="Compact").click()
        await expect(dialog).to_contain_text(re.compile(r"Compact(ed|ion)"), timeout=60_000)
        await watch.idle(chat)
        await dialog.get_by_role("button", name="Close").click()
        await expect(dialog).to_have_count(0)
        assert len(await replies(host, chat, 2)) == 2
        assert host_page.complaints == []

        # Escape closes it as well, and it opens again.
        await message.hover()
        await message.get_by_role("button", name=BUTTON).click()
        await expect(dialog).to_contain_text(re.compile(r"Context .* of 128k"))
        await host_page.page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
    finally:
        await host.remove(ACTION)
