"""What a preset's document says, what differs between two of them, and what references it may hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rejoinder.contract.errors import BadInputError
from rejoinder.presets.document import Document, changed_document, new_document
from rejoinder.presets.variables import VariableFault, resolved

ONE = Document("base", "About.", {"a": 1, "b": {"c": True}})


def test_what_is_left_out_of_a_saving_stays_and_what_is_given_is_replaced_whole() -> None:
    whole = replace(ONE, extensions=["x"], tags=["t"], input_map=".", input_schema={"type": "object"})
    assert changed_document({"fixed_kwargs": {"z": 1}}, whole) == replace(whole, fixed_kwargs={"z": 1})
    assert changed_document({"extensions": []}, whole) == replace(whole, extensions=[])
    assert changed_document({"input_map": None}, whole) == replace(whole, input_map=None)
    for nothing in ({}, {"expected_version": 3}):
        with pytest.raises(BadInputError):
            changed_document(nothing, whole)


def test_an_empty_list_of_extensions_is_refused_at_the_creation_alone() -> None:
    with pytest.raises(BadInputError, match="leave the field out") as refused:
        new_document({"base_tool": "b", "description": "d", "extensions": []})
    assert refused.value.field == "extensions"


def test_what_differs_is_named_by_its_own_name_and_by_its_json() -> None:
    other = replace(ONE, fixed_kwargs={"a": True, "b": {"c": True}, "n": None}, tags=["t"])
    assert other.changed(ONE) == ["fixed_kwargs.a", "fixed_kwargs.n", "tags"]
    assert Document.of_json(other.as_json()) == other
    assert ONE.changed(ONE) == []


@pytest.mark.parametrize(
    ("value", "comes_to"),
    [
        ("!ENV ${HOST}", "example"),
        ("!ENV http://${HOST}:${PORT}/x", "http://example:80/x"),
        ({"a": ["!ENV ${PORT}", "${PORT}"]}, {"a": ["80", "${PORT}"]}),
        ("say !ENV ${PORT}", "say !ENV ${PORT}"),
        (7, 7),
    ],
)
def test_a_reference_is_followed(value: Any, comes_to: Any) -> None:
    environment = {"HOST": "example", "PORT": "80"}
    assert resolved({"v": value}, {"HOST", "PORT"}, environment) == {"v": comes_to}


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ("!ENV ${SECRET}", "v", "not among those"),
        ("!ENV ${UNSET}", "v", "is not set"),
        ("!ENV ${HOST:fallback}", "v", "must be the name"),
        ("!ENV ${}", "v", "must be the name"),
        ("!ENV HOST", "v", "needs a reference"),
        ({"a": [1, "!ENV ${SECRET}"]}, "v.a.1", "not among those"),
    ],
)
def test_a_reference_that_cannot_be_followed_is_refused_with_its_place(
    value: Any, path: str, reason: str
) -> None:
    with pytest.raises(VariableFault, match=reason) as fault:
        resolved({"v": value}, {"HOST", "UNSET"}, {"HOST": "example", "SECRET": "s3cret"})
    assert fault.value.path == path
    assert "s3cret" not in str(fault.value)
