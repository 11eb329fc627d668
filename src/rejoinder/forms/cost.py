"""How much work one answer can cause, worked out from the schema alone.

A schema of a few hundred bytes can ask for an exponential amount of work: references that double at every step, or a
recursive one that visits each nested object twice. For each depth of nesting this counts, from above, how many
subschemas may be applied to one place of an answer; an answer nested deeper than the count allows is refused before
it is validated.
"""

from __future__ import annotations

from typing import Any

from rejoinder.contract.text import MAX_DEPTH
from rejoinder.forms.walk import Path, References, SchemaFault

#: Subschemas applied to one place of an answer.
MAX_VISITS = 1024
#: References and combinators followed in a row at one place.
MAX_CHAIN = 64
#: An answer may always be nested this deep, or the schema is refused.
MIN_DEPTH = 4

_KINDS = ("object", "array")


class _Node:
    __slots__ = ("inplace", "slots")

    def __init__(self) -> None:
        self.inplace: list[tuple[Path, int]] = []
        self.slots: dict[str, list[list[Path]]] = {kind: [] for kind in _KINDS}


def bounds(references: References) -> tuple[int, int]:
    """The deepest nesting of an answer that validates in bounded time (``MAX_DEPTH`` for all ordinary schemas), and
    how many subschemas may be applied to one place of such an answer.

    Raises SchemaFault where even shallow answers would cost too much, or where references go round in a circle
    without going deeper into the answer.
    """
    graph = {path: _node(path, node, references) for path, node in references.places.items()}
    order = _ordered(graph)
    visits = {path: dict.fromkeys(_KINDS, 0) for path in graph}
    previous: dict[Path, int] = {}
    worst = 1
    for depth in range(MAX_DEPTH + 1):
        current: dict[Path, int] = {}
        for path in order:
            node = graph[path]
            for kind in _KINDS:
                if depth == 0:
                    own = 1
                else:
                    own = max(
                        (sum(previous[child] for child in slot) for slot in node.slots[kind]), default=0
                    )
                own += sum(times * visits[inner][kind] for inner, times in node.inplace)
                visits[path][kind] = min(own, MAX_VISITS + 1)
            current[path] = max(visits[path].values())
        if current[()] > MAX_VISITS:
            if depth <= MIN_DEPTH:
                raise SchemaFault(
                    (),
                    "its references and alternatives multiply, so that checking an answer could take too long",
                )
            return depth - 1, worst
        worst = max(worst, current[()])
        if depth and current == previous:
            break
        previous = current
    return MAX_DEPTH, worst


def _node(path: Path, schema: Any, references: References) -> _Node:
    node = _Node()
    if not isinstance(schema, dict):
        return node
    # An unevaluated* keyword asks the neighbours again what they have looked at.
    again = 2 if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1

    def here(*steps: str | int) -> None:
        node.inplace.append((path + steps, again))

    def one(keyword: str) -> list[Path]:
        return [(*path, keyword)] if keyword in schema else []

    if "$ref" in schema:
        found = references.find(schema["$ref"])
        if found is None:
            raise SchemaFault((*path, "$ref"), "it names a place that is not a schema of this document")
        node.inplace.append((found[0], again))
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index in range(len(schema.get(keyword, ()))):
            here(keyword, index)
    for keyword in ("not", "if", "then", "else"):
        if keyword in schema:
            here(keyword)
    for keyword in ("dependentSchemas", "dependencies"):
        for name, inner in schema.get(keyword, {}).items():
            if isinstance(inner, dict | bool):
                here(keyword, name)
    always = [(*path, "patternProperties", name) for name in schema.get("patternProperties", ())]
    always += one("propertyNames") + one("unevaluatedProperties")
    node.slots["object"] = [
        [(*path, "properties", name), *always] for name in schema.get("properties", ())
    ] + [one("additionalProperties") + always]
    every = one("contains") + one("unevaluatedItems")
    node.slots["array"] = [
        [(*path, "prefixItems", index), *every] for index in range(len(schema.get("prefixItems", ())))
    ] + [one("items") + every]
    return node


def _ordered(graph: dict[Path, _Node]) -> list[Path]:
    """Innermost first along the edges that stay at one place of the answer; a circle or a long chain is refused."""
    done: dict[Path, int] = {}
    for start in graph:
        stack: list[tuple[Path, int]] = [(start, 0)]
        trail: set[Path] = set()
        while stack:
            path, state = stack.pop()
            if state:
                trail.discard(path)
                done[path] = 1 + max((done[inner] for inner, _ in graph[path].inplace), default=0)
                if done[path] > MAX_CHAIN:
                    raise SchemaFault(
                        path, f"more than {MAX_CHAIN} references and alternatives follow one another"
                    )
                continue
            if path in done:
                continue
            if path in trail:
                continue
            trail.add(path)
            stack.append((path, 1))
            for inner, _ in graph[path].inplace:
                if inner in trail:
                    raise SchemaFault(path, "its references go round in a circle")
                if inner not in done:
                    stack.append((inner, 0))
    return list(done)
