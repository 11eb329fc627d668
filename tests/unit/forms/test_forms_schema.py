"""Which schemas are taken, and that none of the others costs anything."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, Field

from rejoinder.contract.errors import AnswerMismatchError, AskArgumentError
from rejoinder.forms import engine
from rejoinder.forms.answers import check_answer
from rejoinder.forms.schema import DRAFT, MAX_PROPERTIES, check_schema


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def doubling(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, levels):
        definitions[f"d{level}"] = {"allOf": [{"$ref": f"#/$defs/d{level - 1}"}] * 2}
    return {
        "type": "object",
        "$defs": definitions,
        "properties": {"x": {"$ref": f"#/$defs/d{levels - 1}"}},
    }


def chain(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(levels)}
    definitions[f"d{levels}"] = {"type": "string"}
    return {"type": "object", "$defs": definitions, "properties": {"x": {"$ref": "#/$defs/d0"}}}


REFUSED: list[tuple[str, Any, str]] = [
    ("not a schema", "string", "#"),
    ("a list", [], "#"),
    ("none", None, "#"),
    ("a boolean", True, "#"),
    ("a class that is no model", int, "#"),
    ("no object", {"type": "string"}, "#"),
    ("anything", {}, "#"),
    ("object or null", {"type": ["object", "null"]}, "#"),
    ("an alternative that is no object", {"anyOf": [{"type": "object"}, {"type": "string"}]}, "#"),
    ("wrong type name", obj(a={"type": "strin"}), "#/properties/a/type"),
    ("required is no list", {"type": "object", "required": "a"}, "#/required"),
    ("name with a slash", obj(**{"a/b~": {"type": 1}}), "#/properties/a~1b~0/type"),
    ("http reference", obj(a={"$ref": "http://127.0.0.1:9/x"}), "#/properties/a/$ref"),
    ("metadata service", {"type": "object", "$ref": "http://169.254.169.254/"}, "#/$ref"),
    ("file reference", obj(a={"$ref": "file:///etc/passwd"}), "#/properties/a/$ref"),
    ("relative reference", obj(a={"$ref": "other.json"}), "#/properties/a/$ref"),
    ("dangling reference", obj(a={"$ref": "#/$defs/none"}), "#/properties/a/$ref"),
    ("reference to data", obj(a={"$ref": "#/properties/b/const"}, b={"const": {"pattern": "(?=a)"}}), "$ref"),
    ("no such anchor", obj(a={"$ref": "#none"}), "#/properties/a/$ref"),
    ("anchor twice", obj(a={"$anchor": "x"}, b={"$anchor": "x"}), "/$anchor"),
    ("dynamic reference", obj(a={"$dynamicRef": "#x"}), "#/properties/a/$dynamicRef"),
    ("dynamic anchor", obj(a={"$dynamicAnchor": "x"}), "#/properties/a/$dynamicAnchor"),
    ("recursive reference", obj(a={"$recursiveRef": "#"}), "#/properties/a/$recursiveRef"),
    ("other draft", {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}, "#/$schema"),
    ("unknown draft", {"$schema": "http://127.0.0.1:9/x", "type": "object"}, "#/$schema"),
    ("draft that is no text", {"$schema": 7, "type": "object"}, "#/$schema"),
    ("inner $id", obj(a={"$id": "http://x/y"}), "#/properties/a/$id"),
    ("inner $schema", obj(a={"$schema": DRAFT}), "#/properties/a/$schema"),
    ("look-ahead", obj(a={"pattern": "^(?=a)b"}), "#/properties/a/pattern"),
    ("look-behind", obj(a={"pattern": "(?<=a)b"}), "#/properties/a/pattern"),
    ("back-reference", obj(a={"pattern": r"(a)\1"}), "#/properties/a/pattern"),
    ("broken pattern", obj(a={"pattern": "("}), "#/properties/a/pattern"),
    ("huge repetition", obj(a={"pattern": r"(\w{1000}){1000}"}), "#/properties/a/pattern"),
    (
        "look-ahead in a name",
        {"type": "object", "patternProperties": {"(?!a)": {}}},
        "#/patternProperties/(?!a)",
    ),
    (
        "pattern in a definition",
        {"type": "object", "$defs": {"d": {"pattern": "(?=a)"}}},
        "#/$defs/d/pattern",
    ),
    ("too large", obj(a={"description": "x" * 70_000}), "#"),
    ("too deep", nested(20), "/properties/a"),
    ("far too deep", nested(5_000), "#"),
    ("too many properties", obj(**{f"p{n}": {} for n in range(MAX_PROPERTIES + 1)}), "#/properties"),
    ("too many patterns", obj(**{f"p{n}": {"pattern": "a"} for n in range(65)}), "pattern"),
    ("NUL", obj(a={"title": "a\x00b"}), "#"),
    ("lone surrogate", obj(**{"\ud800": {}}), "#"),
    ("not finite", obj(a={"minimum": float("nan")}), "#"),
    ("infinite", obj(a={"default": float("inf")}), "#"),
    ("a key that is no text", {"type": "object", 1: 2}, "#"),
    ("a value that is no JSON", obj(a={"default": object()}), "#"),
    ("prototype", obj(__proto__={}), "#/properties/__proto__"),
    ("itself", {"type": "object", "$ref": "#"}, "#"),
    ("itself by allOf", {"type": "object", "allOf": [{"$ref": "#"}]}, "#/allOf/0"),
    (
        "round in a circle",
        {
            "type": "object",
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}},
            "properties": {"x": {"$ref": "#/$defs/a"}},
        },
        "#/$defs",
    ),
    ("doubling", doubling(25), "#"),
    ("long chain", chain(200), "#"),
    (
        "sixfold recursion",
        obj(a={"anyOf": [{"$ref": "#"}] * 6}),
        "#",
    ),
]


@pytest.mark.parametrize(
    ("schema", "place"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_refused_naming_the_place(schema: Any, place: str) -> None:
    with pytest.raises(AskArgumentError) as caught:
        check_schema(schema, field="form")
    assert caught.value.field == "form"
    assert caught.value.status == 400
    assert place in caught.value.message
    assert "object at 0x" not in caught.value.message
    assert len(caught.value.message) < 1_000


TAKEN: list[tuple[str, dict[str, Any]]] = [
    ("empty object", {"type": "object"}),
    ("without a type", {"properties": {"a": {}}}),
    ("draft named", {"$schema": DRAFT, "type": "object"}),
    ("draft with a fragment", {"$schema": DRAFT + "#", "type": "object"}),
    ("own id", {"$id": "https://example.com/s", "type": "object"}),
    ("property called $ref", obj(**{"$ref": {"type": "string"}, "$id": {}, "$schema": {}})),
    ("reference in data", obj(a={"const": {"$ref": "http://127.0.0.1:9/x"}}, b={"default": {"$id": "x"}})),
    ("anchor", {"type": "object", "$defs": {"x": {"$anchor": "y"}}, "properties": {"a": {"$ref": "#y"}}}),
    (
        "odd names",
        {
            "type": "object",
            "$defs": {"a b": {}, "é/~": {}},
            "properties": {"p": {"$ref": "#/$defs/a b"}, "q": {"$ref": "#/$defs/é~1~0"}},
        },
    ),
    (
        "definitions",
        {"type": "object", "definitions": {"x": {}}, "properties": {"a": {"$ref": "#/definitions/x"}}},
    ),
    ("evil but linear pattern", obj(a={"pattern": "^(a+)+$"})),
    ("unicode classes", obj(a={"pattern": r"^\p{L}{1,64}$"})),
    ("tree", obj(left={"$ref": "#"}, right={"$ref": "#"})),
    ("twofold recursion", obj(a={"anyOf": [{"$ref": "#"}] * 2})),
    (
        "alternatives that are objects",
        {"anyOf": [{"type": "object"}, {"$ref": "#/$defs/x"}], "$defs": {"x": obj()}},
    ),
]


@pytest.mark.parametrize("schema", [case[1] for case in TAKEN], ids=[case[0] for case in TAKEN])
def test_taken_and_usable(schema: dict[str, Any]) -> None:
    before = repr(schema)
    checked = check_schema(schema)
    assert repr(schema) == before
    assert checked is not schema
    assert "$id" not in checked
    assert check_schema(checked) == checked
    assert check_answer("form", {"schema": checked}, {}) == {}


class Address(BaseModel):
    street: str = Field(min_length=1)


class Person(BaseModel):
    name: str
    home: Address | None = None
    friends: list[Person] = []


def test_a_model_is_taken() -> None:
    schema = check_schema(Person)
    payload = {"schema": schema}
    check_answer("form", payload, {"name": "A", "friends": [{"name": "B"}], "home": {"street": "S"}})
    with pytest.raises(AnswerMismatchError) as caught:
        check_answer("form", payload, {"name": "A", "friends": [{"name": "B", "home": {"street": ""}}]})
    assert caught.value.field == "friends.0.home.street"


def test_a_model_without_a_schema_is_refused() -> None:
    class Odd(BaseModel):
        model_config = {"arbitrary_types_allowed": True}
        thing: socket.socket

    with pytest.raises(AskArgumentError, match="Odd"):
        check_schema(Odd)


@pytest.fixture
def sealed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A listening socket that must not be connected to, and a file that must not be opened."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        touched: list[str] = []
        yield [f"http://127.0.0.1:{server.getsockname()[1]}/x"]
        try:
            server.accept()
            touched.append("connected")
        except BlockingIOError:
            pass
        assert not touched


@pytest.mark.parametrize(
    "shape",
    [
        lambda uri: obj(a={"$ref": uri}),
        lambda uri: {"type": "object", "$ref": uri},
        lambda uri: {"$schema": uri, "type": "object"},
        lambda uri: obj(a={"$schema": uri, "$id": uri}),
        lambda uri: {"$id": uri, "type": "object", "properties": {"a": {"$ref": "y"}}},
        lambda uri: obj(a={"$dynamicRef": uri}),
        lambda uri: {"type": "object", "x-other": {"$ref": uri}, "$defs": {"d": {"$ref": uri}}},
    ],
)
def test_nothing_is_fetched(shape: Any, sealed: list[str]) -> None:
    with pytest.raises(AskArgumentError):
        check_schema(shape(sealed[0]))


def test_the_validator_itself_fetches_nothing(sealed: list[str]) -> None:
    """The second wall: a schema that got past the check."""
    with pytest.raises(ValueError, match="not followed"):
        engine._make({"$ref": sealed[0]})


@pytest.mark.parametrize("shape", [0, 1, 2])
def test_no_file_is_read(shape: int, tmp_path: Any) -> None:
    """A pipe nobody writes to: reading it would hang until the test's time is up."""
    import os

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    uri = pipe.as_uri()
    with pytest.raises(AskArgumentError):
        check_schema(
            [obj(a={"$ref": uri}), {"type": "object", "$ref": uri}, {"$schema": uri, "type": "object"}][shape]
        )
