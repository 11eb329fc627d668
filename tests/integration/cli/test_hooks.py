"""``rejoinder hooks``: what is written through it, and how it reads JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.integration.cli.conftest import Shell

HOOK: dict[str, Any] = {"name": "one", "topic": "orders", "tool": "plain", "execution_key": "owner"}
CONFIG = '{"secret_env": "VENDOR_SECRET"}'


async def test_a_hook_comes_from_words_a_file_or_standard_input(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "hook.json"
    file.write_text(json.dumps(HOOK | {"name": "filed"}))
    given = json.dumps(HOOK | {"condition": '.type == "paid"'})
    for words, stdin in (
        (("--params", given), ""),
        (("--params-file", str(file)), ""),
        (("--params-file", "-"), json.dumps(HOOK | {"name": "piped"})),
    ):
        made = await shell("hooks", "register", *words, stdin=stdin)
        assert made.code == 0, made.err
        assert "orders" in made.out
    listed = await shell("hooks", "list")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["NAME", "filed", "one", "piped"]
    assert '.type == "paid"' in listed.out
    assert (await shell("hooks", "list", "--topic", "other", "--json")).json == {"items": []}
    gone = await shell("hooks", "delete", "filed")
    assert gone.out == "Deleted: filed\n"
    assert (await shell("hooks", "delete", "filed")).code == 1


async def test_a_hook_is_given_once(shell: Shell) -> None:
    for words in ((), ("--params", "{}", "--params-file", "-")):
        refused = await shell("hooks", "register", *words)
        assert refused.code == 2
        assert "--params" in refused.err
    assert (await shell("hooks", "register", "--params", "{")).code == 2
    wrong = await shell("hooks", "register", "--params", json.dumps(HOOK | {"condition": "nosuch"}))
    assert wrong.code == 1
    assert "condition is not jq: nosuch/0 is not defined" in wrong.err


async def test_a_topic_is_bound_listed_and_set_free(shell: Shell) -> None:
    await shell("hooks", "register", "--params", json.dumps(HOOK))
    assert "OPEN: anybody may send" in (await shell("hooks", "topics")).out
    bound = await shell("hooks", "set-verifier", "orders", "--verifier", "stripe", "--config", CONFIG)
    assert bound.code == 0, bound.err
    piped = await shell(
        "hooks", "set-verifier", "orders", "--verifier", "stripe", "--config-file", "-", stdin=CONFIG
    )
    assert piped.code == 0, piped.err
    table = (await shell("hooks", "topics")).out
    assert "OPEN" not in table
    assert "stripe" in table
    held = await shell("hooks", "delete-verifier", "orders")
    assert held.code == 1
    assert "delete them first: one" in held.err
    await shell("hooks", "delete", "one")
    assert (await shell("hooks", "delete-verifier", "orders")).out == "Open to everybody: orders\n"
    assert (await shell("hooks", "set-verifier", "orders", "--verifier", "nosuch")).code == 1


async def test_a_trigger_link_is_printed_once(shell: Shell) -> None:
    words = ("hooks", "create-trigger-link", "orders", "--execution-key", "owner")
    for more in ((), ("--ttl", "5", "--permanent")):
        refused = await shell(*words, *more)
        assert refused.code == 2
        assert "either --ttl or --permanent" in refused.err
    made = await shell(*words, "--ttl", "60", "--name", "mine", "--params", '{"a": 1}')
    assert made.code == 0, made.err
    assert made.out.startswith("http://127.0.0.1")
    assert "/trigger/trg-" in made.out
    kept = await shell(*words, "--permanent", "--require-api-key", "--name", "kept", "--json")
    assert kept.json["link"]["expires_at"] is None
    assert kept.json["link"]["require_api_key"] is True
    listed = await shell("hooks", "trigger-links")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["NAME", "kept", "mine"]
    assert "trg-" not in listed.out
    (one, other) = (await shell("hooks", "trigger-links", "--json")).json["items"]
    assert (one["status"], other["tool_kwargs"]) == ("live", {"a": 1})
    assert (await shell("hooks", "delete-trigger-link", "mine")).out == "Revoked: mine\n"
    assert (await shell("hooks", "delete-trigger-link", "mine")).code == 1


#: What is refused, and the field that the refusal names.
REFUSED: list[tuple[tuple[str, ...], str]] = [
    (("hooks", "register", "--params", json.dumps(HOOK | {"tool": "gone"})), "tool"),
    (("hooks", "register", "--params", json.dumps(HOOK | {"conditions": "."})), "conditions"),
    (("hooks", "register", "--params", json.dumps(HOOK | {"condition": ".a |"})), "condition"),
    (("hooks", "register", "--params", json.dumps({"name": "one"})), "topic"),
    (("hooks", "set-verifier", "orders", "--verifier", "strip"), "verifier"),
    (("hooks", "create-trigger-link", "orders", "--execution-key", "gone", "--permanent"), "execution_key"),
    (("schedules", "add", "gone", "--every", "60"), "tool_name"),
    (("schedules", "add", "ask", "--cron", "61 * * * *"), "cadence.expression"),
    (("schedules", "add", "ask", "--cron", "* * *"), "cadence.expression"),
    (("schedules", "add", "ask", "--every", "0"), "cadence.every"),
    (("presets", "create", "--params", '{"name": "p"}'), "base_tool"),
    (("presets", "create", "--params", '{"name": "ask", "base_tool": "ask", "description": "x"}'), "name"),
    (("scopes", "public", "pin", "/api/*"), "pattern"),
]


async def test_a_refusal_names_its_field_once(shell: Shell) -> None:
    for words, field in REFUSED:
        done = await shell(*words)
        assert done.code == 1
        assert len(re.findall(rf"(?<![\w.]){re.escape(field)}(?!\w)", done.err)) == 1, done.err
