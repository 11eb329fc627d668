"""A form as one page or several: which fields stand on which, which are passed over, and where a press leads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rejoinder.forms.engine import compiled
from rejoinder.forms.field import Field
from rejoinder.forms.fields import field_tree


@dataclass(frozen=True, slots=True)
class Step:
    """One page of a form. ``names`` are its fields, ``fields`` the same with what has no name of its own."""

    index: int
    kind: str
    title: str | None
    button: str | None
    blocks: tuple[dict[str, str], ...]
    names: tuple[str, ...]
    fields: tuple[Field, ...]


class Steps:
    """The pages of one form, for the values that were entered so far."""

    def __init__(self, payload: dict[str, Any], value: Any) -> None:
        schema = payload.get("schema") or {}
        self.all = _parted(field_tree(schema), payload.get("pages"))
        answer = value if isinstance(value, dict) else {}
        self.conditions = compiled(schema).rules.conditions
        #: The fields that the values so far hide.
        self.hidden = {name for name, condition in self.conditions.items() if not condition.holds(answer)}

    @property
    def several(self) -> bool:
        return len(self.all) > 1

    def known(self, text: str | None) -> int:
        """The page that a form was sent from; the first one where it does not say so."""
        if text is None or not text.isascii() or not text.isdecimal() or len(text) > 4:
            return 0
        return min(int(text), len(self.all) - 1)

    def is_last(self, at: int) -> bool:
        return at == len(self.all) - 1

    def after(self, at: int) -> int:
        """The next page that asks or shows anything; the last one where no other does."""
        return next(
            (index for index in range(at + 1, len(self.all)) if self._counts(index)), len(self.all) - 1
        )

    def before(self, at: int) -> int:
        return next((index for index in range(at - 1, -1, -1) if self._counts(index)), 0)

    def shown(self) -> list[int]:
        """The pages that count now, by index."""
        return [index for index in range(len(self.all)) if self._counts(index) or self.is_last(index)]

    def of(self, places: dict[str, str], at: int) -> dict[str, str]:
        """The faults, by dotted path, of the fields on this page."""
        names = self.all[at].names
        return {place: text for place, text in places.items() if _field_of(place, names) is not None}

    def first_with(self, places: dict[str, str]) -> int:
        """The first page with a fault; the last one where the faults belong to no field."""
        for step in self.all:
            if any(_field_of(place, step.names) is not None for place in places):
                return step.index
        return len(self.all) - 1

    def hides_elsewhere(self, name: str, at: int) -> bool:
        """Whether a field of this page is hidden by one of another page, so that nothing here can show it."""
        return name in self.hidden and self.conditions[name].field not in self.all[at].names

    def _counts(self, index: int) -> bool:
        step = self.all[index]
        if step.kind == "review" or step.blocks:
            return True
        here = set(step.names)
        return any(name not in self.hidden or self.conditions[name].field in here for name in step.names)


def _parted(fields: list[Field], pages: list[dict[str, Any]] | None) -> list[Step]:
    if not pages:
        names = tuple(str(one.path[0]) for one in fields if len(one.path) == 1)
        return [Step(0, "input", None, None, (), names, tuple(fields))]
    by_name = {str(one.path[0]): one for one in fields if len(one.path) == 1}
    rest = [one for one in fields if len(one.path) != 1]
    last_input = max((i for i, page in enumerate(pages) if page["kind"] == "input"), default=0)
    return [
        Step(
            index,
            page["kind"],
            page.get("title"),
            page.get("button_label"),
            tuple(page.get("display", ())),
            tuple(page["fields"]),
            (*(by_name[name] for name in page["fields"]), *(rest if index == last_input else ())),
        )
        for index, page in enumerate(pages)
    ]


def _field_of(place: str, names: tuple[str, ...]) -> str | None:
    """Which of these fields a dotted path lies in."""
    for name in names:
        spelled = name.replace("\\", "\\\\").replace(".", "\\.") or '""'
        if place == spelled or place.startswith(spelled + "."):
            return name
    return None
