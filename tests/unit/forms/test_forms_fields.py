"""What a page draws for each kind of subschema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from rejoinder.forms import field as model
from rejoinder.forms.fields import MAX_FIELDS, field_tree
from rejoinder.forms.schema import check_schema

FRUIT = ["apple", "pear", "plum", "fig", "kiwi", "lime"]

CONTROLS: list[tuple[Any, str, dict[str, Any]]] = [
    ({"type": "string"}, "text", {"input_type": "text", "nullable": False}),
    ({"type": "string", "format": "email"}, "text", {"input_type": "email"}),
    ({"type": "string", "format": "uri"}, "text", {"input_type": "url"}),
    ({"type": "string", "format": "date"}, "text", {"input_type": "date", "zone_name": None}),
    ({"type": "string", "format": "time"}, "text", {"input_type": "time"}),
    ({"type": "string", "format": "date-time"}, "text", {"input_type": "datetime-local", "zone_name": "f.x@"}),
    ({"type": "string", "format": "something"}, "text", {"input_type": "text"}),
    ({"type": "string", "inputMode": "tel"}, "text", {"input_mode": "tel"}),
    ({"type": "string", "maxLength": 40}, "text", {"limits": {"max_length": 40}}),
    ({"type": "string", "maxLength": 4000}, "textarea", {"limits": {"max_length": 4000}}),
    ({"type": "string", "control": "textarea"}, "textarea", {}),
    ({"type": "string", "default": "a\nb"}, "textarea", {"default": "a\nb"}),
    ({"type": "integer", "minimum": 1, "exclusiveMaximum": 9}, "integer", {"limits": {"minimum": 1, "below": 9}}),
    ({"type": "number", "multipleOf": 0.5}, "number", {"limits": {"multiple_of": 0.5}}),
    ({"type": ["integer", "number"]}, "number", {}),
    ({"minimum": 3}, "number", {}),
    ({"pattern": "a"}, "text", {}),
    ({"type": "boolean"}, "boolean", {}),
    ({"enum": [True, False]}, "boolean", {}),
    ({"enum": FRUIT[:5]}, "radios", {}),
    ({"enum": FRUIT}, "select", {}),
    ({"oneOf": [{"const": 1, "title": "One"}, {"const": 2}]}, "radios", {}),
    ({"anyOf": [{"enum": ["a"]}, {"enum": ["b", "c"]}]}, "radios", {}),
    ({"const": True}, "checkbox", {}),
    ({"const": "x"}, "radios", {}),
    ({"type": "array", "items": {"enum": FRUIT}}, "checkboxes", {}),
    ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, "checkboxes", {}),
    ({"type": "array", "items": {"type": "string"}, "maxItems": 3}, "lines", {"limits": {"max_items": 3}}),
    ({"type": "array", "items": {"type": "integer"}}, "lines", {}),
    ({"type": "array", "items": {"type": "object", "properties": {"a": {}}}}, "rows", {}),
    ({"type": "object", "properties": {"a": {}}}, "group", {}),
    ({"type": "object", "properties": {}, "additionalProperties": False}, "group", {"children": ()}),
    ({"type": ["string", "null"]}, "text", {"nullable": True}),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "T"}, "integer", {"nullable": True, "label": "T"}),
    ({"enum": ["a", None]}, "radios", {"nullable": True}),
    ({"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "null"}]}, "group", {"nullable": True}),
    ({"$ref": "#/$defs/size", "description": "ours"}, "radios", {"label": "Size", "description": "ours"}),
    ({"allOf": [{"$ref": "#/$defs/size"}], "title": "Mine"}, "radios", {"label": "Mine"}),
    ({"oneOf": [{"type": "object", "properties": {"a": {}}}, {"$ref": "#/$defs/thing"}]}, "group", {}),
    ({}, "json", {"takes_text": True}),
    (True, "json", {"takes_text": True}),
    ({"type": "object"}, "json", {"takes_text": False}),
    ({"type": "object", "additionalProperties": {"type": "string"}}, "json", {"takes_text": False}),
    ({"type": ["integer", "string"]}, "json", {"takes_text": True}),
    ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, "json", {"takes_text": False}),
    ({"type": "array"}, "json", {"takes_text": False}),
    ({"type": "array", "items": {"type": "array", "items": {}}}, "json", {}),
    ({"type": "array", "prefixItems": [{"type": "string"}]}, "json", {}),
    ({"type": "array", "items": {"type": ["string", "null"]}}, "json", {}),
    ({"$ref": "#/$defs/node"}, "group", {}),
]  # fmt: skip
DEFINITIONS = {
    "size": {"enum": ["S", "M"], "title": "Size", "description": "theirs"},
    "thing": {"type": "object", "properties": {"b": {"type": "string"}}},
    "node": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "next": {"$ref": "#/$defs/node", "title": "Next"},
            "all": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        },
    },
}


def drawn(subschema: Any) -> model.Field:
    schema = {"type": "object", "properties": {"x": subschema}, "$defs": DEFINITIONS}
    (field,) = field_tree(check_schema(schema))
    return field


@pytest.mark.parametrize(("subschema", "control", "members"), CONTROLS)
def test_each_kind_has_its_control(subschema: Any, control: str, members: dict[str, Any]) -> None:
    field = drawn(subschema)
    assert (field.name, field.path, field.dotted, field.control) == ("f.x", ("x",), "x", control)
    for name, value in members.items():
        assert getattr(field, name) == value


def test_options() -> None:
    field = drawn(
        {"oneOf": [{"const": 1, "title": "One", "description": "first"}, {"const": "b"}, {"const": False}]}
    )
    assert [(one.value, one.label, one.description) for one in field.options] == [
        ("1", "One", "first"),
        ('"b"', "b", None),
        ("false", "No", None),
    ]


def test_a_recursive_part_is_drawn_once_and_then_as_json() -> None:
    field = drawn({"$ref": "#/$defs/node"})
    assert [(child.control, child.label) for child in field.children] == [
        ("text", "name"),
        ("json", "Next"),
        ("json", "all"),
    ]


def test_alternatives_share_one_group() -> None:
    field = drawn(
        {
            "oneOf": [
                {"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind", "n"]},
                {"type": "object", "properties": {"kind": {"const": "b"}, "n": {"type": "string"}, "m": {}}, "required": ["kind"]},
            ]
        }
    )  # fmt: skip
    assert [(child.path[-1], child.control, child.required) for child in field.children] == [
        ("kind", "radios", True),
        ("n", "json", False),
        ("m", "json", False),
    ]


def test_what_may_be_insisted_on() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    schema = {
        "type": "object",
        "properties": {
            "must": inner,
            "may": inner,
            "rows": {"type": "array", "items": inner},
            "undeclared": {"type": "object", "required": ["z"]},
        },
        "required": ["must", "rows", "undeclared"],
    }
    must, may, rows, undeclared = field_tree(check_schema(schema))
    assert (must.children[0].required, must.children[0].demanded) == (True, True)
    assert (may.children[0].required, may.children[0].demanded) == (True, False)
    row = rows.row(0)
    assert (row.required, row.children[0].required, row.children[0].demanded) == (False, True, False)
    assert (undeclared.children[0].name, undeclared.children[0].control) == ("f.undeclared.z", "json")


def test_rows_are_numbered_at_every_level() -> None:
    inner = {"type": "array", "items": {"type": "object", "properties": {"c.d": {"type": "string"}}}}
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"b": inner}}}},
    }
    (outer,) = field_tree(check_schema(schema))
    leaf = outer.row(2).children[0].row(11).children[0]
    assert (leaf.name, leaf.path, leaf.dotted) == (
        "f.a.[2].b.[11].c%2Ed",
        ("a", 2, "b", 11, "c.d"),
        "a.2.b.11.c\\.d",
    )
    assert outer.row(2).remove_name == "f.a.[2]~"
    assert outer.add_name == "f.a.[+]"


def every(fields: Iterable[model.Field]) -> list[model.Field]:
    found: list[model.Field] = []
    for field in fields:
        found.append(field)
        found += every(field.children)
        if field.item is not None:
            found += every([field.item])
    return found


def test_names_never_meet() -> None:
    odd = [
        "a",
        "a.b",
        "b",
        "[0]",
        "[*]",
        "+",
        "!",
        "a!",
        "a@",
        "",
        ".",
        "%2E",
        "é",
        "e\u0301",
        "A",
        "-",
        "a-",
    ]
    properties = {name: {"type": "object", "properties": {inner: {} for inner in odd}} for name in odd}
    fields = every(field_tree(check_schema({"type": "object", "properties": properties})))
    used = [
        name
        for field in fields
        for name in (field.name, field.keep_name, field.name + "@", field.remove_name)
    ]
    assert len(set(used)) == len(used) == 4 * (len(odd) + len(odd) ** 2)
    assert len({field.dotted for field in fields}) == len(fields)


def test_a_schema_that_unfolds_without_end_is_drawn_in_bounds() -> None:
    definitions = {
        f"d{n}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/$defs/d{n + 1}"} for side in ("left", "right", "middle")},
        }
        for n in range(30)
    }
    definitions["d30"] = {"type": "object", "properties": {"x": {"type": "string"}}}
    schema = check_schema(
        {"type": "object", "$defs": definitions, "properties": {"a": {"$ref": "#/$defs/d0"}}}
    )
    assert len(every(field_tree(schema))) <= MAX_FIELDS


class Item(BaseModel):
    sku: str
    count: int = Field(default=1, ge=1, title="How many")


class Order(BaseModel):
    """Please check."""

    note: str | None = None
    speed: Literal["slow", "fast"] = "slow"
    items: list[Item]
    tags: set[Literal["gift", "fragile"]] = set()
    extra: dict[str, int] = {}


def test_a_model() -> None:
    fields = field_tree(check_schema(Order))
    assert [(one.label, one.control, one.required) for one in fields] == [
        ("Note", "text", False),
        ("Speed", "radios", False),
        ("Items", "rows", True),
        ("Tags", "checkboxes", False),
        ("Extra", "json", False),
    ]
    assert fields[0].nullable
    assert fields[1].default == "slow"
    assert [child.label for child in fields[2].row(0).children] == ["Sku", "How many"]


def test_any_object_is_one_json_control() -> None:
    (field,) = field_tree(check_schema({"type": "object", "title": "Anything"}))
    assert (field.name, field.path, field.control, field.label) == ("f", (), "json", "Anything")
