"""Why something does not run is said in the reader's language, and what an author said stays as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.contract import errors
from rejoinder.hooks.attempts import ExecutionKeyError
from rejoinder.hooks.kinds import Kind
from rejoinder.language.spoken import LANGUAGES, speaking
from rejoinder.presets.variables import VariableFault, resolved
from rejoinder.schedules import service, ticker
from rejoinder.web.reasons import KINDS, in_words

SOURCE = Path(__file__).parents[2] / "src/rejoinder"
OTHERS = [code for code in LANGUAGES if code != "en"]


def texts(path: str, name: str, at: int) -> Iterator[str]:
    """The sentences that calls of ``name`` are given in a module, with a word in each place."""
    for node in ast.walk(ast.parse((SOURCE / path).read_text("utf-8"))):
        if not isinstance(node, ast.Call) or len(node.args) <= at:
            continue
        if getattr(node.func, "id", getattr(node.func, "attr", None)) != name:
            continue
        sentence = node.args[at]
        if isinstance(sentence, ast.Constant) and isinstance(sentence.value, str):
            yield sentence.value
        elif isinstance(sentence, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "word"
                for part in sentence.values
            )


def faulty_references() -> Iterator[str]:
    for text in ("!ENV nothing", "!ENV ${a b}", "!ENV ${ELSE}", "!ENV ${UNSET}"):
        with pytest.raises(VariableFault) as refused:
            resolved({"a": text}, ["UNSET"], {})
        yield refused.value.reason


REASONS = sorted(
    {
        *texts("presets/building.py", "PresetFault", 1),
        *texts("presets/book.py", "PresetFault", 1),
        *faulty_references(),
        *texts("hooks/attempts.py", "_failed", 4),
        *texts("hooks/attempts.py", "_hold", 3),
        *texts("hooks/attempts.py", "BadInputError", 0),
        *texts("expressions/pool.py", "ExpressionFailedError", 0),
        service.NO_WORKER,
        service.NO_TOOL,
        ticker.NO_KEY,
        ExecutionKeyError().message,
        errors.ToolFailedError().message,
        errors.InteractionTimeoutError().message,
        errors.RunInterruptedError().message,
    }
)


def test_the_reasons_are_found() -> None:
    assert len(REASONS) > 30
    assert "no tool named word is exposed" in REASONS
    assert "its run is not known any more" in REASONS


@pytest.mark.parametrize("code", OTHERS)
@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_of_ours_is_said_in_the_readers_language(code: str, reason: str) -> None:
    assert in_words(reason) == reason
    with speaking(code):
        assert in_words(reason) != reason


def test_what_stands_in_a_place_stays_and_a_reason_in_a_reason_is_said_too() -> None:
    with speaking("de"):
        assert in_words("no tool named {x}<b> is exposed") == "kein Werkzeug namens {x}<b> ist freigegeben"
        told = in_words("start_expr gave what pay does not take: argument amount: it is required")
        assert told == "start_expr ergab, was pay nicht nimmt: Argument amount: es ist nötig"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_of_an_authors_is_shown_as_it_is(text: str) -> None:
    assert in_words(text) == text
    with speaking("de"):
        assert in_words(f"The bank said: {text}") == f"The bank said: {text}"


def test_every_kind_of_a_hooks_failure_has_a_word() -> None:
    assert set(KINDS) == set(get_args(Kind))
