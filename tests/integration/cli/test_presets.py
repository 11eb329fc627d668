"""``rejoinder presets``: the whole life of one, and what the command line refuses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from rejoinder.cli.serving import look_at_presets
from tests.integration.cli.conftest import Shell
from tests.integration.doors.edge import Edge

BODY = {
    "name": "seven",
    "base_tool": "plain",
    "description": "Gives back seven.",
    "fixed_kwargs": {"number": 7},
}


async def test_a_preset_from_its_making_to_its_end(server: Edge, shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "seven.json"
    file.write_text(json.dumps(BODY), encoding="utf-8")
    assert "There are no presets" in (await shell("presets", "list")).err
    tried = await shell("presets", "validate", "--params-file", str(file), "--json")
    assert list(tried.json["input_schema"]["properties"]) == ["text"]
    made = await shell("presets", "create", "--params", "-", stdin=json.dumps(BODY))
    assert (made.code, "seven" in made.out) == (0, True)
    assert "number" in (await shell("presets", "list")).out
    assert [one["name"] for one in (await shell("presets", "list", "--json")).json["items"]] == ["seven"]
    ran = await shell("tools", "run", "seven", "--arg", "text=x", "--json")
    assert ran.json["result"] == {"text": "x", "number": 7}

    saved = await shell("presets", "save", "seven", "--params", '{"fixed_kwargs": {"number": 8}}', "--json")
    assert saved.json["version"] == 2
    late = await shell("presets", "save", "seven", "--params", '{"tags": []}', "--expected-version", "1")
    assert (late.code, "Version 2 counts" in late.err) == (1, True)
    assert (await shell("presets", "show", "seven", "--version", "1", "--json")).json["fixed_kwargs"] == {
        "number": 7
    }
    tagged = await shell("presets", "tag", "seven", "good", "--version", "2", "--json")
    assert tagged.json["version_tags"] == {"good": 2}
    assert "good" in (await shell("presets", "versions", "seven")).out
    assert (await shell("presets", "tag", "seven", "good", "--clear", "--json")).json["version_tags"] == {}
    assert (await shell("presets", "rollback", "seven", "1", "--json")).json["version"] == 1
    assert "Nothing names" in (await shell("presets", "referees", "seven")).err
    assert (await shell("presets", "rename", "seven", "eight", "--json")).json["name"] == "eight"
    assert (await shell("presets", "delete", "eight")).out == "Deleted.\n"


async def test_what_the_command_line_refuses(server: Edge, shell: Shell, tmp_path: Path) -> None:
    for words, code, named in (
        (["create"], 2, "--params"),
        (["create", "--params", "{}", "--params-file", "-"], 2, "--params"),
        (["create", "--params", "[1]"], 2, "--params"),
        (["create", "--params", "{"], 2, "--params"),
        (["create", "--params", json.dumps(BODY | {"extensions": []})], 1, "extensions"),
        (["tag", "seven", "good"], 2, "--version"),
        (["tag", "seven", "good", "--version", "1", "--clear"], 2, "--version"),
        (["show", "nothing"], 1, "preset"),
    ):
        done = await shell("presets", *words)
        assert done.code == code, done
        assert named in done.err


async def test_the_doctor_names_the_presets_that_make_no_tool(
    server: Edge, shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert await asyncio.to_thread(look_at_presets, None) == []
    for name in ("seven", "broken"):
        made = await shell("presets", "create", "--params", json.dumps(BODY | {"name": name}))
        assert made.code == 0, made.err
    assert await asyncio.to_thread(look_at_presets, None) == []
    # As a later manifest would leave it.
    await server.node.database.execute(
        """WITH made AS (
               INSERT INTO rejoinder.preset_version (id, preset_id, number, document, pins, created_at, created_by)
               SELECT gen_random_uuid(), id, 2, '{"base_tool": "gone", "description": "."}', false, now(), 'x'
                 FROM rejoinder.preset WHERE name = 'broken' RETURNING preset_id)
           UPDATE rejoinder.preset p SET current = 2, last = 2 FROM made WHERE p.id = made.preset_id"""
    )
    await server.node.preset_book.refresh()
    [found] = await asyncio.to_thread(look_at_presets, None)
    assert (found.check, found.level) == ("presets", "warn")
    assert "makes no tool of: broken." in found.what
    told = await shell("doctor", "--json")
    assert [one["check"] for one in json.loads(told.out)["checks"]][-1] == "presets"
    # A folder on which no server runs.
    monkeypatch.delenv("REJOINDER_SERVER")
    assert await asyncio.to_thread(look_at_presets, tmp_path / "none") == []
