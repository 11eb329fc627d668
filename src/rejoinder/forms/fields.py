"""A schema as a tree of fields: what a page without scripts needs to draw every schema the inbox takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rejoinder.forms import paths
from rejoinder.forms.cache import Cache
from rejoinder.forms.engine import key_of
from rejoinder.forms.field import MISSING, Field, Option
from rejoinder.forms.shape import Recursive, Shapes, Trail, fixed, is_null, is_object, text

#: Up to this many options are drawn as radios.
MAX_RADIOS = 5
#: Controls drawn one by one; what is left over becomes JSON.
MAX_FIELDS = 400
#: Groups inside groups; what is deeper becomes JSON.
MAX_NESTING = 6
#: A text that may be longer gets several lines.
LONG_TEXT = 200

_INPUT_TYPES = {
    "email": "email",
    "idn-email": "email",
    "uri": "url",
    "iri": "url",
    "date": "date",
    "time": "time",
    "date-time": "datetime-local",
}
_LIMITS = {
    "minLength": "min_length",
    "maxLength": "max_length",
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "above",
    "exclusiveMaximum": "below",
    "multipleOf": "multiple_of",
    "minItems": "min_items",
    "maxItems": "max_items",
}


def field_tree(schema: dict[str, Any]) -> list[Field]:
    """The fields of a schema that ``check_schema`` took, in its order.

    Where the root itself has no fields (any object is taken), the one field is a ``json`` control for the whole.
    """
    root = root_field(schema)
    return list(root.children) if root.control == "group" else [root]


def root_field(schema: dict[str, Any]) -> Field:
    """The whole answer as one field: a ``group``, or ``json``."""
    key = key_of(schema)
    found = _cache.get(key)
    if found is None:
        found = _Builder(schema).root(schema)
        _cache.put(key, found)
    return found


_cache: Cache[Field] = Cache(256)


class _Builder:
    def __init__(self, schema: dict[str, Any]) -> None:
        self._shapes = Shapes(schema)
        self._left = MAX_FIELDS

    def root(self, schema: dict[str, Any]) -> Field:
        label = schema.get("title")
        frame = Field(
            paths.ROOT, (), label if isinstance(label, str) else "", "json", required=True, demanded=True
        )
        try:
            return self._drawn(frame, schema, frozenset([()]))
        except Recursive:
            return frame

    def _child(self, parent: Field, name: str, node: Any, trail: Trail, *, required: bool) -> Field:
        self._left -= 1
        frame = Field(
            f"{parent.name}.{paths.segment(name)}",
            (*parent.path, name),
            name,
            "json",
            required=required,
            demanded=required and parent.demanded,
        )
        try:
            return self._drawn(frame, node, trail)
        except Recursive:
            title, description = (
                (node.get("title"), node.get("description")) if isinstance(node, dict) else (None,) * 2
            )
            return replace(frame, label=title or name, description=description)

    def _drawn(self, frame: Field, node: Any, trail: Trail) -> Field:
        """The frame with its control filled in. Raises Recursive."""
        flat, trail = self._shapes.flat(node, trail)
        flat, trail, nullable = self._without_null(flat, trail)
        frame = replace(
            frame,
            label=flat.get("title") or frame.label,
            description=flat.get("description"),
            nullable=nullable,
            default=flat.get("default", MISSING),
            limits={ours: flat[theirs] for theirs, ours in _LIMITS.items() if theirs in flat},
        )
        options = self._options(flat, trail)
        if options is not None:
            return _choice(frame, flat, options)
        if is_object(flat):
            return self._group(frame, flat, trail)
        if "anyOf" in flat or "oneOf" in flat:
            return self._union(frame, flat, trail)
        kind = _kind(flat)
        if kind == "string":
            return _text(frame, flat)
        if kind in ("integer", "number"):
            whole = kind == "integer"
            return replace(
                frame, control="integer" if whole else "number", input_mode="numeric" if whole else "decimal"
            )
        if kind == "boolean":
            return replace(frame, control="boolean")
        if kind == "array":
            return self._list(frame, flat, trail)
        return _json(frame, flat)

    def _without_null(self, flat: dict[str, Any], trail: Trail) -> tuple[dict[str, Any], Trail, bool]:
        """A value that may also be null, as the value: an empty control means null."""
        nullable = False
        kinds = flat.get("type")
        if isinstance(kinds, list):
            rest = [kind for kind in kinds if kind != "null"]
            nullable = len(rest) < len(kinds)
            if set(rest) == {"integer", "number"}:
                rest = ["number"]
            flat = flat | {"type": rest[0] if len(rest) == 1 else rest}
        for keyword in ("anyOf", "oneOf"):
            if keyword not in flat or flat.get("properties"):
                continue
            rest_nodes = []
            for inner in flat[keyword]:
                if isinstance(inner, dict) and is_null(inner):
                    nullable = True
                else:
                    rest_nodes.append(inner)
            own = {key: value for key, value in flat.items() if key != keyword}
            if len(rest_nodes) == 1:
                inner, trail = self._shapes.flat({"allOf": [own, rest_nodes[0]]}, trail)
                deeper, trail, also = self._without_null(inner, trail)
                return deeper, trail, nullable or also
            flat = own | {keyword: rest_nodes}
        if "enum" in flat and None in flat["enum"] and len(flat["enum"]) > 1:
            flat = flat | {"enum": [value for value in flat["enum"] if value is not None]}
            nullable = True
        return flat, trail, nullable

    def _options(self, flat: dict[str, Any], trail: Trail) -> list[Option] | None:
        values = fixed(flat)
        if values is not None:
            return [Option(text(value), _label(value)) for value in values]
        for keyword in ("oneOf", "anyOf"):
            if keyword not in flat or not flat[keyword] or flat.get("properties"):
                continue
            found: list[Option] = []
            for inner in flat[keyword]:
                one, _ = self._shapes.flat(inner, trail)
                values = fixed(one)
                if values is None:
                    break
                single = len(values) == 1
                found += [
                    Option(
                        text(value),
                        (one.get("title") if single else None) or _label(value),
                        one.get("description") if single else None,
                    )
                    for value in values
                ]
            else:
                return found
        return None

    def _group(self, frame: Field, flat: dict[str, Any], trail: Trail) -> Field:
        named, required = self._shapes.members(flat, trail)
        named = {name: entry for name, entry in named.items() if entry[0] is not False}
        open_ended = flat.get("additionalProperties", flat.get("unevaluatedProperties")) is not False
        if not named and open_ended:
            return _json(frame, flat)
        if len(frame.path) >= MAX_NESTING or len(named) > self._left:
            return _json(frame, flat)
        group = replace(frame, control="group")
        children = [
            self._child(group, name, inner, further, required=name in required)
            for name, (inner, further) in named.items()
        ]
        if flat.get("additionalProperties") or flat.get("patternProperties"):
            children.append(
                Field(
                    group.name + paths.EXTRA,
                    group.path,
                    "Other values",
                    "json",
                    description="More named values, as a JSON object",
                    extra=True,
                )
            )
        return replace(group, children=tuple(children))

    def _union(self, frame: Field, flat: dict[str, Any], trail: Trail) -> Field:
        keyword = "anyOf" if "anyOf" in flat else "oneOf"
        branches = [self._shapes.flat(inner, trail) for inner in flat[keyword]]
        if branches and all(is_object(branch) for branch, _ in branches):
            return self._group(frame, flat, trail)
        kinds = {_kind(branch) for branch, _ in branches}
        if kinds <= {"integer", "number"}:
            return replace(frame, control="number", input_mode="decimal")
        if kinds == {"string"}:
            return replace(frame, control="text")
        return replace(frame, control="json", takes_text=bool(kinds & {"string", None}))

    def _list(self, frame: Field, flat: dict[str, Any], trail: Trail) -> Field:
        if "prefixItems" in flat or not isinstance(flat.get("items"), dict):
            return _json(frame, flat)
        try:
            item, further = self._shapes.flat(flat["items"], trail)
            item, further, nullable = self._without_null(item, further)
        except Recursive:
            return _json(frame, flat)
        if nullable:
            return _json(frame, flat)
        options = self._options(item, further)
        if options is not None:
            return replace(frame, control="checkboxes", options=tuple(options))
        template = Field(
            frame.name + "." + paths.ANY_ROW,
            (*frame.path, -1),
            item.get("title") or frame.label,
            "json",
            required=True,
        )
        kind = _kind(item)
        if kind in ("string", "integer", "number"):
            drawn = self._drawn(template, item, further)
            return (
                replace(frame, control="lines", item=drawn) if drawn.control != "json" else _json(frame, flat)
            )
        if not is_object(item):
            return _json(frame, flat)
        self._left -= 1
        try:
            drawn = self._drawn(template, item, further)
        except Recursive:
            return _json(frame, flat)
        if drawn.control != "group":
            return _json(frame, flat)
        # A blank row is no row, so a row's fields are needed only once it is begun.
        return replace(frame, control="rows", item=replace(drawn, required=False, demanded=False))


def _kind(flat: dict[str, Any]) -> str | None:
    """The one type a flat subschema takes; guessed from its keywords where it names none."""
    kind = flat.get("type")
    if isinstance(kind, list):
        return None
    if kind is not None:
        return str(kind)
    if "anyOf" in flat or "oneOf" in flat:
        return None
    if "items" in flat or "prefixItems" in flat:
        return "array"
    if any(key in flat for key in ("minLength", "maxLength", "pattern", "format")):
        return "string"
    if any(
        key in flat for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    ):
        return "number"
    return "object" if "properties" in flat else None


def _text(frame: Field, flat: dict[str, Any]) -> Field:
    wanted = flat.get("format")
    input_type = _INPUT_TYPES.get(wanted, "text") if isinstance(wanted, str) else "text"
    default = flat.get("default")
    several = (
        flat.get("control") == "textarea"
        or flat.get("contentMediaType") is not None
        or wanted in ("textarea", "markdown", "multiline")
        or flat.get("maxLength", 0) > LONG_TEXT
        or flat.get("minLength", 0) > LONG_TEXT // 2
        or (isinstance(default, str) and "\n" in default)
    )
    mode = flat.get("inputMode")
    return replace(
        frame,
        control="textarea" if several and input_type == "text" else "text",
        input_type=input_type,
        input_mode=mode if mode in ("text", "numeric", "decimal", "tel", "email", "url") else None,
    )


def _choice(frame: Field, flat: dict[str, Any], options: list[Option]) -> Field:
    if "const" in flat and flat["const"] is True:
        return replace(frame, control="checkbox", const=True, options=tuple(options))
    if "const" in flat and frame.required and not frame.nullable:
        return replace(frame, control="const", const=flat["const"], options=tuple(options))
    if [option.value for option in options] in (["true", "false"], ["false", "true"]):
        return replace(frame, control="boolean")
    chips = flat.get("control") == "chips"
    return replace(
        frame,
        control="radios" if chips or len(options) <= MAX_RADIOS else "select",
        options=tuple(options),
        chips=chips,
    )


def _json(frame: Field, flat: dict[str, Any]) -> Field:
    kinds = flat.get("type")
    takes_text = kinds is None or kinds == "string" or (isinstance(kinds, list) and "string" in kinds)
    return replace(frame, control="json", takes_text=takes_text and not is_object(flat))


def _label(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, bool):
        return "Yes" if value else "No"
    return value if isinstance(value, str) else text(value)
