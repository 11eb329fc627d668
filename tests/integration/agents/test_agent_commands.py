"""``rejoinder agents``, on a running server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rejoinder.runs.tools import tool
from rejoinder.tools.interactions import ask_tool
from tests.integration.agents.support import agent, asking
from tests.integration.cli.conftest import Shell
from tests.integration.core.support import the_question
from tests.integration.doors.edge import Edge, served
from tests.live.rig.model import Model, fail, prompt, say
from tests.live.rig.model import tool as call


@tool
async def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


@pytest.fixture
async def server(
    database_url: str, model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Edge]:
    async with served(database_url, agent(ask_tool, double), worker=True) as e:
        monkeypatch.setenv("REJOINDER_SERVER", e.base)
        monkeypatch.setenv("REJOINDER_API_KEY", e.owner.headers["authorization"].split()[1])
        monkeypatch.setenv("REJOINDER_DATA", str(tmp_path / "nothing here"))
        yield e


@pytest.fixture
def shell(server: Edge, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(monkeypatch)


async def test_they_are_listed(shell: Shell) -> None:
    listed = await shell("agents", "list")
    assert "helper" in listed.out
    assert "ask, double" in listed.out
    assert [one["name"] for one in (await shell("agents", "list", "--json")).json["items"]] == ["helper"]


async def test_what_it_does_is_printed_once(shell: Shell, tmp_path: Path) -> None:
    said = prompt(say("Let me\x1b[31m see.", tools=[call("double", number=4)]), say("It ", "is 8."))
    ran = await shell("agents", "run", "helper", said)
    assert ran.code == 0
    assert ran.out.splitlines() == ["Let me[31m see.", '> double {"number": 4}', "< double: 8", "It is 8."]
    file = tmp_path / "message.txt"
    file.write_text(said, encoding="utf-8")
    lines = (await shell("agents", "run", "helper", "--message-file", str(file), "--json")).out.splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert (events[0], events[-1]) == ("started", "final")
    piped = await shell("agents", "run", "helper", "--message-file", "-", stdin=said)
    assert piped.out == ran.out


async def test_where_it_parks_it_says_how_to_answer(server: Edge, shell: Shell) -> None:
    said = prompt(say(tools=[asking("Ship it?", answer_format="confirm")]), say("Shipped."))
    ran = await shell("agents", "run", "helper", said)
    assert ran.code == 0
    question = await the_question(server.node)
    assert f"rejoinder interactions answer {question.id}" in ran.out
    assert "Ship it?" in ran.out


async def test_a_failure_and_what_cannot_be_run(shell: Shell) -> None:
    failed = await shell("agents", "run", "helper", prompt(fail(500, "secret words")))
    assert failed.code == 1
    assert "the tool raised" in failed.err
    assert "secret words" not in failed.err + failed.out
    for words, code in (
        (["nobody", "go"], 1),
        (["helper"], 2),
        (["helper", "go", "--message-file", "-"], 2),
        (["helper", "--message-file", "/nothing/here"], 2),
    ):
        assert (await shell("agents", "run", *words)).code == code
