"""A form's answer for reading: in the form's order and words."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rejoinder.forms.field import Field
from rejoinder.forms.fields import field_tree
from rejoinder.forms.shape import text
from rejoinder.forms.wording import word
from rejoinder.language.spoken import t

Labels = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an answer: a label (None for a bare value), its text, and how deep it lies."""

    label: str | None
    text: str | None
    depth: int


def lines_of(
    payload: dict[str, Any], value: Any, *, empty: str | None = None, without: Collection[str] = ()
) -> list[Line]:
    """The lines for an answer to the form with this ``format_payload``.

    With ``empty`` a field that holds nothing is among them, with that text; fields named in ``without`` are not.
    """
    lines: list[Line] = []
    fields = [
        one
        for one in field_tree(payload.get("schema") or {})
        if len(one.path) != 1 or one.path[0] not in without
    ]
    if isinstance(value, dict) and not (len(fields) == 1 and fields[0].path == ()):
        _Reader(_labels(payload), empty).group(fields, value, 0, lines)
    else:
        lines.append(Line(None, _plain(value), 0))
    return lines


def choices_of(payload: dict[str, Any]) -> Labels:
    """The labels that this question gives its options, by field and by the option's JSON text."""
    given = (payload.get("data") or {}).get("options") or {}
    return {
        name: {text(one["value"]): one.get("label") or one["value"] for one in choices}
        for name, choices in given.items()
    }


def _labels(payload: dict[str, Any]) -> Labels:
    labels = choices_of(payload)
    for name in ((payload.get("wording") or {}).get("form") or {}).get("fields") or {}:
        for value, member in (("true", "true_label"), ("false", "false_label")):
            own = word(payload["wording"], "form", "fields", name, member)
            if own is not None:
                labels.setdefault(name, {})[value] = own
    return labels


class _Reader:
    def __init__(self, labels: Labels, empty: str | None) -> None:
        self._labels = labels
        self._empty = empty

    def group(
        self, fields: tuple[Field, ...] | list[Field], value: dict[str, Any], depth: int, lines: list[Line]
    ) -> None:
        known = set()
        for one in fields:
            if one.extra:
                continue
            step = str(one.path[-1])
            known.add(step)
            if step in value:
                self._field(one, one.label, value[step], depth, lines)
            elif self._empty is not None:
                lines.append(Line(one.label, self._empty, depth))
        for step, inner in value.items():
            if step not in known:
                lines.append(Line(step, _plain(inner), depth))

    def _field(self, one: Field, label: str, value: Any, depth: int, lines: list[Line]) -> None:
        if one.control == "group" and isinstance(value, dict):
            lines.append(Line(label, None, depth))
            self.group(one.children, value, depth + 1, lines)
        elif one.control == "rows" and isinstance(value, list) and one.item is not None:
            lines.append(Line(label, None if value else t("None"), depth))
            for index, row in enumerate(value):
                self._field(one.item, f"{one.item.label} {index + 1}", row, depth + 1, lines)
        else:
            lines.append(Line(label, self._text(one, value), depth))

    def _text(self, one: Field, value: Any) -> str:
        own = self._labels.get(str(one.path[0]), {}) if len(one.path) == 1 else {}
        if isinstance(value, list) and one.control in ("lines", "checkboxes"):
            return "\n".join(self._one(one, item, own) for item in value) or t("None")
        return self._one(one, value, own)

    def _one(self, one: Field, value: Any, own: dict[str, str]) -> str:
        key = text(value)
        if key in own:
            return own[key]
        return next((option.label for option in one.options if option.value == key), None) or _plain(value)


def _plain(value: Any) -> str:
    if value is None:
        return t("None")
    if isinstance(value, bool):
        return t("Yes") if value else t("No")
    return value if isinstance(value, str) else text(value)
