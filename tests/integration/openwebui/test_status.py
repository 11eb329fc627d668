"""The window that shows how a session stands, over a real socket into a page that only takes notes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from rejoinder.openclaw.client import GatewayClient
from rejoinder.openclaw.handshake import Access
from rejoinder.openwebui import deployment, status
from rejoinder.openwebui.dialog import Dialog, Gone
from rejoinder.openwebui.host import Host
from rejoinder.openwebui.status import CHILDREN, CONTEXT, LIMITS, Action, Window, old_task
from rejoinder.openwebui.valves import PipeValves
from tests.fake_gateway import TOKEN, FakeGateway, Fault
from tests.integration.openwebui.conftest import Connect
from tests.integration.openwebui.hosts import World, key_of, user_says
from tests.integration.openwebui.test_bridge import tell
from tests.support import assert_eventually
from tests.unit.turns.script import Frames

KEY = "agent:main:openwebui-22222222-2222-4222-8222-222222222222-11111111-1111-4111-8111-111111111111"
TASK = "506c9cbf-3f2d-4afb-afd4-7315ede30993"
CHILD = {
    "taskId": TASK,
    "runtime": "subagent",
    "status": "completed",
    "title": "Find  it",
    "sessionKey": KEY,
    "childSessionKey": "agent:main:subagent:1",
    "toolUseCount": 1,
    "startedAt": 1_000,
    "endedAt": 4_000,
}


class Page:
    """Notes what it is sent and presses what the test presses. `gone`: it answers nothing any more."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.parts: dict[str, dict[str, Any]] = {}
        self.detail: dict[str, Any] | None = None
        self.presses: asyncio.Queue[str | None] = asyncio.Queue()
        self.gone = False

    async def __call__(self, event: Mapping[str, Any]) -> Any:
        assert event["type"] == "execute"
        if self.gone:
            return {"error": "the page went away"}
        asked = str(event["data"]["code"]).rpartition("\nreturn ")[2].rstrip(";")
        name, _, rest = asked.partition("(")
        given = json.loads(f"[{rest.removesuffix(')')}]")
        if name == "await view.next":
            return await self.presses.get()
        if name == "view.open":
            self.opened.append(given[0])
        elif name == "view.put":
            self.parts[given[0]] = given[1]
        elif name == "view.detail":
            self.detail = given[0]
        else:
            raise AssertionError(asked)
        return True

    def text(self, name: str) -> str:
        part = self.parts.get(name) or {"lines": [], "note": ""}
        return " | ".join([*(f"{one['label']} {one['text']}".strip() for one in part["lines"]), part["note"]])


@pytest.fixture
def page() -> Page:
    return Page()


def standing(gateway: FakeGateway, **more: Any) -> None:
    row = {
        "model": "m",
        "modelProvider": "p",
        "totalTokens": 96_000,
        "contextTokens": 128_000,
        "totalTokensFresh": True,
    }
    gateway.handlers["sessions.describe"] = lambda _: {"session": {**row, **more}}
    windows = [{"label": "5h", "usedPercent": 90, "resetAt": 4_000_000_000_000}]
    gateway.handlers["usage.status"] = lambda _: {"providers": [{"displayName": "Acme", "windows": windows}]}
    gateway.handlers["tasks.list"] = lambda _: {
        "tasks": [CHILD, {**CHILD, "runtime": "cli"}, {**CHILD, "sessionKey": "other"}]
    }


async def shown(gateway: FakeGateway, page: Page, *presses: str | None, task: str | None = None) -> None:
    for one in presses:
        page.presses.put_nowait(one)
    async with GatewayClient(Access(gateway.url, token=TOKEN)) as client:
        await client.ready(10)
        await asyncio.wait_for(Window(client, KEY, Dialog(page)).show(task), 20)


async def test_each_part_is_filled(gateway: FakeGateway, page: Page) -> None:
    standing(gateway, compactionCount=2, goal={"objective": "Ship it", "status": "active"})
    await shown(gateway, page, None)
    assert page.opened == ["OpenClaw"]
    assert (
        page.text(CONTEXT)
        == "Model p/m | Context 96k of 128k (75 %) | Compacted 2 times | Goal Ship it (active) | "
    )
    assert page.parts[CONTEXT]["button"] == ["Compact", "compact"]
    assert page.parts[CONTEXT]["lines"][1]["percent"] == 75
    assert page.text(LIMITS).startswith("Acme 5h 10 % left, resets in ")
    assert page.text(CHILDREN) == "Find it completed, 1 tool call, 3 s | "


async def test_a_part_that_fails_says_why_and_the_others_are_filled(gateway: FakeGateway, page: Page) -> None:
    standing(gateway)
    gateway.handlers["usage.status"] = lambda _: Fault({"code": "FORBIDDEN", "message": "missing scope"})
    gateway.handlers["sessions.describe"] = lambda _: {"session": None}
    await shown(gateway, page, None)
    assert "missing scope" in page.text(LIMITS)
    assert "no session" in page.text(CONTEXT)
    assert page.text(CHILDREN).startswith("Find it")


async def test_a_sub_agent_is_shown_with_what_it_did(gateway: FakeGateway, page: Page) -> None:
    standing(gateway)
    gateway.handlers["tasks.get"] = lambda _: {"task": CHILD}
    f = Frames("child-run", "agent:main:subagent:1")
    gateway.histories[f.key] = {
        "sessionKey": f.key,
        "messages": [f.asked(), f.called("c1"), f.returned("c1"), f.said("<b>Found</b>")],
    }
    await shown(gateway, page, f"child:{TASK}", None)
    assert page.detail is not None
    told = " | ".join(f"{one['label']} {one['text']}".strip() for one in page.detail["lines"])
    assert "State completed, 1 tool call, 3 s" in told
    assert "exec completed" in told
    assert "<b>Found</b>" in told


async def test_an_old_message_opens_its_sub_agent_at_once(gateway: FakeGateway, page: Page) -> None:
    standing(gateway)
    gateway.handlers["tasks.get"] = lambda _: Fault({"code": "NOT_FOUND", "message": "task not found"})
    await shown(gateway, page, None, task=TASK)
    assert page.detail is not None
    assert "task not found" in page.detail["note"]


@pytest.mark.parametrize("told", ["⚙️ Compacted (96k before, 12k after)", None])
async def test_compacting_is_a_run_without_a_message(
    gateway: FakeGateway, world: World, connect: Connect, page: Page, told: str | None
) -> None:
    chat_id = await world.chat(user_says("hello"))
    bridge = await connect()
    standing(gateway)
    key = key_of(world, chat_id)
    asked: list[dict[str, Any]] = []

    def send(params: dict[str, Any]) -> Any:
        asked.append(params)
        f = Frames(params["idempotencyKey"], params["sessionKey"])
        tell(gateway, *f.begin(), f.row(f.asked("/compact")), f.chat("final", told), f.settled())
        return {"runId": params["idempotencyKey"], "status": "started"}

    gateway.handlers["chat.send"] = send
    for one in ("compact", None):
        page.presses.put_nowait(one)
    await asyncio.wait_for(Window(bridge.client, key, Dialog(page)).show(), 20)
    (params,) = asked
    assert (params["message"], params["deliver"]) == ("/compact", False)
    assert params["idempotencyKey"].startswith("owui-action-compact-")
    assert page.parts[CONTEXT]["note"] == (told or "The session was compacted.")
    await assert_eventually(lambda: not bridge.messages.busy)
    assert await world.replies(chat_id) == []


async def test_compacting_waits_for_a_reply_that_is_written(gateway: FakeGateway, page: Page) -> None:
    standing(gateway)
    info = {"key": KEY, "hasActiveRun": True, "status": "running"}
    gateway.histories[KEY] = {"sessionKey": KEY, "messages": [], "sessionInfo": info}
    await shown(gateway, page, "compact", None)
    assert "A reply is being written" in page.parts[CONTEXT]["note"]
    assert all(method != "chat.send" for one in gateway.connections for method, _ in one.requests)


async def test_a_compaction_that_is_refused_says_why(gateway: FakeGateway, page: Page) -> None:
    standing(gateway)
    gateway.handlers["chat.send"] = lambda _: Fault({"code": "INVALID_REQUEST", "message": "not today"})
    await shown(gateway, page, "compact", None)
    assert page.parts[CONTEXT]["note"] == "not today"


async def test_a_page_that_goes_away_ends_it(gateway: FakeGateway, page: Page) -> None:
    standing(gateway)
    page.gone = True
    with pytest.raises(Gone):
        await shown(gateway, page, None)


@pytest.mark.parametrize(
    ("content", "task"),
    [
        (f"Done.\n<!-- openclaw:task-id:{TASK} -->", TASK),
        (f"<!--task_id={TASK}-->", TASK),
        (f"<!-- sub-agent taskId: {TASK} --> text", TASK),
        (f'<!-- {{"taskId": "{TASK}"}} -->', TASK),
        ("<!-- a comment -->", None),
        (f"taskId: {TASK}", None),
        ("<!-- taskId: -->", None),
        ("", None),
        (None, None),
    ],
)
def test_only_a_hidden_task_id_is_one(content: Any, task: str | None) -> None:
    other = {"id": "n", "content": f"<!-- taskId: {TASK} -->"}
    assert old_task({"id": "m", "messages": [other, {"id": "m", "content": content}, other]}) == task
    assert old_task({"id": "m", "messages": None}) is None


@pytest.fixture
def installed(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The Host has the pipe with these valves; nothing is connected yet."""
    valves: dict[str, Any] = {}

    async def kept(self: Host, function_id: str) -> dict[str, Any]:
        return valves if function_id == "openclaw_gateway" else {}

    monkeypatch.setattr(Host, "probe", classmethod(lambda cls, app=None: world.host))
    monkeypatch.setattr(Host, "valves", kept)
    monkeypatch.setattr(deployment, "_deployment", deployment._Deployment())
    return valves


async def pressed(world: World, page: Page) -> list[Any]:
    """Press the button; the notifications that came."""
    told: list[Any] = []

    async def emit(event: Any) -> None:
        told.append(event["data"]["content"])

    body = {"id": "m", "chat_id": "11111111-1111-4111-8111-111111111111", "messages": []}
    await Action().action(body, {"id": world.user}, emit, page, SimpleNamespace(app=None))
    await assert_eventually(lambda: not status._tasks, "the window is still there")
    return told


async def test_the_button_uses_the_pipes_own_connection(
    gateway: FakeGateway, world: World, page: Page, installed: dict[str, Any]
) -> None:
    standing(gateway)
    installed |= {"GATEWAY_URL": gateway.url, "GATEWAY_TOKEN": TOKEN}
    bridge = deployment.bridge_for(PipeValves(**installed))
    await bridge.client.ready(10)
    page.presses.put_nowait(None)
    assert await pressed(world, page) == []
    assert page.text(CHILDREN)
    assert len(gateway.connections) == 1
    # Another deploy took over: this one opens a connection of its own and takes nothing back.
    bridge.retire()
    page.presses.put_nowait(None)
    assert await pressed(world, page) == []
    assert len(gateway.connections) == 2
    assert deployment._deployment.bridge is bridge
    await bridge.close()


async def test_other_buttons_of_the_message_open_nothing(
    world: World, page: Page, installed: dict[str, Any]
) -> None:
    event = {"id": "regenerate-response", "data": {"messageId": "m"}}
    await Action().action({"id": "m", "event": event}, {"id": world.user}, None, page, None)
    assert not status._tasks
    assert page.opened == []


@pytest.mark.parametrize(
    ("valves", "told"),
    [
        ({"GATEWAY_TOKEN": ""}, "GATEWAY_TOKEN"),
        ({"GATEWAY_URL": "http://", "GATEWAY_TOKEN": "x"}, "GATEWAY_URL"),
    ],
)
async def test_a_wrong_setting_is_told_in_the_page(
    world: World, page: Page, installed: dict[str, Any], valves: dict[str, Any], told: str
) -> None:
    installed |= valves
    (words,) = await pressed(world, page)
    assert told in words


async def test_a_fault_of_ours_has_an_id_that_is_in_the_log(
    world: World, page: Page, installed: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    installed |= {"MAX_MODELS": "a secret of the inside"}
    (words,) = await pressed(world, page)
    assert "secret" not in words
    assert words.split()[-1].rstrip(".") in caplog.text
