"""A form's fields as a page draws them: what each control holds, what is wrong with it, how many rows a list shows."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as factory
from typing import Any

from rejoinder.forms.field import Field
from rejoinder.forms.submit import row_count
from rejoinder.language.spoken import t
from rejoinder.web.checks import Checks
from rejoinder.web.hints import hint
from rejoinder.web.reading import choices_of

Draft = dict[str, list[str]]
#: Words for the entries of a list: with any of them it is drawn as one control an entry.
ENTRY_WORDS = frozenset(("add_item", "remove_item", "item_label", "no_items"))


@dataclass(slots=True)
class Choice:
    id: str
    value: str
    label: str
    description: str | None
    chosen: bool


@dataclass(slots=True)
class Control:
    """One field on the page. ``kind`` is its ``Field.control``, or ``entries`` for a list with a control an entry; a
    ``rows`` control holds its rows as children. ``words`` are the sender's own for this field."""

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
    words: dict[str, str] = factory(default_factory=dict)
    #: For one row of a list: the name of the button that takes it away.
    remove: str | None = None
    focus: bool = False
    #: For the form's own fields: what the script checks, when it shows the field (both JSON), and that in words.
    checks: str | None = None
    when: str | None = None
    note: str | None = None
    hidden: bool = False

    @property
    def value(self) -> str:
        return self.values[-1] if self.values else ""

    @property
    def optional(self) -> bool:
        return not self.field.required and self.remove is None

    @property
    def own(self) -> str | None:
        """The name of one of the form's own fields."""
        return str(self.field.path[0]) if len(self.field.path) == 1 else None

    @property
    def chips(self) -> bool:
        return self.field.chips

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


class Artist:
    """Draws the controls of one form for a draft. ``errors`` maps dotted paths to sentences; what no control claimed is
    left in it. ``added`` is the list that gets a blank row, whose first control is then the one to focus."""

    def __init__(
        self, payload: dict[str, Any], draft: Draft, errors: dict[str, str], added: str | None
    ) -> None:
        self._payload = payload
        self._draft = draft
        self.errors = dict(errors)
        self._added = added
        self.faults: list[Fault] = []
        self._count = 0
        self._checks = Checks(payload)
        self._labels = choices_of(payload)
        self._descriptions = {
            name: {one["value"]: one["description"] for one in choices if "description" in one}
            for name, choices in ((payload.get("data") or {}).get("options") or {}).items()
        }
        form = (payload.get("wording") or {}).get("form") or {}
        self._words: dict[str, dict[str, str]] = form.get("fields") or {}

    def draw(self, one: Field) -> Control:
        self._count += 1
        own = str(one.path[0]) if len(one.path) == 1 else None
        spoken = self._words.get(own, {}) if own is not None else {}
        entries = one.control == "lines" and bool(ENTRY_WORDS & spoken.keys())
        control = Control(
            id=f"field-{self._count}",
            field=one,
            kind="entries" if entries else one.control,
            values=list(self._draft.get(one.name, ())),
            label=one.label,
            hint=None if entries else hint(one, spoken),
            kept=(self._draft.get(one.keep_name) or [None])[-1],  # type: ignore[list-item]
            error=self._claim(one),
            words=spoken,
        )
        if own is not None:
            control.checks = self._checks.of(one)
            control.when = self._checks.when(own)
            control.note = self._checks.note(own, self._labels)
        if one.zone_name is not None:
            control.zone = (self._draft.get(one.zone_name) or ["Z"])[-1]
        if entries:
            control.values = self._entries(control)
        if one.control in ("radios", "select", "checkboxes", "boolean", "checkbox"):
            control.choices = self._choices(control)
        if control.error:
            self.faults.append(Fault(one.label or t("The answer"), control.error, _focusable(control)))
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

    def _entries(self, control: Control) -> list[str]:
        values = [line for text in control.values for line in text.split("\n") if line.strip()]
        fresh = self._added == control.field.name
        least = max(control.field.limits.get("min_items", 0), 1 if control.field.required else 0)
        control.focus = fresh
        return values + [""] * max(min(least, 20) - len(values), int(fresh))

    def _choices(self, control: Control) -> list[Choice]:
        one, spoken = control.field, control.words
        pairs: list[tuple[str, str, str | None]]
        if one.control == "boolean":
            pairs = [
                ("true", spoken.get("true_label") or t("Yes"), None),
                ("false", spoken.get("false_label") or t("No"), None),
            ]
        elif one.control == "checkbox":
            pairs = [("true", t("Yes"), None)]
        else:
            own = control.own or ""
            labels, about = self._labels.get(own, {}), self._descriptions.get(own, {})
            pairs = [
                (
                    option.value,
                    labels.get(option.value) or option.label,
                    about.get(option.label) or option.description,
                )
                for option in one.options
            ]
        choices = [
            Choice(f"{control.id}-{index}", value, label, about, value in control.values)
            for index, (value, label, about) in enumerate(pairs)
        ]
        if one.control in ("radios", "boolean") and (not one.required or one.nullable):
            chosen = not any(choice.chosen for choice in choices)
            choices.append(Choice(f"{control.id}-none", "", t("No answer"), None, chosen))
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
                where = t("Entry {number}", number=int(step) + 1) if step.isdecimal() else step
                found = found or f"{where}: {sentence}"
        return found


def _focusable(control: Control) -> str:
    if control.kind in ("radios", "checkboxes", "boolean", "checkbox", "entries"):
        return f"{control.id}-0"
    return control.id


def _focus_first(control: Control) -> None:
    if control.children:
        _focus_first(control.children[0])
    else:
        control.focus = True
