"""A server with a worker in the test's own process, and the command line beside it."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rejoinder import AskAnswer, SuspendedInteraction, ask, tool
from rejoinder.cli.main import run
from tests.integration.doors.edge import Edge, served


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Shell:
    """``await shell("interactions", "list")``: one command in a thread of this process."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    async def __call__(self, *words: str, stdin: str = "") -> Outcome:
        out, err = io.StringIO(), io.StringIO()
        with self._patch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            code = await asyncio.to_thread(run, list(words))
        return Outcome(code, out.getvalue(), err.getvalue())


@tool
async def parking(kind: str = "confirm", label: str = "") -> SuspendedInteraction:
    """Park on a question."""
    more: dict[str, Any] = {}
    if kind == "select":
        more["options"] = ["red", "green"]
    if kind == "form":
        more["schema"] = {
            "type": "object",
            "properties": {"count": {"type": "integer"}, "name": {"type": "string"}},
            "required": ["count"],
        }
    asked: SuspendedInteraction = await ask(
        f"Shall it? {label}",
        answer_format=kind,  # type: ignore[call-overload]
        mode="async",
        expiry_at=datetime.now(UTC) + timedelta(hours=1),
        **more,
    )
    return asked


@parking.continuation
async def parked_on(ask_result: AskAnswer[Any]) -> dict[str, Any]:
    return {"told": ask_result.answer}


@tool
async def plain(text: str = "", number: int = 0) -> dict[str, Any]:
    """Give back what it was given."""
    return {"text": text, "number": number}


@tool(requires_approval=True)
async def guarded(text: str = "", number: int = 0) -> dict[str, Any]:
    """Give back what it was given, once somebody approves."""
    return {"text": text, "number": number}


@tool
async def breaks() -> None:
    raise ValueError("the tool's own secret words")


@pytest.fixture
async def server(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Edge]:
    async with served(database_url, parking, plain, guarded, breaks, worker=True) as edge:
        monkeypatch.setenv("REJOINDER_SERVER", edge.base)
        monkeypatch.setenv("REJOINDER_API_KEY", edge.owner.headers["authorization"].split()[1])
        monkeypatch.setenv("REJOINDER_DATA", str(tmp_path / "nothing here"))
        yield edge


@pytest.fixture
def shell(server: Edge, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(monkeypatch)


@pytest.fixture
def bare_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    """A command line on a machine where nothing runs."""
    monkeypatch.setenv("REJOINDER_DATA", str(tmp_path / "nothing here"))
    monkeypatch.chdir(tmp_path)
    return Shell(monkeypatch)
