"""What a reply brings besides its words, from a real Gateway into a real Open WebUI."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from playwright.async_api import FilePayload

from rejoinder.openwebui.bundle import build
from tests.live import chats, proof
from tests.live.chats import ChatSession, deploy, first_words, replies, words
from tests.live.rig.gateway import Gateway
from tests.live.rig.host import Host
from tests.live.rig.model import Model, Step, prompt, say, tool
from tests.live.rig.page import ChatPage
from tests.live.rig.watching import Watch
from tests.support import assert_eventually

pipe, watch, chat = chats.pipe, chats.watch, chats.chat

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR4nGMQaPiAFTEMLQkASvNgAc1fRCsAAAAASUVORK5CYII="
MAKES = tool("exec", command=f"echo {PNG} | base64 -d > drawn.png; echo hello > notes.txt")
SHOWS = "Here it is.\n\nMEDIA:drawn.png\n\nMEDIA:./notes.txt"


async def test_a_picture_that_a_person_attaches_reaches_the_model(
    host: Host, watch: Watch, chat: ChatSession, model: Model, host_page: ChatPage
) -> None:
    model.rule("what is in it", say("A picture."))
    await host_page.show(chat.chat)
    picture: FilePayload = {"name": "drawn.png", "mimeType": "image/png", "buffer": base64.b64decode(PNG)}
    await host_page.page.locator("input[type=file]").first.set_input_files(picture)
    await host_page.page.locator("#message-input-container img").wait_for()
    await host_page.send("what is in it")
    (reply,) = await replies(host, chat, 1)
    assert (reply["content"], reply.get("error")) == ("A picture.", None)
    seen = [
        part["image_url"]["url"]
        for one in model.asked[-1].body["messages"]
        if isinstance(one.get("content"), list)
        for part in one["content"]
        if part.get("type") == "image_url"
    ]
    assert len(seen) == 1
    kind, _, content = seen[0].partition(";base64,")
    assert kind.startswith("data:image/")
    assert base64.b64decode(content)
    (asked, _) = await host.thread(chat.chat)
    assert [one["content_type"] for one in asked["files"]] == ["image/png"]
    await host_page.show(chat.chat)
    await host_page.message(asked["id"]).locator("img").first.wait_for()
    assert host_page.complaints == []
    await proof.in_page(host_page)


async def with_files(host: Host, chat: ChatSession, count: int) -> dict[str, Any]:
    """The last reply, once it has so many files."""

    async def there() -> dict[str, Any] | None:
        (*_, last) = await host.thread(chat.chat)
        return last if len(last.get("files") or ()) == count else None

    found: dict[str, Any] | None = await assert_eventually(there, f"the reply has no {count} files", 60)
    assert found is not None
    return found


async def check_files(host: Host, chat: ChatSession, page: ChatPage) -> None:
    """The picture and the text are files of the person's, shown in the reply; nothing of how they came is."""
    last = await with_files(host, chat, 2)
    assert words(last["content"]) == "Here it is."
    by_name = {one["name"]: one for one in last["files"]}
    assert {name: one["type"] for name, one in by_name.items()} == {"drawn.png": "image", "notes.txt": "file"}
    assert await host.fetch(by_name["drawn.png"]["url"]) == base64.b64decode(PNG)
    assert await host.fetch(f"/api/v1/files/{by_name['notes.txt']['id']}/content") == b"hello\n"
    await page.show(chat.chat)
    shown = page.message(last["id"])
    await shown.get_by_text("notes.txt").wait_for()
    picture = shown.locator(f"img[src$='{by_name['drawn.png']['url']}']")
    await picture.wait_for()

    async def drawn() -> bool:
        return bool(await picture.evaluate("one => one.complete && one.naturalWidth === 8"))

    await assert_eventually(drawn, "the picture is not drawn")
    assert page.complaints == []


async def test_files_of_a_persons_turn(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, host_page: ChatPage
) -> None:
    _, reply = await host.send(chat.chat, pipe, prompt(say(tools=[MAKES]), say(SHOWS)))
    await host.finished(chat.chat, reply)
    await check_files(host, chat, host_page)


async def test_files_of_a_run_of_the_agents_own(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, host_page: ChatPage
) -> None:
    await first_words(host, watch, chat, pipe)
    await watch.ask(chat, say(tools=[MAKES]), say(SHOWS))
    await replies(host, chat, 2)
    await check_files(host, chat, host_page)


async def test_the_tokens_of_a_reply_and_how_full_the_session_is(
    host: Host, watch: Watch, chat: ChatSession, pipe: str
) -> None:
    async def told(count: int) -> list[dict[str, Any]]:
        found = [one for one in await host.thread(chat.chat) if one["role"] == "assistant"]
        lines = [(one.get("statusHistory") or [{}])[-1].get("description", "") for one in found]
        return found if len(found) == count and all("Context" in line for line in lines) else []

    tools = say(tools=[tool("exec", command="echo found")])
    await host.send(chat.chat, pipe, prompt(tools, say("Two answers.")))
    await assert_eventually(lambda: told(1), "the reply has no lines", 60)
    await watch.ask(chat, tools, say("By myself."))
    for one in await assert_eventually(lambda: told(2), "the second reply has no lines", 60):
        assert one["usage"]["input_tokens"] == 20
        assert one["usage"]["output_tokens"] == 10
        assert "of 128k" in one["statusHistory"][-1]["description"]


async def test_a_new_chat_is_named_by_its_own_agent_and_the_hosts_tasks_reach_none(
    gateway: Gateway, host: Host, watch: Watch, chat: ChatSession, pipe: str, model: Model
) -> None:
    await deploy(host, gateway, gateway.url, AUTO_TITLE=True)
    settings = await host.call("GET", "/api/v1/tasks/config")
    wanted = ("ENABLE_TITLE_GENERATION", "ENABLE_TAGS_GENERATION", "ENABLE_FOLLOW_UP_GENERATION")
    await host.call("POST", "/api/v1/tasks/config/update", {**settings, **dict.fromkeys(wanted, True)})
    tasks = dict.fromkeys(("title_generation", "tags_generation", "follow_up_generation"), True)
    model.rule("Name the conversation", say('"🐦 How birds fly"'))
    try:
        question = prompt(say("With wings."), lead="How do birds fly?")
        _, reply = await host.send(chat.chat, pipe, question, background_tasks=tasks)
        await host.finished(chat.chat, reply)

        async def named() -> bool:
            return bool((await host.chat(chat.chat))["title"] == "🐦 How birds fly")

        await assert_eventually(named, "the chat has no title", 60)
    finally:
        await host.call("POST", "/api/v1/tasks/config/update", settings)
    listed = await watch.client.call("sessions.list", {"limit": 50})
    asked = [one.text for one in model.asked]
    assert len(asked) == 2, asked
    assert any(one["key"].startswith("agent:title-gen:title-gen-") for one in listed["sessions"])
    assert [one["role"] for one in await host.thread(chat.chat)] == ["user", "assistant"]


async def efforts(host: Host, watch: Watch, chat: ChatSession, model: Model, **more: Any) -> list[Any]:
    """What the model is told of thinking in a turn of this chat."""
    model.asked.clear()
    thinks = "openclaw_gateway.live/thinking"
    _, reply = await host.send(chat.chat, thinks, prompt(say("I thought.")), **more)
    found = await host.finished(chat.chat, reply)
    assert (found["content"], found.get("error")) == ("I thought.", None)
    await watch.idle(chat)
    return [one.body.get("reasoning_effort") for one in model.asked]


async def test_the_thinking_level_of_a_chat_reaches_the_model(
    host: Host, watch: Watch, chat: ChatSession, pipe: str, model: Model
) -> None:
    filter_id = "openclaw_thinking"
    await host.install(filter_id, build()[filter_id])
    found = await host.call("GET", f"/api/v1/functions/id/{filter_id}")
    if not found["is_global"]:
        await host.call("POST", f"/api/v1/functions/id/{filter_id}/toggle/global")
    level = f"/api/v1/functions/id/{filter_id}/valves/user/update"
    try:
        await host.call("POST", level, {"level": "high"})
        assert await efforts(host, watch, chat, model, filter_ids=[filter_id]) == ["high"]
        await host.call("POST", level, {"level": "low"})
        assert await efforts(host, watch, chat, model, filter_ids=[filter_id]) == ["low"]
        # One that the model does not know comes down to one that it does, and is said.
        await host.call("POST", level, {"level": "ultra"})
        assert await efforts(host, watch, chat, model, filter_ids=[filter_id]) == ["high"]
        (*_, last) = await host.thread(chat.chat)
        assert "does not know the thinking level ultra" in str(last["statusHistory"])
        # A chat in which the filter is not chosen has the level of its own controls, or the model's.
        other = ChatSession(host, await host.new_chat(pipe))
        assert await efforts(host, watch, other, model, params={"reasoning_effort": "medium"}) == ["medium"]
        assert await efforts(host, watch, other, model) != ["high"]
    finally:
        await host.remove(filter_id)


@pytest.mark.parametrize(
    ("valves", "model", "told"),
    [
        ({"AGENT_ID": "nobody"}, "openclaw_gateway.default", ["AGENT_ID", "nobody"]),
        ({"DEFAULT_MODEL": "nope/nothing"}, "openclaw_gateway.default", ["DEFAULT_MODEL", "nope"]),
        ({"GATEWAY_TOKEN": "wrong"}, "openclaw_gateway.default", ["GATEWAY_TOKEN"]),
        ({"GATEWAY_URL": "not an address"}, "openclaw_gateway.default", ["GATEWAY_URL"]),
        ({"GATEWAY_URL": "ws://127.0.0.1:9"}, "openclaw_gateway.default", ["GATEWAY_URL", "127.0.0.1:9"]),
    ],
)
async def test_a_wrong_setting_is_named_in_the_reply(
    gateway: Gateway,
    host: Host,
    chat: ChatSession,
    valves: dict[str, Any],
    model: str,
    told: list[str],
) -> None:
    await deploy(host, gateway, gateway.url, **valves)
    try:
        steps: list[Step] = [say("I should not be asked.")]
        _, reply = await host.send(chat.chat, model, prompt(*steps))
        found = await host.finished(chat.chat, reply)
        said = str(found["error"])
        assert all(one in said for one in told), said
        assert "wrong" not in said
    finally:
        await deploy(host, gateway, gateway.url)
