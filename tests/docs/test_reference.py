"""The reference pages say everything that the code has, and nothing that it has not."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import asyncpg
import pytest

import rejoinder
from rejoinder.expressions.expression import MOST_TEXT
from rejoinder.expressions.process import Limits
from rejoinder.expressions.tokens import REFUSED
from rejoinder.runs.manifest import ENTRY_KEYS, KEYS
from rejoinder.runs.tools import CONTINUATION_PARAMETERS, Tool
from tests.docs.generate import PARTS, REFERENCE, commands, errors, openapi, operations, renewed
from tests.docs.pages import ROOT
from tests.docs.settings import known_variables, settings_variables

PAGES = sorted(REFERENCE.glob("*.md"))


def _page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def _first_cells(text: str) -> list[str]:
    """What is in back ticks in the first cell of each row of the page's tables."""
    rows = re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE)
    return [name for cell in rows for name in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_as_the_code_has_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert renewed(text) == text, "run: python -m tests.docs.generate"


def test_every_part_is_on_a_page() -> None:
    marks = re.findall(r"<!-- from the code: ([a-z-]+) -->", "".join(map(_page, [p.name for p in PAGES])))
    assert sorted(marks) == sorted(PARTS)


def test_every_command_is_there() -> None:
    text = _page("cli.md")
    names = [words for words, _ in commands()]
    assert len(names) > 20
    for words in names:
        assert f"### {words}\n" in text


def test_every_door_is_there() -> None:
    text = _page("http-api.md")
    doors = list(operations())
    assert len(doors) > 15
    for method, path, _ in doors:
        assert f"### {method} {path}\n" in text
    for name in openapi()["components"]["schemas"]:
        assert f"### {name}\n" in text


def test_every_error_is_there() -> None:
    text = _page("errors.md")
    for kind in errors():
        assert f"`{kind.code}`" in text
        assert f"`{kind.__name__}`" in text


def test_every_setting_is_there_with_its_default() -> None:
    text = _page("settings.md")
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \|", text, re.MULTILINE))
    unused = text[text.index("## Known names without a meaning here") :]
    for name, default in settings_variables().items():
        if f"`{name}`" in unused:
            continue
        shown = rows[name].strip()
        if default in (None, ()):
            assert shown == "none", name
        elif isinstance(default, bool):
            assert shown == str(default).lower(), name
        elif isinstance(default, int | float):
            assert float(shown) == default, name
        else:
            assert shown == default, name


def test_every_other_variable_is_there_and_none_that_is_not() -> None:
    text = _page("settings.md")
    used, unused = text.split("## Known names without a meaning here")
    for name in known_variables() - {"REJOINDER_CACHE"}:
        assert f"`{name}`" in text, name
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", used, re.MULTILINE)) <= known_variables()
    really_used = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "src").rglob("*.py")
        if path.name != "settings.py"
    )
    for name in re.findall(r"`([A-Z_]+)`", unused):
        if name not in known_variables():
            assert name not in really_used, name
        else:
            assert name.lower() not in really_used or name in used, name


def test_the_public_names_are_there() -> None:
    text = _page("python-api.md")
    everything = text[text.index("## Everything there is") :]
    assert re.findall(r"`(\w+)`", everything) == rejoinder.__all__


def test_asks_parameters_are_there() -> None:
    text = _page("python-api.md")
    section = text[text.index("## ask") : text.index("## What ask raises")]
    from rejoinder.asks.request import build_request

    taken = set(inspect.signature(build_request).parameters) - {
        "identity",
        "default_timeout",
        "verifiers",
        "public_base_url",
    }
    assert taken <= set(_first_cells(section))


def test_a_tools_options_are_there() -> None:
    text = _page("python-api.md")
    section = text[text.index("## tool\n") : text.index("## AskAnswer")]
    options = set(inspect.signature(Tool.__init__).parameters) - {"self", "function"}
    assert options | set(CONTINUATION_PARAMETERS) <= set(_first_cells(section))


def test_the_manifests_keys_are_there() -> None:
    names = set(_first_cells(_page("manifest.md")))
    assert {f"tools[].{key}" for key in ENTRY_KEYS} | KEYS <= names


def test_every_kind_of_event_is_there_and_none_that_is_not() -> None:
    text = _page("events.md")
    section = text[text.index("## The audit trail") : text.index("## The stream")]
    named = {name for name in _first_cells(section) if "." in name}
    states = {"succeeded", "failed", "cancelled", "lost", "held"}
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "src" / "rejoinder").rglob("*")
        if path.suffix in (".py", ".sql")
        and not {"forms", "openclaw", "turns", "web"} & set(path.parts)
        and path.parent.name != "contract"
    )
    written = set(
        re.findall(
            r"""['"]((?:interaction|ask|answer|link|run|key|session|access|hook|verifier|preset|scope|schedule)\.[a-z_]+)['"]""",
            source,
        )
    )
    points = set(re.findall(r'pause\.here\(\s*"([a-z.]+)"', source)) | {"run.returned", "interaction.reset"}
    assert named == (written - points) | {f"run.{state}" for state in states} | {"run.entered"}


def test_every_word_that_expressions_refuse_is_there() -> None:
    refused = set(_first_cells(_page("expressions.md")))
    assert refused == set(REFUSED)
    assert f"{MOST_TEXT:,} characters" in _page("expressions.md")
    limits = Limits()
    assert (limits.seconds, limits.memory, limits.given, limits.result) == (1, 256 << 20, 4 << 20, 1 << 20)


def test_every_dependency_has_a_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = _page("dependencies.md")
    own, *extras = text.split("\nThe extra ")
    assert set(_first_cells(own)) == {_package(line) for line in project["dependencies"]}
    told = {found[1]: found.string for part in extras if (found := re.match(r"`(\w+)`", part))}
    assert set(told) == set(project["optional-dependencies"])
    for extra, lines in project["optional-dependencies"].items():
        named = set(re.findall(r"`([\w-]+)`", told[extra])) & {_package(line) for line in lines}
        assert named == {_package(line) for line in lines}, extra
        assert set(_first_cells(told[extra])) <= named, extra


def _package(requirement: str) -> str:
    return re.split(r"[><=;\[ ]", requirement)[0]


async def test_every_table_is_there(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'rejoinder'")
    finally:
        await connection.close()
    tables = {row["tablename"] for row in rows if not row["tablename"].startswith("pgqueuer")}
    named = {name for name in _first_cells(_page("data-model.md")) if not name.startswith("pgqueuer")}
    assert named == tables
