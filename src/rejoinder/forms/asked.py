"""A form as it is asked: its schema, what is filled in already, its pages and the sender's words, checked together.

The result is a question's ``format_payload``: ``{"schema", "data"?, "pages"?, "wording"?}``. Options that are given for
one question are written into the schema, so that whoever reads it knows what is accepted; their labels stay in
``data.options``.
"""

from __future__ import annotations

from typing import Any

from rejoinder.contract.errors import AskArgumentError
from rejoinder.contract.text import unstorable
from rejoinder.forms.engine import compiled
from rejoinder.forms.faults import faults
from rejoinder.forms.fields import field_tree
from rejoinder.forms.pages import check_pages
from rejoinder.forms.paths import dotted
from rejoinder.forms.schema import check_schema
from rejoinder.forms.shape import Recursive, Shapes
from rejoinder.forms.wording import check_wording

MAX_CHOICES = 200
MAX_CHOICE = 1_000


def form_payload(
    schema: object, *, data: object = None, pages: object = None, wording: object = None
) -> dict[str, Any]:
    """Raises AskArgumentError; ``field`` is the parameter, or the place inside it."""
    plain = check_schema(schema, field="schema")
    payload: dict[str, Any] = {"schema": plain}
    if data is not None:
        given = _data(data)
        if "options" in given:
            plain = payload["schema"] = check_schema(
                _with_options(plain, given["options"]), field="data.options"
            )
        if "values" in given:
            _check_values(plain, given["values"])
        payload["data"] = given
    if pages is not None:
        payload["pages"] = check_pages(pages, plain)
    words = check_wording(wording, "form", plain)
    if words is not None:
        payload["wording"] = words
    return payload


def names_of(schema: dict[str, Any]) -> list[str]:
    """The form's own fields, in its order; empty where the form is one JSON value."""
    return [str(one.path[0]) for one in field_tree(schema) if len(one.path) == 1]


def _data(data: object) -> dict[str, Any]:
    dump = getattr(data, "model_dump", None)
    given = dump(exclude_none=True) if callable(dump) else data
    if not isinstance(given, dict) or not given:
        raise _refuse("data", "it must be an object with values, options or both")
    for name in given:
        if name not in ("values", "options"):
            raise _refuse(f"data.{name}", "data takes values and options only")
    for name, inner in given.items():
        if not isinstance(inner, dict) or not inner:
            raise _refuse(f"data.{name}", "it must be an object with one entry a field")
    reason = unstorable(given)
    if reason is not None:
        raise _refuse("data", reason)
    return given


def _check_values(schema: dict[str, Any], values: dict[str, Any]) -> None:
    """Each value by itself must be one that its field takes; what is not filled in yet is not missed."""
    known = names_of(schema)
    for name in values:
        if name not in known:
            raise _refuse(f"data.values.{name}", "the form has no such field")
    ready = compiled(schema)
    found = faults(ready.validator.iter_errors(values), values)
    found = {**dict(ready.rules.faults(values, set())), **found}
    for path, fault in found.items():
        if path and path[0] in values:
            raise _refuse(f"data.values.{dotted(path)}", fault.sentence)


def _with_options(schema: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    properties = dict(schema.get("properties", {}))
    for name, choices in options.items():
        place = f"data.options.{name}"
        if not isinstance(properties.get(name), dict):
            raise _refuse(place, "the form has no such field")
        values = _choices(choices, place)
        try:
            node, _ = Shapes(schema).flat(properties[name], frozenset())
            if node.get("type") == "array":
                items, _ = Shapes(schema).flat(node.get("items"), frozenset())
                properties[name] = node | {"items": _limited(items, values, place)}
            else:
                properties[name] = _limited(node, values, place)
        except Recursive:
            raise _refuse(place, "the field is neither a text nor a list of texts") from None
    return schema | {"properties": properties}


def _limited(node: dict[str, Any], values: list[str], place: str) -> dict[str, Any]:
    if node.get("type") != "string":
        raise _refuse(place, "the field is neither a text nor a list of texts")
    limited = {key: value for key, value in node.items() if key != "default" or value in values}
    return limited | {"enum": values}


def _choices(choices: object, place: str) -> list[str]:
    if not isinstance(choices, list) or not choices or len(choices) > MAX_CHOICES:
        raise _refuse(place, f"it must be a list of 1 to {MAX_CHOICES} options")
    values: list[str] = []
    for index, one in enumerate(choices):
        here = f"{place}[{index}]"
        if not isinstance(one, dict) or "value" not in one:
            raise _refuse(here, "it must be an object with value, and label and description if wanted")
        for key, text in one.items():
            if key not in ("value", "label", "description"):
                raise _refuse(f"{here}.{key}", "an option takes value, label and description only")
            if not isinstance(text, str) or not text.strip() or len(text) > MAX_CHOICE:
                raise _refuse(f"{here}.{key}", f"it must be text of 1 to {MAX_CHOICE:,} characters")
        if one["value"] in values:
            raise _refuse(f"{here}.value", "it is there twice")
        values.append(one["value"])
    return values


def _refuse(place: str, reason: str) -> AskArgumentError:
    return AskArgumentError(f"{place}: {reason}.", field=place)
