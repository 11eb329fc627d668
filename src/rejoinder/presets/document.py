"""What one version of a preset says, read from what somebody sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pydantic_core import to_json

from rejoinder.contract.errors import BadInputError
from rejoinder.contract.text import unstorable, unstorable_text

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}", re.ASCII)
TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
MAX_DESCRIPTION = 10_000
#: Bytes of JSON of the fixed arguments, and of each schema.
MAX_BYTES = 65_536
MAX_TAGS = 32
MAX_EXTENSIONS = 8
#: What everybody with the write grant may change about a preset that fixes arguments: it changes no call.
FREE = frozenset(("description", "tags"))


@dataclass(frozen=True, slots=True)
class Document:
    """``fixed_kwargs`` are the pinned arguments, references to the environment as they were written. ``input_map`` and
    ``output_map`` are expressions over what the caller gave and what the base tool returned."""

    base_tool: str
    description: str
    fixed_kwargs: dict[str, Any] = field(default_factory=dict)
    extensions: list[Any] = field(default_factory=list)
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    input_map: str | None = None
    output_map: str | None = None
    tags: list[str] = field(default_factory=list)

    @property
    def pins(self) -> bool:
        return bool(self.fixed_kwargs)

    def as_json(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> Document:
        return cls(**{one.name: kept[one.name] for one in fields(cls) if one.name in kept})

    def changed(self, before: Document) -> list[str]:
        """The names of what differs; of the fixed arguments each one by its own name, such as
        ``fixed_kwargs.reference``. Never a value."""
        found = []
        for one in fields(self):
            ours, theirs = getattr(self, one.name), getattr(before, one.name)
            if one.name != "fixed_kwargs":
                # By their JSON: to Python, 1 and true are the same.
                if to_json(ours) != to_json(theirs):
                    found.append(one.name)
                continue
            found += [
                f"fixed_kwargs.{name}"
                for name in sorted(ours.keys() | theirs.keys())
                if name not in ours or name not in theirs or to_json(ours[name]) != to_json(theirs[name])
            ]
        return found


FIELDS = frozenset(one.name for one in fields(Document))


def new_document(body: Mapping[str, Any]) -> Document:
    """The document that the body of a creation holds. Raises BadInputError naming the field."""
    if body.get("extensions") == []:
        raise BadInputError(
            "extensions is an empty list; leave the field out where there are none", field="extensions"
        )
    for name in ("base_tool", "description"):
        if name not in body:
            raise BadInputError(f"{name} is missing", field=name)
    return replace(Document("", ""), **_read(body))


def changed_document(body: Mapping[str, Any], before: Document) -> Document:
    """``before`` with what the body of a saving holds in the place of the same: what is left out stays, ``fixed_kwargs``
    are replaced as a whole, and null takes a schema or a map off. Raises BadInputError naming the field."""
    given = {name: value for name, value in body.items() if name in FIELDS}
    if not given:
        raise BadInputError("give at least one field to save; nothing would change", field="body")
    return replace(before, **_read(given))


def checked_name(value: object, name: str = "name") -> str:
    if not isinstance(value, str) or NAME.fullmatch(value) is None:
        raise BadInputError(
            f"{name} must begin with a letter or _ and hold at most 128 letters, digits, _, . and -",
            field=name,
        )
    return value


def checked_tag(value: object, name: str = "tag") -> str:
    if not isinstance(value, str) or TAG.fullmatch(value) is None:
        raise BadInputError(
            f"{name} must begin with a letter or a digit and hold at most 64 letters, digits, _, . and -",
            field=name,
        )
    return value


def _read(body: Mapping[str, Any]) -> dict[str, Any]:
    readers = {
        "base_tool": checked_name,
        "description": _description,
        "fixed_kwargs": _object,
        "extensions": _extensions,
        "input_schema": _maybe_object,
        "output_schema": _maybe_object,
        "input_map": _expression,
        "output_map": _expression,
        "tags": _tags,
    }
    return {name: read(body[name], name) for name, read in readers.items() if name in body}


def _description(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadInputError(
            f"{name} must say what the tool does: it is all that a model knows of it", field=name
        )
    if len(value) > MAX_DESCRIPTION:
        raise BadInputError(f"{name} holds more than {MAX_DESCRIPTION} characters", field=name)
    if reason := unstorable_text(value):
        raise BadInputError(f"{name} cannot be stored: {reason}", field=name)
    return value


def _object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInputError(f"{name} must be an object", field=name)
    if reason := unstorable(value):
        raise BadInputError(f"{name} cannot be stored: {reason}", field=name)
    if len(to_json(value)) > MAX_BYTES:
        raise BadInputError(f"{name} holds more than {MAX_BYTES} bytes", field=name)
    return value


def _maybe_object(value: object, name: str) -> dict[str, Any] | None:
    return None if value is None else _object(value, name)


def _expression(value: object, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise BadInputError(f"{name} must be an expression, or null for none", field=name)
    if reason := unstorable_text(value):
        raise BadInputError(f"{name} cannot be stored: {reason}", field=name)
    return value


def _extensions(value: object, name: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_EXTENSIONS:
        raise BadInputError(f"{name} must be a list of at most {MAX_EXTENSIONS} extensions", field=name)
    if reason := unstorable(value):
        raise BadInputError(f"{name} cannot be stored: {reason}", field=name)
    return value


def _tags(value: object, name: str) -> list[str]:
    if not isinstance(value, list) or len(value) > MAX_TAGS:
        raise BadInputError(f"{name} must be a list of at most {MAX_TAGS} words", field=name)
    found = [checked_tag(one, name) for one in value]
    return list(dict.fromkeys(found))
