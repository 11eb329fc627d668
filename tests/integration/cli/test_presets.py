"""``rejoinder presets``: the whole life of one, and what the command line refuses."""

from __future__ import annotations

import json
from pathlib import Path

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
