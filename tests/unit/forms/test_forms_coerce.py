"""Submitted pairs to typed values and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.contract.errors import TooLargeError
from rejoinder.forms.answers import as_kept, check_answer
from rejoinder.forms.coerce import MAX_PAIRS, read_form
from rejoinder.forms.draft import defaults_of, draft_of
from rejoinder.forms.fields import field_tree
from rejoinder.forms.schema import check_schema
from rejoinder.forms.shape import same
from rejoinder.forms.submit import read_submission, row_count

CASES = json.loads(Path(__file__).with_name("cases.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_golden_cases(case: dict[str, Any]) -> None:
    schema = check_schema(case["schema"])
    read = read_submission({"schema": schema}, [(name, text) for name, text in case["pairs"]])
    assert same(read.value, case["value"]), read.value
    assert list(read.errors.items()) == list(case.get("errors", {}).items())
    assert not read.edit
    if "draft" in case:
        assert read.draft == case["draft"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_echo_reads_as_the_same(case: dict[str, Any]) -> None:
    """A page drawn again from the echo and sent unchanged means what was sent before."""
    schema = check_schema(case["schema"])
    first = read_submission({"schema": schema}, [(name, text) for name, text in case["pairs"]])
    again = read_submission(
        {"schema": schema}, [(name, text) for name, texts in first.draft.items() for text in texts]
    )
    assert (again.value, again.errors, again.draft) == (first.value, first.errors, first.draft)


ROWS = check_schema(
    {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]},
            }
        },
    }
)


def test_one_more_row_is_no_answer() -> None:
    (rows,) = field_tree(ROWS)
    read = read_submission({"schema": ROWS}, [(rows.row(0).children[0].name, "a"), (rows.add_name, "")])
    assert read.edit
    assert read.added == rows.name
    assert read.errors == {}
    assert row_count(read.draft, rows.name) == 1


def test_a_row_taken_away_is_no_answer() -> None:
    (rows,) = field_tree(ROWS)
    pairs = [(rows.row(index).children[0].name, str(index)) for index in range(3)]
    read = read_submission({"schema": ROWS}, [*pairs, (rows.row(1).remove_name, "")])
    assert read.edit
    assert read.added is None
    assert read.value == {"items": [{"n": "0"}, {"n": "2"}]}
    assert row_count(read.draft, rows.name) == 2


def test_too_many_pairs() -> None:
    with pytest.raises(TooLargeError):
        read_form(ROWS, [("x", "y")] * (MAX_PAIRS + 1))


def test_what_cannot_be_kept_is_said() -> None:
    schema = check_schema({"type": "object", "properties": {"a": {"type": "string"}}})
    read = read_submission({"schema": schema}, [("f.a", "x\x00")])
    assert read.errors == {"": "This cannot be kept: it holds a NUL character"}


def test_defaults_are_drawn_and_open_places_stay_open() -> None:
    schema = check_schema(
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "default": "x"},
                "b": {"type": ["string", "null"], "default": None},
                "c": {"type": "array", "items": {"type": "string"}},
                "d": {
                    "type": "object",
                    "properties": {"e": {"type": "boolean", "default": False}, "g": {"type": "integer"}},
                    "required": ["g"],
                },
            },
            "required": ["c", "d"],
        }
    )
    assert defaults_of(schema) == [("f.a", "x"), ("f.d.e", "false")]


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=4).filter(
    lambda name: name != "__proto__"
)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.none() | st.booleans() | NUMBERS | TEXTS
ANYTHING = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
Pair = tuple[dict[str, Any], st.SearchStrategy[Any]]


def leaves() -> st.SearchStrategy[Pair]:
    """A subschema, and what produces values that fit it."""
    moments = st.builds(
        lambda moment, fraction, zone: moment.strftime("%Y-%m-%dT%H:%M:%S") + fraction + zone,
        st.datetimes(min_value=__import__("datetime").datetime(1000, 1, 1)),
        st.sampled_from(["", ".5", ".123456"]),
        st.sampled_from(["Z", "+00:00", "-05:30"]),
    )
    fixed: list[Pair] = [
        ({"type": "string"}, TEXTS),
        ({"type": "string", "maxLength": 900}, TEXTS),
        ({"type": "integer"}, st.integers(-(10**60), 10**60)),
        ({"type": "number"}, NUMBERS),
        ({"type": "boolean"}, st.booleans()),
        ({"type": "string", "format": "date-time"}, moments),
        ({"type": "string", "format": "date"}, st.dates().map(str)),
        ({"type": "string", "format": "time"}, st.times().map(lambda time: time.strftime("%H:%M"))),
        ({"const": True}, st.just(True)),
        ({"const": "v1"}, st.just("v1")),
        ({}, ANYTHING),
        ({"type": ["integer", "string"]}, st.integers() | TEXTS),
        ({"type": "object"}, st.dictionaries(NAMES, ANYTHING, max_size=3)),
        ({"anyOf": [{"type": "integer"}, {"type": "array", "items": {}}]}, st.integers() | st.lists(ANYTHING, max_size=2)),
        ({"type": "array", "items": {"type": "string"}}, st.lists(TEXTS, max_size=3)),
        ({"type": "array", "items": {"type": "number"}}, st.lists(NUMBERS, max_size=3)),
        ({"type": "array", "items": {"type": "boolean"}}, st.lists(st.booleans(), max_size=3)),
    ]  # fmt: skip
    values = st.lists(
        ANYTHING, min_size=1, max_size=7, unique_by=lambda value: json.dumps(value, sort_keys=True)
    )
    enums: st.SearchStrategy[Pair] = values.map(lambda found: ({"enum": found}, st.sampled_from(found)))
    titled: st.SearchStrategy[Pair] = st.lists(TEXTS, min_size=1, max_size=7, unique=True).map(
        lambda found: (
            {"oneOf": [{"const": one, "title": one.upper()} for one in found]},
            st.sampled_from(found),
        )
    )
    several: st.SearchStrategy[Pair] = st.lists(TEXTS, min_size=1, max_size=7, unique=True).map(
        lambda found: (
            {"type": "array", "items": {"enum": found}},
            st.lists(st.sampled_from(found), max_size=3),
        )
    )
    return st.sampled_from(fixed) | enums | titled | several


def wider(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    nullable: st.SearchStrategy[Pair] = inner.map(
        lambda pair: ({"anyOf": [pair[0], {"type": "null"}]}, pair[1] | st.none())
    )
    lists: st.SearchStrategy[Pair] = inner.map(
        lambda pair: ({"type": "array", "items": pair[0]}, st.lists(pair[1], max_size=3))
    )
    return objects(inner) | nullable | lists


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Pair]) -> Pair:
    members = draw(st.dictionaries(NAMES, st.tuples(inner, st.booleans()), max_size=4))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: pair[0] for name, (pair, _) in members.items()},
        "required": [name for name, (_, required) in members.items() if required],
    }
    values = st.fixed_dictionaries(
        {name: pair[1] for name, (pair, required) in members.items() if required},
        optional={name: pair[1] for name, (pair, required) in members.items() if not required},
    )
    more = draw(st.sampled_from([None, True, False]))
    if more is not None:
        schema["additionalProperties"] = more
    if more:
        values = st.tuples(st.dictionaries(NAMES, ANYTHING, max_size=2), values).map(
            lambda both: both[0] | both[1]
        )
        schema["additionalProperties"] = {}
    return schema, values


@given(data=st.data())
def test_what_is_written_is_read_again(data: st.DataObject) -> None:
    """For schemas of every shape and values that fit them, property by property and nested."""
    schema, values = data.draw(objects(st.recursive(leaves(), wider, max_leaves=5)))
    value = data.draw(values)
    schema = check_schema(schema)
    pairs = draft_of(schema, value)
    read, faults, draft = read_form(schema, pairs)
    assert faults == {}
    assert same(read, value), (read, value, pairs)
    echoed, _, _ = read_form(schema, [(name, text) for name, texts in draft.items() for text in texts])
    assert same(echoed, value)
    # An empty text in a field of the form's own is no answer: it counts as left open.
    if not clashes(schema, value) and same(as_kept("form", {"schema": schema}, value), value):
        check_answer("form", {"schema": schema}, read)


def clashes(schema: dict[str, Any], value: dict[str, Any]) -> bool:
    """Properties beyond the named ones may have been drawn with the name of an optional one."""
    return schema.get("additionalProperties") == {} or '"additionalProperties": {}' in json.dumps(schema)


@given(data=st.data())
def test_junk_never_breaks_the_reading(data: st.DataObject) -> None:
    schema, _ = data.draw(objects(st.recursive(leaves(), wider, max_leaves=4)))
    schema = check_schema(schema)

    def names(fields: Any) -> list[str]:
        found: list[str] = []
        for field in fields:
            found += [field.name, field.keep_name, field.name + "@", field.name + ".[0]", field.name + ".[*]"]
            found += names(field.children) + (names([field.row(3)]) if field.control == "rows" else [])
        return found

    keys = st.sampled_from(["f", *names(field_tree(schema))]) | TEXTS
    pairs = data.draw(
        st.lists(
            st.tuples(keys, TEXTS | st.sampled_from(["1", "true", "[", "{}", "null", "1e9"])), max_size=8
        )
    )
    read = read_submission({"schema": schema}, pairs)
    assert isinstance(read.value, dict) or read.errors
