"""Every sentence that a person reads is in every catalogue, and every catalogue fits the sentences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rejoinder.language.spoken import ENGLISH, LANGUAGES, catalogue, language, n, preferred, speaking, t

SOURCE = Path(__file__).parents[2] / "src/rejoinder"
TEMPLATES = SOURCE / "web/templates"
OTHERS = [code for code in LANGUAGES if code != ENGLISH]
#: Calls whose first text, or first two, are sentences of the catalogue.
CALLS = {"t": 1, "th": 1, "later": 1, "n": 2}
_CALL = re.compile(r'\b(t|th|n)\(((?:"(?:[^"\\]|\\.)*"(?:,\s*)?){1,2})')
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


def of_python(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in CALLS:
            continue
        for argument in node.args[: CALLS[node.func.id]]:
            for inner in ast.walk(argument):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    yield inner.value


def of_template(path: Path) -> Iterator[str]:
    for call, arguments in _CALL.findall(path.read_text("utf-8")):
        yield from _TEXT.findall(arguments)[: CALLS[call]]


def tables() -> Iterator[str]:
    """Sentences that are chosen from a table first."""
    from rejoinder.forms import words

    yield from words._TYPES.values()
    yield from words._FORMATS.values()
    yield from words._NOUNS.values()
    for pair in (*words._LEAST.values(), *words._MOST.values()):
        yield from pair
    from rejoinder.web import hints

    for sizes in (hints._EXACTLY, hints._FROM_TO, hints._LEAST, hints._MOST):
        for pair in sizes.values():
            yield from pair
    from rejoinder.web import words as said

    yield from said._OURS


def sentences() -> set[str]:
    found = set(tables())
    for path in SOURCE.rglob("*.py"):
        if path.parent.name != "language":
            found.update(of_python(path))
    for path in TEMPLATES.glob("*.html"):
        found.update(of_template(path))
    return {one for one in found if re.search(r"[A-Za-z]", one)}


SENTENCES = sentences()


def places(sentence: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", sentence))


def test_the_sentences_are_found() -> None:
    assert {
        "Enter a whole number",
        "Send the answer",
        "{count} minutes",
        "{who} asked",
        "All questions",
    } <= SENTENCES


@pytest.mark.parametrize("code", OTHERS)
def test_a_catalogue_holds_every_sentence_and_no_other(code: str) -> None:
    known = catalogue(code)
    assert SENTENCES - known.keys() == set()
    assert known.keys() - SENTENCES == set()


@pytest.mark.parametrize("code", OTHERS)
def test_a_translation_has_the_places_of_its_sentence(code: str) -> None:
    for sentence, text in catalogue(code).items():
        assert text.strip(), sentence
        assert places(text) == places(sentence), sentence
        assert "\u2014" not in text


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.html")), ids=lambda path: path.name)
def test_no_template_holds_a_sentence_of_its_own(path: Path) -> None:
    """What stands between tags, and in attributes that are read out, goes through the catalogue."""
    text = re.sub(r"\{#.*?#\}", "", path.read_text("utf-8"), flags=re.DOTALL)
    # The page's CSS class, and a macro of nothing but attributes.
    text = re.sub(r"\{% block page %\}.*?\{% endblock %\}|\{% macro states.*?endmacro %\}", "", text)
    read_out = re.findall(r'(?:aria-label|title|alt|placeholder)="([^"{]+)"', text)
    text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", "\x00", text, flags=re.DOTALL)
    text = re.sub(r"<(script|style|kbd)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL)
    assert re.findall(r"[A-Za-z]{2,}", text.replace("Rejoinder", "")) == []
    assert read_out == []


def test_speaking_holds_for_a_time() -> None:
    with speaking("de"):
        assert language() == "de"
        assert t("Yes") == "Ja"
        assert t("Yes {x}", x=1) == "Yes 1"  # not in the catalogue: English
        with speaking("xx"):
            assert (language(), t("Yes")) == ("en", "Yes")
        assert n("{count} minute", "{count} minutes", 2) == "2 Minuten"
    assert language() == ENGLISH


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("", None), ("de", "de"), ("de-CH,de;q=0.9,en;q=0.8", "de"), ("fr,en;q=0.5,de;q=0.4", "en"), ("fr", None),
        ("en;q=0.2,de;q=0.9", "de"), ("de;q=0,en", "en"), ("de;q=x,en;q=0.1", "en"), ("DE-at", "de"), ("*", None),
        (";;;,,,=", None), ("de;q=9", None), ("en," * 5000 + "de", "en"), ("de;level=1", None),
    ],
)  # fmt: skip
def test_the_browsers_wish(header: str, code: str | None) -> None:
    assert preferred(header) == code
