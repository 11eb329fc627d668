"""Answering on a real (pseudo) terminal, where the command asks."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.conftest import Shell
from tests.integration.cli.test_interactions import park, told
from tests.integration.doors.edge import Edge
from tests.support import assert_eventually

REJOINDER = str(Path(sys.executable).with_name("rejoinder"))


class Terminal:
    """One command on a terminal of its own. ``shown`` is everything that appeared on it."""

    def __init__(self) -> None:
        self.shown = ""
        self._master, self._slave = pty.openpty()
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, *words: str) -> None:
        self._process = await asyncio.create_subprocess_exec(
            REJOINDER,
            *words,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
        )
        os.close(self._slave)
        asyncio.get_running_loop().add_reader(self._master, self._read)

    def _read(self) -> None:
        try:
            self.shown += os.read(self._master, 65536).decode("utf-8", "replace")
        except OSError:
            asyncio.get_running_loop().remove_reader(self._master)

    async def prompted(self, text: str, answer: str) -> None:
        await assert_eventually(lambda: text in self.shown, f"{text!r} never appeared: {self.shown!r}", 40)
        self.shown = ""
        os.write(self._master, f"{answer}\n".encode())

    def leave(self, *, interrupt: bool) -> None:
        """Ctrl-C, or Ctrl-D on an empty line."""
        if interrupt:
            assert self._process is not None
            self._process.send_signal(signal.SIGINT)
        else:
            os.write(self._master, b"\x04")

    async def end(self) -> int:
        assert self._process is not None
        code = await self._process.wait()
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)
        return code


@pytest.mark.parametrize(
    ("kind", "prompts", "expected"),
    [
        ("confirm", [("Yes or no", "perhaps"), ("Yes or no", "y")], True),
        ("text", [("Answer", "as it is")], "as it is"),
        ("select", [("2  green", "2")], "green"),
        (
            "form",
            [("count", "many"), ("name", ""), ("Enter a whole number", "7"), ("name", "Ann")],
            {"count": 7, "name": "Ann"},
        ),
    ],
)
async def test_each_kind_of_question_is_asked_for(
    server: Edge, shell: Shell, kind: str, prompts: list[tuple[str, str]], expected: Any
) -> None:
    identifier = await park(shell, kind, "please")
    terminal = Terminal()
    await terminal.start("interactions", "answer", identifier)
    for text, answer in prompts:
        await terminal.prompted(text, answer)
    assert await terminal.end() == 0
    assert await told(server, identifier) == expected


@pytest.mark.parametrize("leave", ["interrupt", "end of input"])
async def test_leaving_answers_nothing(server: Edge, shell: Shell, leave: str) -> None:
    identifier = await park(shell, "text")
    terminal = Terminal()
    await terminal.start("interactions", "answer", identifier)
    await assert_eventually(lambda: "Answer: " in terminal.shown, "no prompt", 40)
    terminal.leave(interrupt=leave == "interrupt")
    assert await terminal.end() == (130 if leave == "interrupt" else 2)
    assert await server.state(identifier) == "pending"


async def test_a_table_on_a_terminal_shows_short_ids(server: Edge, shell: Shell) -> None:
    identifier = await park(shell, "text", "x" * 500)
    terminal = Terminal()
    await terminal.start("interactions", "list")
    shown: Callable[[], bool] = lambda: identifier[:8] in terminal.shown  # noqa: E731
    await assert_eventually(shown, "no table", 40)
    assert await terminal.end() == 0
    assert identifier not in terminal.shown
    assert "…" in terminal.shown


@pytest.mark.parametrize(
    ("typed", "status", "said"),
    [("approve", "succeeded", "x\\u202ey"), ("deny: not today", "failed", "not today")],
)
async def test_a_call_is_shown_whole_before_it_is_approved(
    server: Edge, shell: Shell, typed: str, status: str, said: str
) -> None:
    started = await shell(
        "tools",
        "run",
        "guarded",
        "--params",
        json.dumps({"text": "x\u202ey", "number": 7}),
        "--background",
        "--json",
    )
    assert started.code == 0, started.err
    run_id = started.json["run_id"]

    async def asked() -> Any:
        items = (await server.owner.get("/api/interactions")).json()["data"]["items"]
        return items[0]["interaction_id"] if items else None

    identifier = await assert_eventually(asked, "no approval was asked for")
    blind = await shell("interactions", "answer", identifier, "approve")
    assert blind.code != 0
    assert "digest" in blind.err
    terminal = Terminal()
    await terminal.start("interactions", "answer", identifier)
    await assert_eventually(lambda: "approve, or deny" in terminal.shown, "no prompt", 40)
    assert "Tool: guarded" in terminal.shown
    assert '"number": 7' in terminal.shown
    assert "\u202e" not in terminal.shown, "what turns text around reached the terminal"
    await terminal.prompted("approve, or deny", "perhaps")
    await terminal.prompted("approve, or deny", typed)
    assert await terminal.end() == 0

    async def ended() -> Any:
        run = (await server.owner.get(f"/api/tool-runs/{run_id}")).json()["data"]
        return run if run["status"] in ("succeeded", "failed") else None

    run = await assert_eventually(ended, "the run did not end")
    assert run["status"] == status
    assert said in json.dumps(run["result"] or run["error"])
