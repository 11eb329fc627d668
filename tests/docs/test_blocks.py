"""Every block of every page is checked: none is shown that nobody looks at."""

from __future__ import annotations

import ast
import configparser
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cyclopts import App

from rejoinder.cli.arguments import leading_options_last
from rejoinder.cli.main import build
from tests.docs.pages import LANGUAGES, ROOT, WORDS, Block, all_blocks
from tests.docs.settings import known_variables

BLOCKS = all_blocks()


def _of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_says_what_it_is(block: Block) -> None:
    assert block.language in LANGUAGES, f"{block}: name the block's language"
    assert block.words <= WORDS, f"{block}: {block.words - WORDS} says nothing"
    if block.language == "text":
        assert block.words or block.options or _follows_a_run(block), f"{block}: output of what?"


def _follows_a_run(block: Block) -> bool:
    before = [b for b in BLOCKS if b.page == block.page and b.line < block.line]
    return any("run" in b.words for b in before)


@pytest.mark.parametrize("block", _of("json", "yaml", "toml"), ids=str)
def test_data_is_well_formed(block: Block) -> None:
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        assert yaml.safe_load(block.text) is not None
    else:
        tomllib.loads(block.text)


@pytest.mark.parametrize("block", _of("ini"), ids=str)
def test_units_are_well_formed(block: Block) -> None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    is_unit = block.text.startswith("[")
    parser.read_string(block.text if is_unit else f"[Environment]\n{block.text}")
    if is_unit:
        assert {"Unit", "Service", "Install"} <= set(parser.sections())
        # A process needs what is drained, withdrawn and told before it is killed.
        assert int(parser["Service"]["TimeoutStopSec"]) > 10 + 5
    else:
        assert set(parser["Environment"]) <= known_variables()


@pytest.mark.parametrize("block", _of("nginx"), ids=str)
def test_proxy_settings_are_well_formed(block: Block) -> None:
    depth = 0
    for line in block.text.splitlines():
        text = line.strip()
        assert not text or text[-1] in ";{}", f"{block}: {line}"
        depth += text.count("{") - text.count("}")
        assert depth >= 0
    assert depth == 0
    for needed in (
        "proxy_buffering off;",
        "X-Forwarded-Proto",
        "proxy_read_timeout",
        "proxy_http_version 1.1;",
    ):
        assert needed in block.text, f"{block}: {needed}"


@pytest.mark.parametrize("block", _of("python"), ids=str)
def test_python_compiles(block: Block) -> None:
    ast.parse(block.text, str(block.page))


@pytest.mark.parametrize("block", _of("sh", "console", "ini"), ids=str)
def test_commands_exist(block: Block) -> None:
    for words in _commands(block):
        if words[0] == "make":
            targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            for word in words[1:]:
                assert "=" in word or word in targets, f"{block}: make {word}"
        else:
            _check_command(block, words)


@pytest.mark.parametrize("block", _of("sh", "console", "ini", "nginx"), ids=str)
def test_variables_exist(block: Block) -> None:
    named = set(re.findall(r"\b(?:REJOINDER|INTERACTIONS|TAI|ACCESS_CONTROL)_[A-Z_]+\b", block.text))
    assert named <= known_variables(), f"{block}: {named - known_variables()}"


def test_pages_name_no_variable_that_is_none() -> None:
    wrong = {}
    for path in {block.page for block in BLOCKS}:
        named = set(re.findall(r"`(REJOINDER_[A-Z_]+)`", path.read_text(encoding="utf-8")))
        if unknown := named - known_variables():
            wrong[path.name] = unknown
    assert not wrong


def _commands(block: Block) -> Iterator[list[str]]:
    """The ``make`` and ``rejoinder`` commands in a block, as words."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if block.language == "console" and not line.startswith("$ "):
            continue
        text = line.removeprefix("$ ").split("ExecStart=", 1)[-1].split("ExecStartPre=", 1)[-1]
        try:
            lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = list(lexer)
        except ValueError:
            continue
        part: list[str] = []
        for word in [*words, ";"]:
            if word and set(word) <= set("();<>|&"):
                yield from _command(part)
                part = []
            else:
                part.append(word)


def _command(words: list[str]) -> Iterator[list[str]]:
    while words and re.fullmatch(r"[A-Za-z_]+=.*", words[0]):
        words = words[1:]
    if words and Path(words[0].lstrip("$")).name in ("rejoinder", "make"):
        yield [Path(words[0].lstrip("$")).name, *words[1:]]


def _check_command(block: Block, words: list[str]) -> None:
    app: App = build()
    given = leading_options_last(words[1:])
    if given in (["--version"], ["--help"]):
        return
    _, bound, unused, *_ = app.parse_known_args(given)
    assert not unused, f"{block}: {' '.join(words)}: {unused}"
    assert bound is not None


@pytest.mark.timeout(300)
@pytest.mark.skipif(
    importlib.util.find_spec("mypy") is None, reason="part of make check: needs mypy and ruff"
)
def test_python_is_typed_and_tidy(tmp_path: Path) -> None:
    folder = tmp_path / "blocks"
    folder.mkdir()
    for number, block in enumerate(_of("python")):
        name = f"{block.page.stem.replace('-', '_').lower()}_{block.line}_{number}"
        (folder / f"{name}.py").write_text(f"# {block}\n{block.text}", encoding="utf-8")
    for tool in (
        ["mypy", "--strict", "--ignore-missing-imports", "--cache-dir", str(tmp_path / "cache")],
        ["ruff", "check", "--config", str(ROOT / "pyproject.toml"), "--ignore", "S,INP", "--no-cache"],
        ["ruff", "format", "--check", "--line-length", "110", "--no-cache"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *tool, str(folder)],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT if tool[0] == "mypy" else tmp_path,
        )
        assert done.returncode == 0, done.stdout + done.stderr
