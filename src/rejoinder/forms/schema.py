"""Which schemas the inbox takes: JSON Schema, draft 2020-12, describing an object, within bounds."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import jsonschema_rs

from rejoinder.contract.errors import AskArgumentError
from rejoinder.contract.text import unstorable
from rejoinder.forms.cache import Cache
from rejoinder.forms.engine import compile_pattern, compiled
from rejoinder.forms.walk import Path, References, SchemaFault, spelled, subschemas

#: Bytes of the schema as compact JSON.
MAX_BYTES = 65_536
#: Levels of JSON.
MAX_DEPTH = 32
MAX_PROPERTIES = 500
MAX_SUBSCHEMAS = 4_000
MAX_REFERENCES = 500
MAX_PATTERNS = 64
#: Bytes of the schemas that are remembered as good. A tool asks with the same one again and again, and each question
#: that waits would hold a copy.
REMEMBERED = 1_000_000
_accepted: Cache[dict[str, Any]] = Cache(REMEMBERED)

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_REFUSED = {
    "$dynamicRef": "dynamic references are not supported; use $ref",
    "$dynamicAnchor": "dynamic anchors are not supported; use $defs and $ref",
    "$recursiveRef": "recursive references of draft 2019-09 are not supported; use $ref",
    "$recursiveAnchor": "recursive anchors of draft 2019-09 are not supported; use $defs and $ref",
    "$vocabulary": "vocabularies of its own are not supported",
}


def check_schema(schema: object, *, field: str = "schema") -> dict[str, Any]:
    """The schema as a plain dict, ready to be stored. Not to be changed: whoever asks with the same schema shares it.

    Takes a JSON Schema (a dict) or a pydantic model class. References may only point inside the schema. ``$id`` is
    left out, as it would only change what references mean.

    Raises AskArgumentError naming ``field``; its text holds the place as a JSON pointer, such as
    ``#/properties/age/type``.
    """
    try:
        text = _text(schema)
        digest = hashlib.sha256(text).digest()
        known = _accepted.get(digest)
        if known is not None:
            return known
        plain = _plain(text)
        _check_draft(plain)
        _check_meta(plain)
        _check_parts(plain)
        references = References(plain)
        if not _is_object(plain, references):
            raise SchemaFault((), 'the root must describe an object: give it "type": "object" and properties')
        compiled(plain)
    except SchemaFault as fault:
        raise AskArgumentError(
            f"The schema cannot be used, at {fault.pointer}: {fault.reason}.", field=field
        ) from fault
    _accepted.put(digest, plain, len(text))
    return plain


def _text(schema: object) -> bytes:
    if isinstance(schema, type):
        schema = _of_model(schema)
    if not isinstance(schema, dict):
        raise SchemaFault((), "it must be a JSON Schema object or a pydantic model class")
    reason = unstorable(schema)
    if reason is not None:
        raise SchemaFault((), reason)
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode()
    if len(text) > MAX_BYTES:
        raise SchemaFault((), f"it is larger than {MAX_BYTES // 1024} KiB")
    return text


def _plain(text: bytes) -> dict[str, Any]:
    plain = json.loads(text)
    assert isinstance(plain, dict)
    stack: list[tuple[Path, Any]] = [((), plain)]
    while stack:
        path, value = stack.pop()
        if len(path) > MAX_DEPTH:
            raise SchemaFault(path, f"it is nested more than {MAX_DEPTH} levels deep; use $defs and $ref")
        if isinstance(value, dict):
            stack.extend(((*path, name), inner) for name, inner in value.items())
        elif isinstance(value, list):
            stack.extend(((*path, index), inner) for index, inner in enumerate(value))
    return plain


def _of_model(model: type) -> object:
    make = getattr(model, "model_json_schema", None)
    if not callable(make):
        raise SchemaFault((), "it must be a JSON Schema object or a pydantic model class")
    from pydantic.errors import PydanticUserError

    try:
        return make()
    except PydanticUserError as fault:
        raise SchemaFault((), f"the model {model.__name__} holds a type that has no JSON Schema") from fault


def _check_draft(plain: dict[str, Any]) -> None:
    """Before anything reads the schema: a validator would fetch a draft it does not know."""
    draft = plain.get("$schema", DRAFT)
    if not isinstance(draft, str) or draft.rstrip("#") != DRAFT:
        raise SchemaFault(("$schema",), f"only draft 2020-12 is supported ({DRAFT})")
    if "$schema" in plain:
        plain["$schema"] = DRAFT
    plain.pop("$id", None)


def _check_meta(plain: dict[str, Any]) -> None:
    try:
        jsonschema_rs.meta.validate({key: value for key, value in plain.items() if key != "$schema"})
    except jsonschema_rs.ValidationError as fault:
        said = fault.message if len(fault.message) <= 200 else fault.message[:199] + "…"
        raise SchemaFault(tuple(fault.instance_path), f"it is not valid JSON Schema ({said})") from fault
    except ValueError as fault:
        raise SchemaFault((), "it is not valid JSON Schema") from fault


def _check_parts(plain: dict[str, Any]) -> None:
    """Every subschema, by itself; references are rewritten as URIs spell them."""
    properties = parts = refs = patterns = 0
    for path, node in subschemas(plain):
        parts += 1
        if parts > MAX_SUBSCHEMAS:
            raise SchemaFault(path, f"it has more than {MAX_SUBSCHEMAS} parts")
        if not isinstance(node, dict):
            continue
        for keyword, reason in _REFUSED.items():
            if keyword in node:
                raise SchemaFault((*path, keyword), reason)
        if path:
            for keyword in ("$id", "$schema"):
                if keyword in node:
                    raise SchemaFault((*path, keyword), f"{keyword} may only stand at the root")
        named = node.get("properties", {})
        properties += len(named)
        if properties > MAX_PROPERTIES:
            raise SchemaFault((*path, "properties"), f"it has more than {MAX_PROPERTIES} properties")
        if "__proto__" in named:
            raise SchemaFault((*path, "properties", "__proto__"), "a property cannot be called __proto__")
        if "$ref" in node:
            refs += 1
            if refs > MAX_REFERENCES:
                raise SchemaFault((*path, "$ref"), f"it has more than {MAX_REFERENCES} references")
            _check_reference(node, path)
        for place, pattern in _patterns(node):
            patterns += 1
            if patterns > MAX_PATTERNS:
                raise SchemaFault(path + place, f"it has more than {MAX_PATTERNS} patterns")
            _check_pattern(path + place, pattern)


def _check_reference(node: dict[str, Any], path: Path) -> None:
    reference = node["$ref"]
    if reference and not reference.startswith("#"):
        raise SchemaFault(
            (*path, "$ref"), "only references inside the schema are followed, such as #/$defs/Address"
        )
    node["$ref"] = spelled(reference) if reference else "#"


def _patterns(node: dict[str, Any]) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = [
        (("patternProperties", name), name) for name in node.get("patternProperties", ())
    ]
    if "pattern" in node:
        found.append((("pattern",), node["pattern"]))
    return found


def _check_pattern(place: Path, pattern: str) -> None:
    try:
        compile_pattern(pattern)
    except ValueError as fault:
        raise SchemaFault(
            place,
            "the pattern cannot be used: patterns run in linear time, so look-around, back-references and very "
            "large repetitions are not supported",
        ) from fault


def _is_object(node: Any, references: References, seen: frozenset[str] = frozenset()) -> bool:
    if not isinstance(node, dict):
        return False
    if "type" in node:
        return bool(node["type"] == "object" or node["type"] == ["object"])
    reference = node.get("$ref")
    if reference is not None and reference not in seen:
        found = references.find(reference)
        if found is not None and _is_object(found[1], references, seen | {reference}):
            return True
    if any(_is_object(inner, references, seen) for inner in node.get("allOf", ())):
        return True
    for keyword in ("anyOf", "oneOf"):
        inner = node.get(keyword)
        if inner and all(_is_object(one, references, seen) for one in inner):
            return True
    return "properties" in node and "items" not in node
