"""``rejoinder interactions``, against a real server over a socket."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from rejoinder.cli import answering
from tests.integration.cli.conftest import Shell
from tests.integration.doors.edge import Edge
from tests.support import assert_eventually

STEERING = "a\x1b[2Jb\u202ec\x07d\u2028e\x9bf"


async def park(shell: Shell, kind: str = "confirm", label: str = "") -> str:
    done = await shell(
        "tools", "run", "parking", "--params", json.dumps({"kind": kind, "label": label}), "--json"
    )
    assert done.code == 0, done.err
    return str(done.json["result"]["tai42:suspended_interaction"]["interaction_id"])


async def told(server: Edge, identifier: str) -> Any:
    """What the run that parked on this question finally returned."""

    async def ended() -> dict[str, Any] | None:
        question = (await server.owner.get(f"/api/interactions/{identifier}")).json()["data"]
        run: dict[str, Any] = (await server.owner.get(f"/api/tool-runs/{question['run_id']}")).json()["data"]
        return run if run["status"] == "succeeded" else None

    run = await assert_eventually(ended, "the run did not go on")
    assert run is not None
    return run["result"]["told"]


@pytest.mark.parametrize(
    ("kind", "words", "expected"),
    [
        ("confirm", ["--answer", "true"], True),
        ("confirm", ["no"], False),
        ("text", ["--answer", '"true"'], "true"),
        ("text", ["true"], "true"),
        ("select", ["--answer", '"green"'], "green"),
        ("select", ["2"], "green"),
        ("select", ["RED"], "red"),
        ("form", ["--answer", '{"count": 12345678901234567890123}'], {"count": 12345678901234567890123}),
        ("form", ["count=3\nname=4"], {"count": 3, "name": "4"}),
    ],
)
async def test_an_answer_is_typed_by_the_question(
    server: Edge, shell: Shell, kind: str, words: list[str], expected: Any
) -> None:
    identifier = await park(shell, kind)
    done = await shell("interactions", "answer", identifier, *words)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Answered.")
    assert await told(server, identifier) == expected


async def test_it_says_how_a_parked_run_went_on(
    server: Edge, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As many looks as a busy machine needs.
    monkeypatch.setattr(answering, "TAKEN_UP", (0.02,) * 1000)
    done = await shell("interactions", "answer", await park(shell), "yes")
    assert done.out == 'Answered.\nparking went on and finished: {"told": true}\n'


@pytest.mark.parametrize("source", ["-", "file"])
async def test_an_answer_from_a_file_or_standard_input(
    server: Edge, shell: Shell, tmp_path: Path, source: str
) -> None:
    identifier = await park(shell, "text")
    file = tmp_path / "answer.json"
    file.write_text('"from a file"', encoding="utf-8")
    name = "-" if source == "-" else str(file)
    done = await shell(
        "interactions", "answer", identifier, "--answer-file", name, "--json", stdin='"from a file"'
    )
    assert done.json == {"interaction_id": identifier, "status": "answered"}
    assert await told(server, identifier) == "from a file"


async def test_a_short_id_is_enough_where_it_is_clear(server: Edge, shell: Shell) -> None:
    identifier = await park(shell)
    assert (await shell("interactions", "answer", identifier[:8], "yes")).code == 0
    again = await shell("interactions", "answer", identifier[:8], "yes")
    assert again.code == 2
    assert "No open question" in again.err


async def test_answering_twice_says_so(server: Edge, shell: Shell) -> None:
    identifier = await park(shell)
    assert (await shell("interactions", "answer", identifier, "yes")).code == 0
    late = await shell("interactions", "answer", identifier, "no")
    assert late.code == 1
    assert "already answered by owner, " in late.err
    assert late.err.rstrip().endswith(": true.")
    assert late.out == ""


@pytest.mark.parametrize(
    ("kind", "words", "named"),
    [
        ("confirm", ["maybe"], "yes or no"),
        ("confirm", ["--answer", '"yes"'], "boolean"),
        ("select", ["blue"], "red"),
        ("form", ["--answer", "{}"], "count"),
        ("form", ["count=many"], "count"),
    ],
)
async def test_a_wrong_answer_is_explained_and_leaves_the_question_open(
    server: Edge, shell: Shell, kind: str, words: list[str], named: str
) -> None:
    identifier = await park(shell, kind)
    done = await shell("interactions", "answer", identifier, *words)
    assert done.code == 1
    assert named in done.err
    assert await server.state(identifier) == "pending"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--answer", "{x"], "--answer"),
        (["--answer", "NaN"], "--answer"),
        (["--answer", "1", "--answer-file", "-"], "--answer"),
        (["yes", "--answer", "true"], "--answer"),
        (["--answer-file", "/nothing/here"], "/nothing/here"),
        ([], "--answer"),
        (["--answer", "-", "--api-key-stdin"], "standard input"),
    ],
)
async def test_a_command_line_that_is_wrong_exits_with_2(
    server: Edge, shell: Shell, words: list[str], named: str
) -> None:
    identifier = await park(shell)
    done = await shell("interactions", "answer", identifier, *words)
    assert done.code == 2
    assert named in done.err
    assert await server.state(identifier) == "pending"


async def test_list_and_pending_as_tables_and_as_json(server: Edge, shell: Shell) -> None:
    empty = await shell("interactions", "list")
    assert (empty.code, empty.out) == (0, "")
    assert "No question is open" in empty.err
    identifiers = {await park(shell, kind) for kind in ("text", "confirm", "form")}
    for command in ("list", "pending"):
        table = await shell("interactions", command)
        lines = table.out.splitlines()
        assert lines[0].split() == ["ID", "ANSWER", "DUE", "ASKED", "BY", "QUESTION"]
        assert {line.split()[0] for line in lines[1:]} == identifiers
        assert {
            i["interaction_id"] for i in (await shell("interactions", command, "--json")).json["items"]
        } == identifiers
    page = await shell("--json", "interactions", "list", "--page-size", "2")
    assert (page.json["total"], page.json["next_page"], len(page.json["items"])) == (3, 2, 2)
    first = await shell("interactions", "list", "--page-size", "2", "--no-json")
    assert "--page 2" in first.err
    assert len((await shell("interactions", "pending", "--limit", "1", "--json")).json["items"]) == 1
    assert (await shell("interactions", "pending", "--limit", "1001")).code == 2


async def test_show_tells_how_it_ended_and_cancel_withdraws(server: Edge, shell: Shell) -> None:
    identifier = await park(shell)
    assert "pending" in (await shell("interactions", "show", identifier)).out
    assert (await shell("interactions", "cancel", identifier)).out == "Withdrawn.\n"
    assert (await shell("interactions", "show", identifier, "--json")).json["status"] == "cancelled"
    again = await shell("interactions", "cancel", identifier)
    assert again.code == 1


async def test_nothing_that_an_agent_wrote_steers_the_terminal(server: Edge, shell: Shell) -> None:
    identifier = await park(shell, "text", STEERING)
    outputs = [
        await shell("interactions", "list"),
        await shell("interactions", "pending"),
        await shell("interactions", "show", identifier),
        await shell("interactions", "list", "--json"),
        await shell("tools", "run", "plain", "--params", json.dumps({"text": STEERING})),
    ]
    for outcome in outputs:
        assert outcome.code == 0, outcome.err
        assert not set(STEERING) - set("abcdef[2J") & set(outcome.out)


@pytest.mark.parametrize("as_json", [True, False])
async def test_stream_prints_each_frame_as_it_arrives(server: Edge, shell: Shell, as_json: bool) -> None:
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("rejoinder")),
        "interactions",
        "stream",
        *(["--json"] if as_json else []),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(os.environ),
    )
    assert process.stdout is not None
    try:
        await assert_eventually(lambda: len(server.node.tail._subscribers) == 1, "it never subscribed")
        identifier = await park(shell)
        line = (await process.stdout.readline()).decode()
        assert "interaction.add" in line
        assert identifier in line
        if as_json:
            assert json.loads(line)["event"] == "interaction.add"
        await shell("interactions", "cancel", identifier)
        line = (await process.stdout.readline()).decode()
        assert "interaction.removed" in line
        assert "cancelled" in line
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
    assert process.returncode == 130
    assert errors == b""
