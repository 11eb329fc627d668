"""The keywords that forms add to JSON Schema: which fields are shown, and which dates fit each other.

They stand on the form's own fields (the properties of the root). A field whose condition does not hold is hidden:
neither required nor looked at, and its value is dropped. All conditions are looked at once, on the values as they
were sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rejoinder.forms import words
from rejoinder.forms.dates import day_of, time_of
from rejoinder.forms.fault import Fault, Path
from rejoinder.forms.shape import same

Test = Literal["equals", "in", "notEmpty"]


@dataclass(frozen=True, slots=True)
class Condition:
    """When a field is shown: ``field`` holds one of ``values``, or anything at all (``notEmpty``). ``texts`` are those of
    the values that are text."""

    field: str
    test: Test
    values: tuple[Any, ...] = ()
    texts: frozenset[str] = frozenset()

    def holds(self, answer: dict[str, Any]) -> bool:
        if self.field not in answer:
            return False
        given = answer[self.field]
        if self.test == "notEmpty":
            return given not in ("", None, [], {})
        if type(given) is str:
            return given in self.texts
        return any(same(given, value) for value in self.values)


@dataclass(frozen=True, slots=True)
class DateLimits:
    """``days`` are dates as ``YYYY-MM-DD`` and ``weekdays`` numbers from Monday (0), on which nothing can be chosen."""

    name: str
    earliest: str | None
    latest: str | None
    days: frozenset[str]
    weekdays: frozenset[int]

    def fault(self, text: str) -> Fault | None:
        """For a text that is a date: of any other, the schema's own format tells."""
        if self.earliest is not None and text < self.earliest:
            return Fault(words.on_or_after(self.earliest))
        if self.latest is not None and text > self.latest:
            return Fault(words.on_or_before(self.latest))
        if text in self.days:
            return Fault(words.unavailable(), kind="unavailable")
        if self.weekdays and (day := day_of(text)) is not None and day.weekday() in self.weekdays:
            return Fault(words.unavailable(), kind="unavailable")
        return None


@dataclass(frozen=True, slots=True)
class DateRange:
    """The date ``end`` is not before the date ``start``; on one and the same day their times decide."""

    start: str
    end: str
    start_label: str
    least: int | None
    most: int | None
    start_time: str | None = None
    end_time: str | None = None
    start_time_label: str = ""

    def fault(self, answer: dict[str, Any]) -> tuple[str, Fault] | None:
        begins, ends = answer.get(self.start), answer.get(self.end)
        if begins is None or ends is None:
            return None
        days = 1
        if begins != ends:
            first, last = day_of(begins), day_of(ends)
            if first is None or last is None:
                return None
            days = (last - first).days + 1
        if days < 1:
            return self.end, Fault(words.before_start(self.start_label))
        if (self.least is not None and days < self.least) or (self.most is not None and days > self.most):
            return self.end, Fault(words.span(self.least, self.most))
        if days == 1 and self.start_time is not None and self.end_time is not None:
            begun, over = time_of(answer.get(self.start_time)), time_of(answer.get(self.end_time))
            if begun is not None and over is not None and over < begun:
                return self.end_time, Fault(words.before_start(self.start_time_label, time=True))
        return None


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one form, ready to use."""

    conditions: dict[str, Condition]
    #: Fields that are required only while they are shown.
    required: tuple[str, ...]
    #: Fields that hold plain text: an empty one is no answer.
    texts: frozenset[str]
    dates: tuple[DateLimits, ...]
    ranges: tuple[DateRange, ...]

    def hidden(self, answer: dict[str, Any]) -> set[str]:
        """The fields that these values hide."""
        return {name for name, condition in self.conditions.items() if not condition.holds(answer)}

    def settled(self, answer: dict[str, Any], hidden: set[str] | None = None) -> dict[str, Any]:
        """The answer without what is hidden and without empty texts; the same object where nothing is left out."""
        if hidden is None:
            hidden = self.hidden(answer)
        gone = hidden.intersection(answer) if hidden else set[str]()
        if "" in answer.values():
            gone.update(name for name, value in answer.items() if value == "" and name in self.texts)
        if not gone:
            return answer
        kept = dict(answer)
        for name in gone:
            del kept[name]
        return kept

    def faults(self, settled: dict[str, Any], hidden: set[str]) -> list[tuple[Path, Fault]]:
        """What the schema itself does not say of an answer, given the fields that are hidden."""
        missing = [name for name in self.required if name not in settled and name not in hidden]
        found: list[tuple[Path, Fault]] = [
            ((name,), Fault(words.required(), kind="required")) for name in missing
        ]
        for limits in self.dates:
            text = settled.get(limits.name)
            if type(text) is str and (fault := limits.fault(text)) is not None:
                found.append(((limits.name,), fault))
        told = [pair for one in self.ranges if (pair := one.fault(settled)) is not None]
        return found + [((name,), fault) for name, fault in told] if told else found
