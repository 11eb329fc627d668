"""The order in which a schema names its fields, for faults: a page and a reply start with the first."""

from __future__ import annotations

from typing import Any, TypeVar

from rejoinder.forms.walk import Path, References, SchemaFault

T = TypeVar("T")


def in_order(schema: dict[str, Any], found: dict[Path, T]) -> dict[Path, T]:
    """The faults in the schema's order; those of undeclared fields after them, those of the whole form last."""
    try:
        references = References(schema)
    except SchemaFault:
        return found
    return dict(sorted(found.items(), key=lambda item: (not item[0], _rank(schema, item[0], references))))


def _rank(schema: Any, path: Path, references: References) -> list[int]:
    """One number for each step of the path: where the schema declares it."""
    rank: list[int] = []
    nodes = [schema]
    for step in path:
        nodes = _spread(nodes, references)
        if isinstance(step, int):
            rank.append(step)
            nodes = [node.get("items") for node in nodes]
            continue
        names: dict[str, int] = {}
        below: list[Any] = []
        for node in nodes:
            for name, inner in node.get("properties", {}).items():
                names.setdefault(name, len(names))
                if name == step:
                    below.append(inner)
        rank.append(names.get(step, len(names)))
        nodes = below
    return rank


def _spread(nodes: list[Any], references: References) -> list[dict[str, Any]]:
    """The nodes and what they refer to or combine, each once, the declaring node first."""
    found: list[dict[str, Any]] = []
    seen: set[int] = set()
    queue = list(nodes)
    while queue:
        node = queue.pop(0)
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        found.append(node)
        if "$ref" in node:
            target = references.find(node["$ref"])
            if target is not None:
                queue.append(target[1])
        for keyword in ("allOf", "anyOf", "oneOf"):
            queue.extend(node.get(keyword, ()))
        queue.extend(node[keyword] for keyword in ("if", "then", "else") if keyword in node)
        queue.extend(node.get("dependentSchemas", {}).values())
    return found
