"""An answer, or the defaults of a schema, as the pairs that a browser would send: what a page draws as filled in."""

from __future__ import annotations

from typing import Any

from rejoinder.forms import paths
from rejoinder.forms.coerce import Reader
from rejoinder.forms.field import MISSING, Field
from rejoinder.forms.fields import root_field
from rejoinder.forms.shape import same, text

_Pairs = list[tuple[str, str]]


def draft_of(schema: dict[str, Any], value: Any, *, exact: bool = True) -> list[tuple[str, str]]:
    """The pairs that ``read_form`` reads as this value.

    With ``exact=False`` the value may be a part of an answer, such as the defaults: what is missing stays open.
    """
    return _Writer(exact).write(root_field(schema), paths.ROOT, value)


def defaults_of(schema: dict[str, Any], prefilled: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    """The pairs for the schema's default values; what is prefilled for this question stands in their place."""
    value = _default(root_field(schema))
    if prefilled:
        value = prefilled if value is MISSING else value | prefilled
    return [] if value is MISSING else draft_of(schema, value, exact=False)


def _default(field: Field) -> Any:
    if field.default is not MISSING:
        return field.default
    if field.control != "group":
        return MISSING
    found = {
        str(child.path[-1]): inner
        for child in field.children
        if not child.extra and (inner := _default(child)) is not MISSING and inner is not None
    }
    return found or MISSING


class _Writer:
    def __init__(self, exact: bool) -> None:
        self._exact = exact

    def write(self, field: Field, name: str, value: Any) -> _Pairs:
        """The pairs for one field; a hidden one where its control does not bring the value back."""
        pairs = self._pairs(field, name, value)
        if pairs is not None:
            partial = not self._exact and field.control in ("group", "rows")
            back, _ = Reader(pairs).read(field, name, name, ()) if not partial else (value, True)
            if same(back, value):
                return pairs
        return [(name + paths.KEEP, text(value))]

    def _pairs(self, field: Field, name: str, value: Any) -> _Pairs | None:
        """None where the control cannot show this value at all."""
        match field.control:
            case "const":
                return []
            case "group":
                return self._group(field, name, value) if isinstance(value, dict) else None
            case "rows":
                assert field.item is not None
                if not isinstance(value, list):
                    return None
                return [
                    pair
                    for index, row in enumerate(value)
                    for pair in self.write(field.item, f"{name}.[{index}]", row)
                ]
            case "checkboxes":
                return [(name, text(one)) for one in value] if isinstance(value, list) else None
            case "lines":
                if not isinstance(value, list):
                    return None
                return [(name, "\n".join(map(_typed, value)))] if value else []
            case "radios" | "select" | "boolean" | "checkbox" | "json":
                return [(name, text(value))]
            case _:
                if value is None:
                    return []
                if field.input_type == "datetime-local" and isinstance(value, str):
                    return _moment(name, value)
                return [(name, _typed(value))]

    def _group(self, field: Field, name: str, value: dict[str, Any]) -> _Pairs:
        pairs: _Pairs = []
        known = set()
        for child in field.children:
            if child.extra:
                continue
            step = str(child.path[-1])
            known.add(step)
            if step in value:
                pairs += self.write(child, name + child.key, value[step])
        more = {step: inner for step, inner in value.items() if step not in known}
        if more and any(child.extra for child in field.children):
            pairs.append((name + paths.EXTRA, text(more)))
        return pairs


def _typed(value: Any) -> str:
    return value if isinstance(value, str) else text(value)


def _moment(name: str, value: str) -> _Pairs:
    """The picker's local part and the offset beside it, where the text is of that form."""
    head, mark, tail = value.partition("T")
    at = next((index for index, char in enumerate(tail) if char in "Zz+-"), len(tail))
    if not mark or at == len(tail):
        return [(name, value)]
    return [(name, f"{head}T{tail[:at]}"), (name + paths.ZONE, tail[at:])]
