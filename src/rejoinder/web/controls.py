"""A form's fields as a page draws them: what each control holds, what is wrong with it, how many rows a list shows."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as factory
from typing import Any

from rejoinder.forms.field import Field
from rejoinder.forms.fields import field_tree
from rejoinder.forms.submit import row_count

Draft = dict[str, list[str]]


@dataclass(slots=True)
class Choice:
    id: str
    value: str
    label: str
    description: str | None
    chosen: bool


@dataclass(slots=True)
class Control:
    """One field on the page. ``kind`` is its ``Field.control``; a ``rows`` control holds its rows as children."""

    id: str
    field: Field
    kind: str
    values: list[str]
    label: str
    hint: str | None
    error: str | None = None
    kept: str | None = None
    zone: str | None = None
    choices: list[Choice] = factory(default_factory=list)
    children: list[Control] = factory(default_factory=list)
    #: For one row of a list: the name of the button that takes it away.
    remove: str | None = None
    focus: bool = False

    @property
    def value(self) -> str:
        return self.values[-1] if self.values else ""

    @property
    def optional(self) -> bool:
        return not self.field.required and self.remove is None

    @property
    def described_by(self) -> str:
        """The ids that the control is described by, for ``aria-describedby``."""
        ids = []
        if self.field.description:
            ids.append(f"{self.id}-about")
        if self.hint:
            ids.append(f"{self.id}-hint")
        if self.error:
            ids.append(f"{self.id}-error")
        return " ".join(ids)


@dataclass(frozen=True, slots=True)
class Fault:
    """One line of the summary. ``target`` is the id to go to, or None for the form as a whole."""

    label: str
    sentence: str
    target: str | None


@dataclass(frozen=True, slots=True)
class Drawn:
    controls: list[Control]
    faults: list[Fault]


def draw(schema: dict[str, Any], draft: Draft, errors: dict[str, str], added: str | None = None) -> Drawn:
    """The controls for a draft. ``errors`` maps dotted paths to sentences; ``added`` is the list that gets a blank
    row, whose first control is then the one to focus."""
    artist = _Artist(draft, dict(errors), added)
    controls = [artist.draw(one) for one in field_tree(schema)]
    rest = [Fault(place, sentence, None) for place, sentence in artist.errors.items()]
    return Drawn(controls, artist.faults + rest)


class _Artist:
    def __init__(self, draft: Draft, errors: dict[str, str], added: str | None) -> None:
        self._draft = draft
        self.errors = errors
        self._added = added
        self.faults: list[Fault] = []
        self._count = 0

    def draw(self, one: Field) -> Control:
        self._count += 1
        identifier = f"field-{self._count}"
        control = Control(
            id=identifier,
            field=one,
            kind=one.control,
            values=list(self._draft.get(one.name, ())),
            label=one.label,
            hint=_hint(one),
            kept=(self._draft.get(one.keep_name) or [None])[-1],  # type: ignore[list-item]
            error=self._claim(one),
        )
        if control.error:
            self.faults.append(Fault(one.label or "The answer", control.error, _focusable(control)))
        if one.zone_name is not None:
            control.zone = (self._draft.get(one.zone_name) or ["Z"])[-1]
        if one.control in ("radios", "select", "checkboxes", "boolean", "checkbox"):
            control.choices = self._choices(control)
        if one.control == "group":
            control.children = [self.draw(child) for child in one.children]
        elif one.control == "rows":
            control.children = self._rows(one)
        return control

    def _rows(self, one: Field) -> list[Control]:
        filled = row_count(self._draft, one.name)
        fresh = self._added == one.name
        least = max(one.limits.get("min_items", 0), 1 if one.required else 0)
        count = max(filled, min(least, 20)) + fresh
        rows = []
        for index in range(count):
            row = self.draw(one.row(index))
            row.remove = one.row(index).remove_name
            if fresh and index == count - 1:
                _focus_first(row)
            rows.append(row)
        return rows

    def _choices(self, control: Control) -> list[Choice]:
        one = control.field
        if one.control == "boolean":
            pairs: list[tuple[str, str, str | None]] = [("true", "Yes", None), ("false", "No", None)]
        elif one.control == "checkbox":
            pairs = [("true", "Yes", None)]
        else:
            pairs = [(option.value, option.label, option.description) for option in one.options]
        choices = [
            Choice(f"{control.id}-{index}", value, label, about, value in control.values)
            for index, (value, label, about) in enumerate(pairs)
        ]
        if one.control in ("radios", "boolean") and (not one.required or one.nullable):
            chosen = not any(choice.chosen for choice in choices)
            choices.append(Choice(f"{control.id}-none", "", "No answer", None, chosen))
        return choices

    def _claim(self, one: Field) -> str | None:
        """The sentence for this field: its own, or that of something inside a control that draws it whole."""
        if one.extra:
            return None
        place = one.dotted
        found = self.errors.pop(place, None) if place else None
        if one.control not in ("group", "rows") and place:
            inside = [key for key in self.errors if key.startswith(place + ".")]
            for key in inside:
                sentence = self.errors.pop(key)
                step = key[len(place) + 1 :]
                where = f"Entry {int(step) + 1}" if step.isdecimal() else step
                found = found or f"{where}: {sentence}"
        return found


def _focusable(control: Control) -> str:
    if control.kind in ("radios", "checkboxes", "boolean", "checkbox"):
        return f"{control.id}-0"
    return control.id


def _focus_first(control: Control) -> None:
    if control.children:
        _focus_first(control.children[0])
    else:
        control.focus = True


def _hint(one: Field) -> str | None:
    limits = one.limits
    parts: list[str] = []
    if one.control == "lines":
        parts.append("One on each line.")
    elif one.zone_name is not None:
        parts.append("Beside it: the offset from UTC, such as +01:00; Z is UTC itself.")
    elif one.control == "json":
        parts.append("Text, or a JSON value." if one.takes_text else "A JSON value.")
    low, high = limits.get("minimum"), limits.get("maximum")
    above, below = limits.get("above"), limits.get("below")
    if low is not None and high is not None:
        parts.append(f"From {low} to {high}.")
    elif low is not None:
        parts.append(f"{low} or more.")
    elif high is not None:
        parts.append(f"{high} or less.")
    if above is not None:
        parts.append(f"More than {above}.")
    if below is not None:
        parts.append(f"Less than {below}.")
    if "multiple_of" in limits and limits["multiple_of"] != 1:
        parts.append(f"A multiple of {limits['multiple_of']}.")
    parts += _sizes(limits.get("min_length"), limits.get("max_length"), "character")
    parts += _sizes(limits.get("min_items"), limits.get("max_items"), "entry")
    if one.nullable and one.required:
        parts.append("Leave it empty for none.")
    return " ".join(parts) or None


def _sizes(least: Any, most: Any, unit: str) -> list[str]:
    if unit == "character" and least == 1:
        least = None  # that is what "required" says
    if least and most is not None:
        return [f"{_count(most, unit)}." if least == most else f"{least} to {_count(most, unit)}."]
    if least:
        return [f"At least {_count(least, unit)}."]
    return [f"At most {_count(most, unit)}."] if most is not None else []


def _count(number: Any, unit: str) -> str:
    many = {"entry": "entries"}.get(unit, unit + "s")
    return f"{number} {unit if number == 1 else many}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a recorded answer: a label (None for a bare value), its text, and how deep it lies."""

    label: str | None
    text: str | None
    depth: int


def lines_of(schema: dict[str, Any], value: Any) -> list[Line]:
    """A form's answer for reading, in the form's order and words."""
    lines: list[Line] = []
    fields = field_tree(schema)
    if isinstance(value, dict) and not (len(fields) == 1 and fields[0].path == ()):
        _group_lines(fields, value, 0, lines)
    else:
        lines.append(Line(None, _text(None, value), 0))
    return lines


def _group_lines(
    fields: tuple[Field, ...] | list[Field], value: dict[str, Any], depth: int, lines: list[Line]
) -> None:
    known = set()
    for one in fields:
        if one.extra:
            continue
        step = str(one.path[-1])
        known.add(step)
        if step in value:
            _value_lines(one, one.label, value[step], depth, lines)
    for step, inner in value.items():
        if step not in known:
            lines.append(Line(step, _text(None, inner), depth))


def _value_lines(one: Field, label: str, value: Any, depth: int, lines: list[Line]) -> None:
    if one.control == "group" and isinstance(value, dict):
        lines.append(Line(label, None, depth))
        _group_lines(one.children, value, depth + 1, lines)
    elif one.control == "rows" and isinstance(value, list) and one.item is not None:
        lines.append(Line(label, None if value else "None", depth))
        for index, row in enumerate(value):
            _value_lines(one.item, f"{one.item.label} {index + 1}", row, depth + 1, lines)
    else:
        lines.append(Line(label, _text(one, value), depth))


def _text(one: Field | None, value: Any) -> str:
    from rejoinder.forms.shape import text

    if one is not None:
        for option in one.options:
            if option.value == text(value):
                return option.label
        if isinstance(value, list) and one.control in ("lines", "checkboxes"):
            return (
                "\n".join(_text(one if one.control == "checkboxes" else None, item) for item in value)
                or "None"
            )
    if value is None:
        return "None"
    if isinstance(value, bool):
        return "Yes" if value else "No"
    return value if isinstance(value, str) else text(value)
