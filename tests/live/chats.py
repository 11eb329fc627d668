"""A chat of a real Open WebUI whose agent is a real Gateway's, with our Functions between them as they are built."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from rejoinder.openclaw.history import read_history
from rejoinder.openwebui.bundle import build
from rejoinder.turns.finish import finish
from rejoinder.turns.transcript import runs_in
from tests.live import proof
from tests.live.rig.gateway import Gateway
from tests.live.rig.host import Host
from tests.live.rig.model import prompt, say, tool
from tests.live.rig.page import ChatPage
from tests.live.rig.watching import Session, Watch, watching
from tests.support import assert_eventually

MODEL = "openclaw_gateway.default"
ECHO = tool("exec", command="echo found")


class ChatSession(Session):
    """The session of a chat of the Host's."""

    def __init__(self, host: Host, chat: str) -> None:
        self.chat = chat
        self.key = f"agent:main:openwebui-{host.user_id}-{chat}"


@pytest.fixture
async def pipe(gateway: Gateway, host: Host) -> str:
    """Our Functions, installed as they are built; the model to talk to."""
    await deploy(host, gateway, gateway.url)
    return MODEL


async def deploy(host: Host, gateway: Gateway, url: str, **valves: Any) -> None:
    """Install this build, talking to the Gateway at this address. Chats are named by nobody unless a valve says so."""
    valves = {
        "GATEWAY_URL": url,
        "GATEWAY_TOKEN": gateway.token,
        "STATE_DIR": str(host.data / "oc"),
        "AUTO_TITLE": False,
        **valves,
    }
    built = build()
    await host.install("openclaw_gateway", built["openclaw_gateway"], valves)
    await host.install("openclaw_start", built["openclaw_start"])
    assert MODEL in await host.models()


@pytest.fixture
async def watch(gateway: Gateway, pipe: str) -> AsyncIterator[Watch]:
    async with watching(gateway) as watch:
        yield watch


@pytest.fixture
async def chat(host: Host, pipe: str) -> ChatSession:
    return ChatSession(host, await host.new_chat(pipe))


def words(text: object) -> str:
    return " ".join(str(text).split())


def card_names(message: dict[str, Any]) -> list[str]:
    return [item["name"] for item in message.get("output") or () if item["type"] == "function_call"]


async def replies(host: Host, chat: ChatSession, count: int, within: float = 60) -> list[dict[str, Any]]:
    """Until the chat has so many replies, all done and without a task; they."""

    async def there() -> list[dict[str, Any]]:
        found = [one for one in await host.thread(chat.chat) if one["role"] == "assistant"]
        over = all(one["done"] for one in found) and not await host.tasks(chat.chat)
        return found if len(found) == count and over else []

    return await assert_eventually(there, f"the chat has no {count} finished replies", within)


async def checked(
    host: Host, watch: Watch, chat: ChatSession, page: ChatPage, *expected: tuple[str, list[str]]
) -> list[dict[str, Any]]:
    """One message a run, one chain, the transcript's words and cards; in the database and in the page reloaded."""
    found = await replies(host, chat, len(expected))
    history = await host.history(chat.chat)
    thread = await host.thread(chat.chat)
    assert len(thread) == len(history["messages"])
    for parent, child in pairwise(thread):
        assert parent["childrenIds"] == [child["id"]]
    assert [(words(one["content"]), card_names(one)) for one in found] == list(expected)
    proof.in_database()
    await page.show(chat.chat)
    assert await page.ids() == [one["id"] for one in thread]
    for one in found:
        for item in one["output"]:
            if item["type"] == "message":
                await page.shows(one["id"], words(item["content"][0]["text"]))
    await page.generating(False)
    assert page.complaints == []
    await proof.in_page(page)
    told = await read_history(watch.client, chat.key)
    finals = [finish(run.rows, None) for run in runs_in(told.rows, told.session_id)]
    said = [(words(one.text), [card.name for card in one.cards]) for one in finals if one.visible]
    assert said == list(expected)
    return found


async def first_words(host: Host, watch: Watch, chat: ChatSession, pipe: str) -> None:
    """A first turn, so that the session and the chat are there."""
    _, reply = await host.send(chat.chat, pipe, prompt(say("Hello.")))
    await host.finished(chat.chat, reply)
    await watch.idle(chat)
