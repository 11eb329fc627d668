"""What the script tells a person before anything is sent, and when it shows a field.

The server checks again and decides. So a check here may let through what the server refuses, and never the other way
round: patterns, moments and whatever a browser counts differently are left to the server. The sentences are made
here, so that both say the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rejoinder.forms import words
from rejoinder.forms.engine import compiled
from rejoinder.forms.field import Field
from rejoinder.forms.keywords import label_of
from rejoinder.forms.rules import DateRange, Rules
from rejoinder.forms.shape import text
from rejoinder.forms.wording import word
from rejoinder.language.spoken import t

#: ``[kind, what it is measured by, sentence]``
Check = list[Any]

_NUMBERS = {"minimum": "least", "maximum": "most"}
#: Beyond this a browser's numbers are no longer exact.
_EXACT = 2**53


class Checks:
    """The checks of one form's own fields."""

    def __init__(self, payload: dict[str, Any]) -> None:
        schema = payload.get("schema") or {}
        self._properties: dict[str, Any] = schema.get("properties", {})
        self._wording = payload.get("wording")
        self.rules: Rules = compiled(schema).rules

    def of(self, one: Field) -> str | None:
        """The checks of a field as JSON, or None where the server alone looks."""
        name = str(one.path[0])
        found = list(self._checks(one, name))
        return json.dumps(found, ensure_ascii=False) if found else None

    def when(self, name: str) -> str | None:
        """The condition that shows a field, as JSON."""
        condition = self.rules.conditions.get(name)
        if condition is None:
            return None
        return json.dumps(
            {"field": condition.field, "test": condition.test, "values": list(condition.values)},
            ensure_ascii=False,
        )

    def note(self, name: str, labels: dict[str, dict[str, str]]) -> str | None:
        """The same in words, for a page without scripts."""
        condition = self.rules.conditions.get(name)
        if condition is None:
            return None
        label = label_of(condition.field, self._properties.get(condition.field, {}))
        if condition.test == "notEmpty":
            return t("Counts only where “{field}” is filled in.", field=label)
        own = labels.get(condition.field, {})
        values = [_shown(own.get(text(one), one)) for one in condition.values]
        return t("Counts only where “{field}” is {values}.", field=label, values=t(" or ").join(values))

    def _checks(self, one: Field, name: str) -> Iterator[Check]:
        invalid = word(self._wording, "form", "fields", name, "invalid")
        if one.required:
            own = word(self._wording, "form", "fields", name, "required")
            if own is None and one.control in ("radios", "select"):
                own = word(self._wording, "answer_page", "form", "choose_one")
            yield ["required", None, own or words.required()]
        if one.control in ("integer", "number"):
            yield [one.control, None, invalid or words.of_type(one.control)]
            for limit, kind in _NUMBERS.items():
                if limit in one.limits and abs(one.limits[limit]) < _EXACT:
                    make = words.least if limit == "minimum" else words.most
                    yield [kind, one.limits[limit], invalid or make(one.limits[limit], "number")]
        elif one.control in ("text", "textarea"):
            yield from self._text_checks(one, name, invalid)
        elif one.control in ("checkboxes", "lines"):
            for limit, kind in (("min_items", "fewest"), ("max_items", "several")):
                if limit in one.limits:
                    make = words.least if limit == "min_items" else words.most
                    yield [kind, one.limits[limit], invalid or make(one.limits[limit], "entry")]

    def _text_checks(self, one: Field, name: str, invalid: str | None) -> Iterator[Check]:
        if one.input_type in ("email", "date", "time"):
            yield [one.input_type, None, invalid or words.of_format(one.input_type)]
        if "min_length" in one.limits and one.limits["min_length"] > 1:
            least = one.limits["min_length"]
            yield ["shortest", least, invalid or words.least(least, "character")]
        if "max_length" in one.limits:
            most = one.limits["max_length"]
            yield ["longest", most, invalid or words.most(most, "character")]
        for limits in self.rules.dates:
            if limits.name == name:
                if limits.earliest is not None:
                    yield ["from", limits.earliest, invalid or words.on_or_after(limits.earliest)]
                if limits.latest is not None:
                    yield ["until", limits.latest, invalid or words.on_or_before(limits.latest)]
                if limits.days or limits.weekdays:
                    own = invalid or word(self._wording, "answer_page", "form", "date_unavailable")
                    closed = {"days": sorted(limits.days), "weekdays": sorted(limits.weekdays)}
                    yield ["closed", closed, own or words.unavailable()]
        for one_range in self.rules.ranges:
            yield from _range_checks(one_range, name, invalid)


def _range_checks(one: DateRange, name: str, invalid: str | None) -> Iterator[Check]:
    if name == one.end:
        yield ["after", one.start, invalid or words.before_start(one.start_label)]
        if one.least is not None or one.most is not None:
            span = {"start": one.start, "least": one.least, "most": one.most}
            yield ["span", span, invalid or words.span(one.least, one.most)]
    if name == one.end_time and one.start_time is not None:
        times = {"start": one.start, "end": one.end, "time": one.start_time}
        yield ["later", times, invalid or words.before_start(one.start_time_label, time=True)]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return t("Yes") if value else t("No")
    return t("“{value}”", value=words.shown(value))
