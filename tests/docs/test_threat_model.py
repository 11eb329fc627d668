"""Every attack on the page of threats names a test that is there, and no test of the deputy is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "explanation" / "threat-model.md"
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows() -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith(("| attack |", "| what happens |"))]


def names_in(path: Path) -> set[str]:
    return set(re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("row", rows())
def test_an_attack_is_refused_in_a_test(row: str) -> None:
    cells = [cell.strip() for cell in row.strip("| ").split(" | ")]
    assert len(cells) == 3
    named = _TEST.findall(cells[2])
    assert named, "it names no test"
    assert _TEST.sub("", cells[2]).strip(" ,") == ""
    for path, name in named:
        assert name in names_in(ROOT / path), f"{path} has no {name}"


def test_the_page_has_attacks() -> None:
    assert len(rows()) > 40


@pytest.mark.parametrize(
    "path", ["tests/abuse/test_confused_deputy.py", "tests/abuse/test_confused_deputy_events.py"]
)
def test_no_test_of_the_deputy_is_left_out(path: str) -> None:
    named = {name for found, name in _TEST.findall(PAGE.read_text(encoding="utf-8")) if found == path}
    # What marks a tool, and what stops a start, is no attack.
    marks = {
        name for name in names_in(ROOT / path) if name.startswith(("test_a_mark_", "test_an_operator_marks_"))
    }
    assert named == names_in(ROOT / path) - marks - {"test_outside_a_run_nothing_is_verified"}
