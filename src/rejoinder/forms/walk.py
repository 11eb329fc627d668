"""Every subschema of a schema, found by keyword: a property that happens to be called ``$ref`` is not a reference,
and what ``const``, ``enum``, ``default`` and ``examples`` hold is data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

from rejoinder.forms.paths import pointer

Path = tuple[str | int, ...]

#: Keywords that hold named subschemas, a list of them, or one.
MAPS = frozenset(
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"]
)
LISTS = frozenset(["allOf", "anyOf", "oneOf", "prefixItems"])
SINGLES = frozenset(
    [
        "items",
        "additionalProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "propertyNames",
        "contains",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    ]
)


class SchemaFault(Exception):
    """A schema that is not taken; ``pointer`` says where, ``reason`` why, as the end of a sentence."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(reason)
        self.pointer = pointer(path)
        self.reason = reason


def subschemas(root: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Each subschema (a dict or a boolean) with its path, parents first. ``root`` has passed the meta-schema."""
    stack: list[tuple[Path, Any]] = [(path, root)]
    while stack:
        here, node = stack.pop()
        yield here, node
        if isinstance(node, dict):
            stack.extend((here + step, inner) for step, inner in children(node))


def children(node: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    """The direct subschemas of one schema, each with the steps that lead to it."""
    for keyword, value in node.items():
        if keyword in SINGLES:
            yield (keyword,), value
        elif keyword in LISTS:
            if isinstance(value, list):
                for index, inner in enumerate(value):
                    yield (keyword, index), inner
        elif keyword in MAPS and isinstance(value, dict):
            for name, inner in value.items():
                if isinstance(inner, dict | bool):
                    yield (keyword, name), inner


class References:
    """Finds what a reference inside one document means.

    Only places that are schemas can be meant, so that nothing is validated by something that was never checked.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self._places: dict[Path, Any] = {}
        self._anchors: dict[str, Path] = {}
        for path, node in subschemas(root):
            self._places[path] = node
            if isinstance(node, dict):
                anchor = node.get("$anchor")
                if isinstance(anchor, str):
                    if anchor in self._anchors:
                        raise SchemaFault((*path, "$anchor"), "the anchor is used twice")
                    self._anchors[anchor] = path
        # A pointer spells an index as text.
        self._spelled = {tuple(str(step) for step in path): path for path in self._places}

    @property
    def places(self) -> dict[Path, Any]:
        return self._places

    def find(self, reference: str) -> tuple[Path, Any] | None:
        """The place a reference such as ``#/$defs/Address`` or ``#anchor`` names, or None."""
        if reference in ("", "#"):
            return (), self._places[()]
        if not reference.startswith("#"):
            return None
        fragment = unquote(reference[1:])
        if not fragment.startswith("/"):
            path = self._anchors.get(fragment)
        else:
            steps = (step.replace("~1", "/").replace("~0", "~") for step in fragment[1:].split("/"))
            path = self._spelled.get(tuple(steps))
        return None if path is None else (path, self._places[path])


def spelled(reference: str) -> str:
    """The same reference with its fragment percent-encoded as a URI wants it."""
    if not reference.startswith("#"):
        return reference
    return "#" + quote(unquote(reference[1:]), safe="/~!$&'()*+,;=:@?")
