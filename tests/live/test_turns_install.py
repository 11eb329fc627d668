"""Installing the Functions into a real Open WebUI with the product's own command, and taking them out again."""

from __future__ import annotations

import asyncio
import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

import rejoinder
from rejoinder.cli.main import run
from rejoinder.openwebui.bundle import FUNCTIONS, build
from tests.live import chats
from tests.live.chats import ChatSession, checked, first_words
from tests.live.rig.gateway import Gateway
from tests.live.rig.host import Host
from tests.live.rig.model import Model, hold, prompt, say
from tests.live.rig.page import ChatPage
from tests.live.rig.watching import Watch

pipe, watch = chats.pipe, chats.watch

IDS = [function.id for function in FUNCTIONS]


@pytest.fixture
async def clean(host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No Function of ours; the commands know where Open WebUI is. Returns the folder of the backups."""
    for one in await host.call("GET", "/api/v1/functions/"):
        if one["id"] in IDS:
            await host.remove(one["id"])
    monkeypatch.setenv("OPENWEBUI_URL", host.url)
    monkeypatch.setenv("OPENWEBUI_TOKEN", host.token)
    monkeypatch.setenv("REJOINDER_DATA", str(tmp_path))
    return tmp_path / "open-webui-backups"


async def command(*words: str) -> int:
    return await asyncio.to_thread(run, ["openwebui", *words])


async def functions(host: Host) -> dict[str, Any]:
    listed = await host.call("GET", "/api/v1/functions/export")
    return {one["id"]: one for one in listed if one["id"] in IDS}


async def test_install_repair_and_uninstall(
    host: Host, gateway: Gateway, clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await command("install", "--gateway-url", gateway.url, "--gateway-token", gateway.token) == 0
    assert "The pipe is connected to the Gateway." in capsys.readouterr().err
    found = await functions(host)
    assert {name: one["is_active"] for name, one in found.items()} == dict.fromkeys(IDS, True)
    assert {name: one["content"] for name, one in found.items()} == build()
    assert not clean.exists()  # nothing was there to keep
    everywhere = {function.id: function.everywhere for function in FUNCTIONS}
    assert {name: one["is_global"] for name, one in found.items()} == everywhere
    ours = [name for name in await host.models() if name.startswith("openclaw_gateway.")]
    assert ours[0] == "openclaw_gateway.default"

    # Somebody broke it: repair puts it back and keeps what was set.
    await host.call("POST", "/api/v1/functions/id/openclaw_start/toggle")
    await host.call("POST", "/api/v1/functions/id/openclaw_thinking/toggle/global")
    assert await command("status") == 1
    assert "not all installed and active" in capsys.readouterr().err
    assert await command("repair") == 0
    found = await functions(host)
    assert all(one["is_active"] for one in found.values())
    assert not found["openclaw_thinking"]["is_global"]
    valves = await host.call("GET", "/api/v1/functions/id/openclaw_gateway/valves")
    assert (valves["GATEWAY_URL"], valves["GATEWAY_TOKEN"]) == (gateway.url, gateway.token)
    (backup,) = clean.iterdir()
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600  # it holds the token
    capsys.readouterr()

    assert await command("status", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["connected"], told["trouble"]) == (True, None)
    standings = [(one["installed"], one["active"], one["current"]) for one in told["functions"]]
    assert standings == [(True, True, True)] * len(IDS)

    assert await command("uninstall") == 0
    assert await functions(host) == {}
    assert await command("rollback", str(backup)) == 0
    found = await functions(host)
    # The backup is of the moment before the repair.
    assert [name for name, one in found.items() if not one["is_active"]] == ["openclaw_start"]
    assert [name for name, one in found.items() if one["is_global"]] == ["openclaw_status_action"]
    valves = await host.call("GET", "/api/v1/functions/id/openclaw_gateway/valves")
    assert valves["GATEWAY_TOKEN"] == gateway.token


async def test_a_deploy_that_does_not_work_is_rolled_back(
    host: Host, clean: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = 'class Pipe:\n    def pipes(self):\n        return [{"id": "old", "name": "Old"}]\n    def pipe(self, body):\n        return "old"\n'
    await host.install("openclaw_gateway", old)
    broken = dict.fromkeys(build(), "raise RuntimeError('broken')\n")
    monkeypatch.setattr("rejoinder.openwebui.install.build", lambda: broken)
    assert await command("install") == 1
    assert "Everything is as it was before." in capsys.readouterr().err
    found = await functions(host)
    assert [(name, one["content"], one["is_active"]) for name, one in found.items()] == [
        ("openclaw_gateway", old, True)
    ]
    assert "openclaw_gateway.old" in await host.models()


async def test_a_wrong_token_for_the_gateway_is_said(
    host: Host, gateway: Gateway, clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await command("install", "--gateway-url", gateway.url, "--gateway-token", "wrong") == 0
    told = capsys.readouterr().err
    assert "not connected yet" in told
    assert "GATEWAY_TOKEN" in told
    assert "wrong" not in told


async def test_without_rights_nothing_is_changed(
    host: Host, clean: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENWEBUI_TOKEN", "nonsense")
    assert await command("install") == 1
    assert "administrator" in capsys.readouterr().err
    assert await functions(host) == {}


def another_build(folder: Path) -> dict[str, str]:
    """The Functions of sources that differ in nothing but a comment: a deploy of its own."""
    root = Path(rejoinder.__file__).parent
    shutil.copytree(root, folder / "rejoinder", ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "rejoinder" / "openwebui" / "valves.py").open("a", encoding="utf-8") as file:
        file.write(f"\n# {folder.name}\n")
    return build(folder / "rejoinder")


async def test_a_reply_goes_on_through_two_deploys(
    host: Host, gateway: Gateway, watch: Watch, pipe: str, model: Model, host_page: ChatPage, tmp_path: Path
) -> None:
    chat, other = [ChatSession(host, await host.new_chat(pipe)) for _ in range(2)]
    await first_words(host, watch, other, pipe)
    _, reply = await host.send(
        chat.chat, pipe, prompt(say("One ", hold("first"), "two ", hold("second"), "three."))
    )
    await model.held("first")
    for name, next_hold in (("second-deploy", "first"), ("third-deploy", "second")):
        built = another_build(tmp_path / name)
        await host.install("openclaw_gateway", built["openclaw_gateway"])
        assert pipe in await host.models()
        # The new deploy shows what begins now, the old one goes on with what it streams.
        _, over = await watch.begin(other, say(f"While {name} is there."))
        await over
        model.release(next_hold)
        if next_hold == "first":
            await model.held("second")
    found = await host.finished(chat.chat, reply)
    assert (found["content"], found.get("error")) == ("One two three.", None)
    (only,) = await checked(host, watch, chat, host_page, ("One two three.", []))
    assert only["id"] == reply
    expected: list[tuple[str, list[str]]] = [
        (f"While {name} is there.", []) for name in ("second-deploy", "third-deploy")
    ]
    await checked(host, watch, other, host_page, ("Hello.", []), *expected)
