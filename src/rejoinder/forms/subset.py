"""The part of JSON Schema that every channel can show: single values and lists of texts, one level deep.

A form for the inbox is free; one that goes to a channel is walked through this before anything is stored, so that
nobody is sent a form that cannot be filled in where they are.
"""

from __future__ import annotations

from typing import Any

from rejoinder.contract.errors import AskArgumentError
from rejoinder.forms.engine import compiled
from rejoinder.forms.walk import Path, SchemaFault

FORMATS = ("email", "date", "time", "date-time")
INPUT_MODES = ("text", "numeric", "decimal", "tel", "email", "url")
TYPES = ("string", "boolean", "integer", "number", "array")

_TEXT = {"minLength", "maxLength", "pattern", "format", "enum", "inputMode", "control"}
_DATE = {"minDate", "maxDate", "unavailableDates", "rangeStart", "minDays", "maxDays"}
_NUMBER = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
_LIST = {"items", "minItems", "maxItems", "uniqueItems"}
#: What says nothing about which values fit.
_NOTES = {
    "type", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment",
    "visibleWhen",
}  # fmt: skip
_ALLOWED: dict[str, set[str]] = {
    "string": _NOTES | _TEXT | _DATE | {"timeOf"},
    "boolean": _NOTES,
    "integer": _NOTES | _NUMBER,
    "number": _NOTES | _NUMBER,
    "array": _NOTES | _LIST,
}
_ITEM = (_NOTES | {"minLength", "maxLength", "pattern", "enum"}) - {"visibleWhen"}
_ROOT = {
    "type", "title", "description", "properties", "required", "additionalProperties", "$schema", "$id", "$comment",
    "examples", "default", "$defs",
}  # fmt: skip
_PAIRS = (
    ("minLength", "maxLength"),
    ("minimum", "maximum"),
    ("minItems", "maxItems"),
)


def check_channel_subset(schema: dict[str, Any], *, field: str = "schema") -> None:
    """Whether a form with this schema (one that ``check_schema`` took) can be sent over a channel.

    Raises AskArgumentError, which is a ValueError; its text names the property that cannot be sent.
    """
    try:
        _check_root(schema)
        for name, node in schema["properties"].items():
            _check_property(name, node)
        compiled(schema)
    except SchemaFault as fault:
        raise AskArgumentError(
            f"The form cannot be sent over a channel, at {fault.pointer}: {fault.reason}.", field=field
        ) from fault


def _check_root(schema: dict[str, Any]) -> None:
    if schema.get("type") != "object":
        raise SchemaFault(("type",), 'the root must have "type": "object"')
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        raise SchemaFault(("properties",), "the form has no fields")
    if "__proto__" in properties:
        raise SchemaFault(("properties", "__proto__"), "a property cannot be called __proto__")
    for keyword in schema:
        if keyword not in _ROOT:
            raise SchemaFault((keyword,), f"channels do not know {keyword}")
    if not isinstance(schema.get("additionalProperties", True), bool):
        raise SchemaFault(("additionalProperties",), "channels show declared fields only")
    required = schema.get("required", [])
    if not isinstance(required, list):
        raise SchemaFault(("required",), "it must be a list of field names")
    for index, name in enumerate(required):
        if name not in properties:
            raise SchemaFault(("required", index), f"{name} is required but is no field of the form")


def _check_property(name: str, node: Any) -> None:
    place: Path = ("properties", name)
    if not isinstance(node, dict):
        raise SchemaFault(place, "a field must say what it takes")
    kind = node.get("type")
    if kind not in TYPES or not isinstance(kind, str):
        known = ", ".join(TYPES)
        reason = "it has no type" if kind is None else "it is of a type that channels do not show"
        raise SchemaFault((*place, "type") if "type" in node else place, f"{reason}; use one of {known}")
    _check_keywords(node, _ALLOWED[kind], place, kind)
    _check_texts(node, place)
    _check_bounds(node, place)
    if kind == "string":
        _check_string(node, place)
    elif kind == "array":
        _check_list(node, place)


def _check_keywords(node: dict[str, Any], allowed: set[str], place: Path, kind: str) -> None:
    for keyword in node:
        if keyword not in allowed:
            raise SchemaFault((*place, keyword), f"channels do not know {keyword} on a field of type {kind}")


def _check_texts(node: dict[str, Any], place: Path) -> None:
    for keyword in ("title", "description"):
        if not isinstance(node.get(keyword, ""), str):
            raise SchemaFault((*place, keyword), "it must be text")


def _check_bounds(node: dict[str, Any], place: Path) -> None:
    for low, high in _PAIRS:
        if low in node and high in node and node[high] < node[low]:
            raise SchemaFault((*place, high), f"it is less than {low}, so that nothing fits")
    above, below = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
    least = max((one for one in (above, node.get("minimum")) if one is not None), default=None)
    most = min((one for one in (below, node.get("maximum")) if one is not None), default=None)
    if least is None or most is None:
        return
    open_ended = least == above or most == below
    if most < least or (most == least and open_ended):
        raise SchemaFault(place, "its bounds leave no number")


def _check_string(node: dict[str, Any], place: Path) -> None:
    if "enum" in node:
        _check_enum(node["enum"], (*place, "enum"))
        if "format" in node:
            raise SchemaFault((*place, "format"), "format does not go with enum")
    wanted = node.get("format")
    if wanted is not None and wanted not in FORMATS:
        raise SchemaFault(
            (*place, "format"), f"channels do not know this format; use one of {', '.join(FORMATS)}"
        )
    mode, control = node.get("inputMode"), node.get("control")
    if mode is not None:
        if mode not in INPUT_MODES:
            raise SchemaFault((*place, "inputMode"), f"it must be one of {', '.join(INPUT_MODES)}")
        if "enum" in node or "format" in node:
            raise SchemaFault(
                (*place, "inputMode"), "inputMode goes with plain text only, without enum and format"
            )
    if control is None:
        return
    if control == "chips":
        if "enum" not in node:
            raise SchemaFault((*place, "control"), "chips need an enum to choose from")
    elif control == "textarea":
        if mode is not None or "enum" in node or "format" in node:
            raise SchemaFault(
                (*place, "control"), "textarea goes with plain text only, without enum, format and inputMode"
            )
    else:
        raise SchemaFault((*place, "control"), "it must be chips or textarea")


def _check_list(node: dict[str, Any], place: Path) -> None:
    items = node.get("items")
    if not isinstance(items, dict) or items.get("type") != "string":
        raise SchemaFault((*place, "items"), 'a list must hold texts: "items": {"type": "string"}')
    _check_keywords(items, _ITEM, (*place, "items"), "array")
    _check_bounds(items, (*place, "items"))
    if "enum" in items:
        _check_enum(items["enum"], (*place, "items", "enum"))
        least = node.get("minItems", 0)
        if node.get("uniqueItems") is True and least > len(items["enum"]):
            raise SchemaFault((*place, "minItems"), "there are fewer options than that")


def _check_enum(options: Any, place: Path) -> None:
    if not isinstance(options, list) or not options or not all(isinstance(one, str) for one in options):
        raise SchemaFault(place, "it must be a list of texts that is not empty")
