"""Answers typed on a command line."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder.contract.errors import AnswerMismatchError
from rejoinder.forms.plain import parse_plain

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer"},
        "ok": {"type": "boolean"},
        "size": {"oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "fruit": {"type": "array", "items": {"enum": ["fig", "plum", "a,b"]}},
        "home": {"type": "object", "properties": {"zip": {"type": "string"}, "a.b": {"type": "string"}}},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "free": {"type": "object"},
    },
}


@pytest.mark.parametrize("text", ["y", "Yes", "TRUE", " on ", "1"])
def test_yes(text: str) -> None:
    assert parse_plain("confirm", None, text) is True


@pytest.mark.parametrize("text", ["n", "No", "FALSE", " off ", "0"])
def test_no(text: str) -> None:
    assert parse_plain("confirm", None, text) is False


@pytest.mark.parametrize("text", ["", "yep", "2", "yes no"])
def test_neither(text: str) -> None:
    with pytest.raises(AnswerMismatchError, match="answer must be a boolean"):
        parse_plain("confirm", None, text)


@pytest.mark.parametrize("text", ["", " as it is \n", "7", '"x"'])
def test_text_is_taken_as_it_is(text: str) -> None:
    assert parse_plain("text", None, text) == text


@pytest.mark.parametrize(
    ("options", "text", "chosen"),
    [
        (["red", "green"], "green", "green"),
        (["red", "green"], "GREEN ", "green"),
        (["red", "green"], "2", "green"),
        (["red", "green"], "#1", "red"),
        (["Red", "red"], "red", "red"),
        (["2", "1"], "1", "1"),
        (["2", "1"], "#1", "2"),
        (["#2", "x"], "#2", "#2"),
        (["20", "x"], "20", "20"),
        ([" padded "], " padded ", " padded "),
    ],
)
def test_select(options: list[str], text: str, chosen: str) -> None:
    assert parse_plain("select", {"options": options}, text) == chosen


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["red"], "blue"),
        (["red"], "0"),
        (["red"], "2"),
        (["red"], "-1"),
        (["red"], ""),
        (["Red", "rED"], "red"),
        (["20", "x"], "2"),
    ],
)
def test_select_never_guesses(options: list[str], text: str) -> None:
    with pytest.raises(AnswerMismatchError, match="answer must be one of"):
        parse_plain("select", {"options": options}, text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"name": "x", "other": [1]}', {"name": "x", "other": [1]}),
        ("name=a=b", {"name": "a=b"}),
        ("name=x\ncount=３\n\nok=yes\n", {"name": "x", "count": 3, "ok": True}),
        ("size=large", {"size": "l"}),
        ("ok=no", {"ok": False}),
        ("tags=a\ntags=b c", {"tags": ["a", "b c"]}),
        ("fruit=fig,plum", {"fruit": ["fig", "plum"]}),
        ("fruit=fig\nfruit=a,b", {"fruit": ["fig", "a,b"]}),
        ("home.zip=1\nhome.a\\.b=2", {"home": {"zip": "1", "a.b": "2"}}),
        ("rows.0.n=1\nrows.1.n=2", {"rows": [{"n": 1}, {"n": 2}]}),
        ('free={"a": 1}', {"free": {"a": 1}}),
        ("", {}),
    ],
)
def test_form(text: str, value: Any) -> None:
    assert parse_plain("form", {"schema": SCHEMA}, text) == value


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", None),
        ("just words", None),
        ("nothing=1", "nothing"),
        ("home=1", "home"),
        ("rows.x.n=1", "rows.x.n"),
        ("count=many", "count"),
        ("ok=maybe", "ok"),
        ("size=huge", "size"),
        ("rows.0.n=x", "rows.0.n"),
    ],
)
def test_form_faults_name_the_field(text: str, field: str | None) -> None:
    with pytest.raises(AnswerMismatchError) as caught:
        parse_plain("form", {"schema": SCHEMA}, text)
    assert caught.value.field == field
