"""What a subschema amounts to once references and ``allOf`` are followed: one flat dict to draw from.

This is for drawing only. The validator judges answers by the schema itself, so a merge that loses a nuance shows a
wider control and never lets a wrong answer through.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rejoinder.forms.walk import Path, References

#: The references followed on the way to a subschema.
Trail = frozenset[Path]
_HIGHER = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_LOWER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")


class Recursive(Exception):
    """The subschema holds itself; a page cannot draw all of it."""


class Shapes:
    """Flattens the subschemas of one document."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._references = References(root)

    def flat(self, node: Any, trail: Trail) -> tuple[dict[str, Any], Trail]:
        """The subschema with its references and ``allOf`` merged in; what it says itself wins. Raises Recursive."""
        if not isinstance(node, dict):
            return {}, trail
        out = {key: value for key, value in node.items() if key not in ("$ref", "allOf", "$defs")}
        if "$ref" in node:
            found = self._references.find(node["$ref"])
            if found is not None:
                if found[0] in trail:
                    raise Recursive
                inner, trail = self.flat(found[1], trail | {found[0]})
                out = _merged(out, inner)
        for part in node.get("allOf", ()):
            inner, further = self.flat(part, trail)
            trail |= further
            out = _merged(out, inner)
        return out, trail

    def members(self, node: dict[str, Any], trail: Trail) -> tuple[dict[str, tuple[Any, Trail]], set[str]]:
        """The properties of a flat object by name, and which are required whatever else is filled in.

        Properties that only some alternatives or conditions name are among them: the page shows them all, and the
        validator says which belong together.
        """
        named: dict[str, tuple[Any, Trail]] = {
            name: (inner, trail) for name, inner in node.get("properties", {}).items()
        }
        required = set(node.get("required", ()))
        more: dict[str, list[tuple[Any, Trail]]] = {}
        for keyword in ("anyOf", "oneOf"):
            needs: list[set[str]] = []
            for inner in node.get(keyword, ()):
                flat, further = self.flat(inner, trail)
                if is_null(flat):
                    continue
                found, need = self.members(flat, further)
                needs.append(need)
                _collect(more, found)
            if needs:
                required |= set.intersection(*needs)
        for inner in _conditions(node):
            flat, further = self.flat(inner, trail)
            _collect(more, self.members(flat, further)[0])
        for name, found_in in more.items():
            if name not in named:
                named[name] = _either(found_in)
        for name in node.get("required", ()):
            named.setdefault(name, (True, trail))
        return named, required


def is_null(node: dict[str, Any]) -> bool:
    return node.get("type") in ("null", ["null"]) or ("const" in node and node["const"] is None)


def is_object(node: dict[str, Any]) -> bool:
    """Whether a flat subschema is about objects."""
    if "type" in node:
        return node["type"] in ("object", ["object"])
    return "properties" in node and "items" not in node


def text(value: Any) -> str:
    """A JSON value as compact JSON: how options travel through a form."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1, and the order of names does not matter."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) != isinstance(other, bool) or (one is None) != (other is None):
        return False
    return bool(one == other)


def fixed(node: dict[str, Any]) -> list[Any] | None:
    """The only values a flat subschema takes, where it lists them."""
    if "const" in node:
        return [node["const"]]
    if "enum" in node:
        return list(node["enum"])
    return None


def _conditions(node: dict[str, Any]) -> Iterator[Any]:
    for keyword in ("if", "then", "else"):
        if keyword in node:
            yield node[keyword]
    for keyword in ("dependentSchemas", "dependencies"):
        for inner in node.get(keyword, {}).values():
            if isinstance(inner, dict):
                yield inner


def _collect(more: dict[str, list[tuple[Any, Trail]]], found: dict[str, tuple[Any, Trail]]) -> None:
    for name, entry in found.items():
        if entry[0] is not False:
            more.setdefault(name, []).append(entry)


def _either(entries: list[tuple[Any, Trail]]) -> tuple[Any, Trail]:
    """One subschema for a property that several alternatives describe."""
    trail: Trail = frozenset().union(*(entry[1] for entry in entries))
    different = list({text(inner): inner for inner, _ in entries}.values())
    if len(different) == 1:
        return different[0], trail
    values: list[Any] = []
    for inner in different:
        listed = fixed(inner) if isinstance(inner, dict) else None
        if listed is None:
            return {"anyOf": different}, trail
        values.extend(listed)
    titled = {
        key: inner[key] for inner in reversed(different) for key in ("title", "description") if key in inner
    }
    return titled | {"enum": list({text(value): value for value in values}.values())}, trail


def _merged(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    out = dict(ours)
    for key, value in theirs.items():
        if key not in out:
            out[key] = value
        elif key == "properties":
            both = dict(out[key])
            for name, inner in value.items():
                both[name] = {"allOf": [both[name], inner]} if name in both else inner
            out[key] = both
        elif key == "required":
            out[key] = [*out[key], *(name for name in value if name not in out[key])]
        elif key == "enum":
            known = {text(one) for one in value}
            out[key] = [one for one in out[key] if text(one) in known]
        elif key in _HIGHER:
            out[key] = max(out[key], value)
        elif key in _LOWER:
            out[key] = min(out[key], value)
    return out
