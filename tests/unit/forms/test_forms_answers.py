"""What is accepted as an answer, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.contract.errors import AnswerMismatchError
from rejoinder.forms.answers import check_answer
from rejoinder.forms.engine import is_time
from rejoinder.forms.schema import check_schema


def said(kind: str, payload: dict[str, Any] | None, answer: Any) -> str:
    """What is said of the answer; nothing where it is accepted."""
    try:
        check_answer(kind, payload, answer)
    except AnswerMismatchError as fault:
        return fault.message
    return ""


COLOURS = {"options": ["red", "green", "dark\nblue"]}


@pytest.mark.parametrize(
    ("kind", "payload", "answer"),
    [
        ("text", None, ""),
        ("text", {"options": ["a"]}, "something else"),
        ("confirm", None, True),
        ("confirm", None, False),
        ("select", COLOURS, "dark\nblue"),
        ("form", {"schema": {"type": "object"}}, {"a": [1, None, {"b": 2.5}]}),
    ],
)
def test_accepted(kind: str, payload: dict[str, Any] | None, answer: Any) -> None:
    assert check_answer(kind, payload, answer) == answer


@pytest.mark.parametrize(
    ("kind", "payload", "answer", "sentence"),
    [
        ("text", None, 1, "answer must be a string"),
        ("text", None, None, "answer must be a string"),
        ("text", None, "a\x00", "answer cannot be kept: it holds a NUL character"),
        ("text", None, "\ud800", "answer cannot be kept: it holds a lone surrogate"),
        ("confirm", None, 1, "answer must be a boolean"),
        ("confirm", None, "yes", "answer must be a boolean"),
        ("select", COLOURS, "Red", 'answer must be one of ["red", "green", "dark\\nblue"]'),
        ("select", COLOURS, ["red"], 'answer must be one of ["red", "green", "dark\\nblue"]'),
        ("select", COLOURS, None, 'answer must be one of ["red", "green", "dark\\nblue"]'),
        ("form", {"schema": {"type": "object"}}, [], "answer must be an object"),
        ("form", {"schema": {"type": "object"}}, None, "answer must be an object"),
        ("form", {"schema": {"type": "object"}}, {"a": float("nan")}, "answer cannot be kept: it holds a number that is not finite"),
        ("form", {"schema": {"type": "object"}}, {1: 2}, "answer cannot be kept: it holds a key that is not text"),
        ("external", None, {}, "external interactions are answered via their callback URL"),
    ],
)  # fmt: skip
def test_refused(kind: str, payload: dict[str, Any] | None, answer: Any, sentence: str) -> None:
    with pytest.raises(AnswerMismatchError) as caught:
        check_answer(kind, payload, answer)
    assert caught.value.message == sentence
    assert caught.value.field is None
    assert caught.value.status == 400


#: A schema for property ``x``, a value that does not fit it, and what is said.
SENTENCES: list[tuple[Any, Any, str]] = [
    ({"type": "integer"}, "a", "Enter a whole number"),
    ({"type": "integer"}, 1.5, "Enter a whole number"),
    ({"type": "integer"}, True, "Enter a whole number"),
    ({"type": "number"}, "a", "Enter a number"),
    ({"type": "boolean"}, 1, "Choose yes or no"),
    ({"type": "string"}, 1, "Enter text"),
    ({"type": "array"}, 1, "Enter a list"),
    ({"type": "object"}, 1, "Enter an object with named values"),
    ({"type": ["integer", "null"]}, "a", "Enter a whole number"),
    ({"type": ["integer", "string"]}, [], "Enter a whole number or text"),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "a", "Enter a whole number"),
    ({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]}, 1, "Enter a number of at least 3"),
    ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, "a", "Enter a whole number or yes or no"),
    ({"oneOf": [{"const": 1}, {"const": 2}]}, 3, "Choose one of the offered options"),
    ({"enum": ["a", "b"]}, "c", "Choose one of the offered options"),
    ({"const": "DELETE"}, "x", "This must be DELETE"),
    ({"pattern": "^a$"}, "b", "This is not in the expected form"),
    ({"type": ["string", "null"], "minLength": 1}, "", "This field is required"),
    ({"minLength": 2}, "a", "Enter at least 2 characters"),
    ({"maxLength": 1}, "ab", "Enter at most 1 character"),
    ({"minimum": 1.0}, 0, "Enter a number of at least 1"),
    ({"maximum": 2}, 3, "Enter a number of at most 2"),
    ({"exclusiveMinimum": 1}, 1, "Enter a number above 1"),
    ({"exclusiveMaximum": 1}, 1, "Enter a number below 1"),
    ({"multipleOf": 0.5}, 0.3, "Enter a multiple of 0.5"),
    ({"minItems": 1}, [], "Give at least 1 entry"),
    ({"maxItems": 2}, [1, 2, 3], "Give at most 2 entries"),
    ({"uniqueItems": True}, [1, 1], "Give each entry only once"),
    ({"contains": {"const": 1}}, [2], "At least one more entry must be of the kind that is asked for here"),
    ({"minProperties": 1}, {}, "Give at least 1 value"),
    ({"maxProperties": 0}, {"a": 1}, "Give at most 0 values"),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "One of the names is not accepted"),
    ({"not": {"const": 1}}, 1, "This value is not accepted"),
    ({"oneOf": [{"type": "string"}, {"minLength": 1}]}, "a", "This fits more than one of the accepted forms"),
    (False, 1, "This field is not part of the form"),
    ({"format": "email"}, "a@b", "Enter a valid email address"),
    ({"format": "email"}, "Bob <a@b.co>", "Enter a valid email address"),
    ({"format": "date"}, "2025-02-29", "Enter a date as YYYY-MM-DD"),
    ({"format": "time"}, "24:00", "Enter a time as HH:MM"),
    (
        {"format": "date-time"},
        "2025-02-01T10:00",
        "Enter a date and time with its time zone, such as 2030-01-31T14:00:00+01:00",
    ),
    ({"format": "uri"}, "example.com", "Enter a full web address, such as https://example.com"),
    ({"format": "uuid"}, "x", "Enter a UUID, such as 123e4567-e89b-12d3-a456-426614174000"),
]


@pytest.mark.parametrize(("schema", "value", "sentence"), SENTENCES)
def test_each_kind_of_fault_has_its_sentence(schema: Any, value: Any, sentence: str) -> None:
    payload = {"schema": check_schema({"type": "object", "properties": {"x": schema}})}
    with pytest.raises(AnswerMismatchError) as caught:
        check_answer("form", payload, {"x": value})
    assert caught.value.message == f"answer does not match schema at x: {sentence}"
    assert caught.value.field == "x"
    assert caught.value.errors == {"x": sentence}


def test_all_faults_in_the_order_of_the_schema() -> None:
    schema = check_schema(
        {
            "type": "object",
            "properties": {
                "zeta": {"type": "string"},
                "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
                "alpha": {"type": "integer"},
            },
            "required": ["alpha", "zeta"],
            "additionalProperties": False,
            "minProperties": 9,
            "$defs": {
                "item": {
                    "type": "object",
                    "properties": {"n.m": {"type": "integer"}, "a": {"type": "string"}},
                    "required": ["a"],
                }
            },
        }
    )
    with pytest.raises(AnswerMismatchError) as caught:
        check_answer("form", {"schema": schema}, {"items": [{}, {"a": 1, "n.m": "x"}], "other": 1})
    assert list(caught.value.errors.items()) == [
        ("zeta", "This field is required"),
        ("items.0.a", "This field is required"),
        ("items.1.n\\.m", "Enter a whole number"),
        ("items.1.a", "Enter text"),
        ("alpha", "This field is required"),
        ("other", "This field is not part of the form"),
        ("", "Give at least 9 values"),
    ]
    assert caught.value.field == "zeta"
    assert caught.value.as_problem()["errors"] == caught.value.errors


def test_a_fault_of_the_whole_form_names_no_field() -> None:
    with pytest.raises(AnswerMismatchError) as caught:
        check_answer("form", {"schema": {"type": "object", "minProperties": 2}}, {"a": 1})
    assert caught.value.message == "answer does not match schema: Give at least 2 values"
    assert caught.value.field is None


@pytest.mark.parametrize("name", ["0", "01", "-1", "a/b", "~1", "a.b", "é", "99999999999999999999", "[0]"])
def test_a_fault_is_found_at_any_name(name: str) -> None:
    schema = check_schema({"type": "object", "additionalProperties": {"items": {"type": "integer"}}})
    with pytest.raises(AnswerMismatchError) as caught:
        check_answer("form", {"schema": schema}, {name: [1, "x"]})
    assert caught.value.errors == {name.replace(".", "\\.") + ".1": "Enter a whole number"}


def test_an_empty_name_is_not_the_whole_form() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["c"]}
    schema = check_schema({"type": "object", "properties": {"": inner}, "minProperties": 2})
    with pytest.raises(AnswerMismatchError) as caught:
        check_answer("form", {"schema": schema}, {"": {"b": "x"}})
    assert caught.value.errors['"".b'] == "Enter a whole number"
    assert caught.value.errors[""] == "Give at least 2 values"


def test_the_alternative_that_was_meant_is_explained() -> None:
    schema = check_schema(
        {
            "type": "object",
            "properties": {
                "pay": {
                    "oneOf": [
                        {"properties": {"kind": {"const": "card"}, "number": {"type": "string"}}, "required": ["number"]},
                        {"properties": {"kind": {"const": "cash"}, "paid": {"type": "boolean"}}, "required": ["paid"]},
                    ]
                }
            },
        }
    )  # fmt: skip
    with pytest.raises(AnswerMismatchError) as caught:
        check_answer("form", {"schema": schema}, {"pay": {"kind": "cash", "number": "1"}})
    assert caught.value.errors == {"pay.paid": "This field is required"}


def deep(levels: int, key: str = "a") -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {key: value}
    return value


def wrong(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


TWOFOLD = {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
LINKED = {"type": "object", "properties": {"a": {"$ref": "#"}}}
ANY_JSON = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/json"}},
    "$defs": {
        "json": {
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": {"$ref": "#/$defs/json"}},
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/json"}},
            ]
        }
    },
}


@pytest.mark.parametrize("schema", [TWOFOLD, LINKED, ANY_JSON, {"type": "object"}])
@pytest.mark.parametrize("make", [deep, wrong])
@pytest.mark.parametrize("levels", [3, 8, 20, 60, 64, 70, 3_000])
def test_no_nesting_hangs_or_breaks_the_check(schema: Any, make: Any, levels: int) -> None:
    """The time-out of the test run is the bound: an unbounded check of these takes hours."""
    payload = {"schema": check_schema(schema)}
    assert len(said("form", payload, make(levels))) < 1_000


def test_ordinary_recursion_is_not_limited_below_the_common_depth() -> None:
    for schema in (LINKED, ANY_JSON):
        check_answer("form", {"schema": check_schema(schema)}, deep(60))


def test_a_flood_of_faults_is_cut() -> None:
    schema = check_schema(
        {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "string"}}}}
    )
    with pytest.raises(AnswerMismatchError) as caught:
        check_answer("form", {"schema": schema}, {"x": [1] * 20_000})
    assert 0 < len(caught.value.errors) <= 100


def test_an_evil_pattern_is_linear() -> None:
    schema = check_schema({"type": "object", "properties": {"x": {"pattern": "^(a+)+$"}}})
    with pytest.raises(AnswerMismatchError):
        check_answer("form", {"schema": schema}, {"x": "a" * 60_000 + "!"})


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"$ref": "http://127.0.0.1:9/"}, {"pattern": "(?=a)"}, {"type": 5}]
)
def test_a_stored_schema_that_cannot_be_processed_is_the_callers_fault(schema: Any) -> None:
    with pytest.raises(AnswerMismatchError):
        check_answer("form", {"schema": schema}, {"a": 1})


def test_large_whole_numbers_are_compared_exactly() -> None:
    schema = check_schema({"type": "object", "properties": {"x": {"type": "integer", "maximum": 10**30}}})
    check_answer("form", {"schema": schema}, {"x": 10**30})
    with pytest.raises(AnswerMismatchError):
        check_answer("form", {"schema": schema}, {"x": 10**30 + 1})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(kind=st.sampled_from(["text", "confirm", "select", "form", "external", ""]), answer=JSON)
def test_any_json_is_accepted_or_refused_with_a_sentence(kind: str, answer: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "minProperties": 1}
    text = said(kind, {"options": ["a"], "schema": schema}, answer)
    assert text == "" or text.startswith(("answer ", "questions ", "external interactions "))


@given(st.times())
def test_times_of_pickers_and_of_the_standard_are_times(value: Any) -> None:
    assert is_time(value.strftime("%H:%M"))
    assert is_time(value.isoformat() + "Z")
    assert is_time(value.isoformat(timespec="seconds") + "+02:00")


@pytest.mark.parametrize(
    "text", ["", "1:00", "25:00", "10:60", "10:00:61", "10:00 ", "１０:00", "10:00+1", "10:00\n"]
)
def test_other_texts_are_no_times(text: str) -> None:
    assert not is_time(text)
