"""The form keywords of a schema, checked and made into ``Rules``.

``control`` and ``inputMode`` are not among them: they only say how a field is drawn.
"""

from __future__ import annotations

from typing import Any, cast

from rejoinder.forms.dates import WEEKDAYS, day_of
from rejoinder.forms.rules import Condition, DateLimits, DateRange, Rules, Test
from rejoinder.forms.shape import same
from rejoinder.forms.walk import Path, SchemaFault

LIMITS = ("minDate", "maxDate", "unavailableDates")
RANGES = ("rangeStart", "minDays", "maxDays")
KEYWORDS = frozenset(("visibleWhen", "timeOf", *LIMITS, *RANGES))
_TESTS = ("equals", "in", "notEmpty")
#: Entries of ``unavailableDates`` and of ``in``.
MAX_ENTRIES = 1_000


def rules_of(schema: dict[str, Any], places: dict[Path, Any]) -> Rules:
    """The rules that the fields of this schema state; ``places`` are its subschemas by path.

    Raises SchemaFault at the keyword that is wrong, or that stands where it would have no effect.
    """
    fields = {name: node for name, node in _properties(schema).items() if isinstance(node, dict)}
    for path, node in places.items():
        if isinstance(node, dict) and not (len(path) == 2 and path[0] == "properties"):
            for keyword in KEYWORDS & node.keys():
                raise SchemaFault(
                    (*path, keyword), f"{keyword} works on the form's own fields only, not inside them"
                )
    reader = _Reader(fields)
    conditions = {name: reader.condition(name) for name in fields if "visibleWhen" in fields[name]}
    _check_circles(conditions)
    required = schema.get("required", [])
    return Rules(
        conditions=conditions,
        required=tuple(name for name in required if name in conditions),
        texts=frozenset(name for name, node in fields.items() if _is_plain_text(node)),
        dates=tuple(reader.limits(name) for name in fields if any(k in fields[name] for k in LIMITS)),
        ranges=reader.ranges(),
    )


def without_conditional(schema: dict[str, Any], rules: Rules) -> dict[str, Any]:
    """The schema as the validator applies it: what is required only while it is shown, is looked at apart."""
    if not rules.required:
        return schema
    return schema | {"required": [name for name in schema["required"] if name not in rules.required]}


def types_of(node: dict[str, Any]) -> set[str]:
    """The types a field takes, where it says so itself; null is left out."""
    kinds = node.get("type")
    if isinstance(kinds, str):
        return {kinds}
    if isinstance(kinds, list):
        return {kind for kind in kinds if kind != "null"}
    inner = [one for keyword in ("anyOf", "oneOf") for one in node.get(keyword, ()) if isinstance(one, dict)]
    return {kind for one in inner for kind in types_of(one) if kind != "null"}


def has_format(node: dict[str, Any], wanted: str) -> bool:
    """Whether a field, or what it may be beside null, is text of this format."""
    if node.get("format") == wanted:
        return True
    inner = [one for keyword in ("anyOf", "oneOf") for one in node.get(keyword, ()) if isinstance(one, dict)]
    rest = [one for one in inner if one.get("type") != "null"]
    return len(rest) == 1 and has_format(rest[0], wanted)


def label_of(name: str, node: dict[str, Any]) -> str:
    title = node.get("title")
    return title if isinstance(title, str) and title else name


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    found = schema.get("properties", {})
    return found if isinstance(found, dict) else {}


def _is_plain_text(node: dict[str, Any]) -> bool:
    return node.get("type") == "string" and "enum" not in node and "const" not in node


class _Reader:
    def __init__(self, fields: dict[str, dict[str, Any]]) -> None:
        self._fields = fields

    # Conditions

    def condition(self, name: str) -> Condition:
        given = self._fields[name]["visibleWhen"]
        place: Path = ("properties", name, "visibleWhen")
        if not isinstance(given, dict):
            raise SchemaFault(place, 'it must be an object such as {"field": "kind", "equals": "card"}')
        tests = [key for key in given if key != "field"]
        if len(tests) != 1 or tests[0] not in _TESTS:
            raise SchemaFault(place, "it must hold field and exactly one of equals, in and notEmpty")
        field, test = self._other(name, given.get("field"), (*place, "field")), tests[0]
        if test == "notEmpty":
            if given[test] is not True:
                raise SchemaFault((*place, test), "notEmpty can only be true")
            return Condition(field, "notEmpty")
        values = [given[test]] if test == "equals" else given[test]
        if not isinstance(values, list) or not values or len(values) > MAX_ENTRIES:
            raise SchemaFault((*place, test), "it must be a list of values that is not empty")
        for value in values:
            self._check_possible(field, value, (*place, test))
        texts = frozenset(value for value in values if isinstance(value, str))
        return Condition(field, cast(Test, test), tuple(values), texts)

    def _check_possible(self, field: str, value: Any, place: Path) -> None:
        """A value that the other field can never hold would hide this one for ever."""
        node = self._fields[field]
        choices = [node["const"]] if "const" in node else node.get("enum")
        if choices is not None:
            fits = any(same(value, choice) for choice in choices)
        else:
            kinds = types_of(node)
            if "array" in kinds or "object" in kinds:
                raise SchemaFault(place, f"{field} holds no single value; test it with notEmpty")
            fits = (
                not kinds or _kind_of(value) in kinds or ("number" in kinds and _kind_of(value) == "integer")
            )
        if not fits:
            raise SchemaFault(place, f"{field} never holds this value")

    # Dates

    def limits(self, name: str) -> DateLimits:
        self._need_format(name, "date", next(key for key in LIMITS if key in self._fields[name]))
        earliest, latest = self._day(name, "minDate"), self._day(name, "maxDate")
        if earliest is not None and latest is not None and latest < earliest:
            raise SchemaFault(("properties", name, "maxDate"), "it lies before minDate, so that no date fits")
        days, weekdays = self._closed(name)
        return DateLimits(name, earliest, latest, days, weekdays)

    def _day(self, name: str, keyword: str) -> str | None:
        if keyword not in self._fields[name]:
            return None
        text = self._fields[name][keyword]
        if day_of(text) is None:
            raise SchemaFault(("properties", name, keyword), "it must be a date as YYYY-MM-DD")
        return str(text)

    def _closed(self, name: str) -> tuple[frozenset[str], frozenset[int]]:
        place: Path = ("properties", name, "unavailableDates")
        listed = self._fields[name].get("unavailableDates", [])
        if not isinstance(listed, list) or len(listed) > MAX_ENTRIES:
            raise SchemaFault(place, f"it must be a list of at most {MAX_ENTRIES} dates and weekdays")
        days: set[str] = set()
        weekdays: set[int] = set()
        for index, one in enumerate(listed):
            if isinstance(one, str) and one.lower() in WEEKDAYS:
                weekdays.add(WEEKDAYS.index(one.lower()))
            elif day_of(one) is not None:
                days.add(str(one))
            else:
                raise SchemaFault(
                    (*place, index), "it must be a date as YYYY-MM-DD or a weekday such as sunday"
                )
        if len(weekdays) == 7:
            raise SchemaFault(place, "it names every weekday, so that no date fits")
        return frozenset(days), frozenset(weekdays)

    def ranges(self) -> tuple[DateRange, ...]:
        found: list[DateRange] = []
        for name, node in self._fields.items():
            given = [key for key in RANGES if key in node]
            if not given:
                continue
            place: Path = ("properties", name)
            self._need_format(name, "date", given[0])
            if "rangeStart" not in node:
                raise SchemaFault((*place, given[0]), "it goes with rangeStart, on the field of the last day")
            start = self._other(name, node["rangeStart"], (*place, "rangeStart"))
            self._need_format(start, "date", "rangeStart", (*place, "rangeStart"))
            least, most = self._days(name, "minDays"), self._days(name, "maxDays")
            if least is not None and most is not None and most < least:
                raise SchemaFault((*place, "maxDays"), "it is less than minDays, so that no range fits")
            found.append(DateRange(start, name, label_of(start, self._fields[start]), least, most))
        return tuple(self._with_times(found))

    def _days(self, name: str, keyword: str) -> int | None:
        value = self._fields[name].get(keyword)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise SchemaFault(("properties", name, keyword), "it must be a number of days from 1")
        return value

    def _with_times(self, ranges: list[DateRange]) -> list[DateRange]:
        times: dict[str, str] = {}
        for name, node in self._fields.items():
            if "timeOf" not in node:
                continue
            place: Path = ("properties", name, "timeOf")
            self._need_format(name, "time", "timeOf")
            day = self._other(name, node["timeOf"], place)
            if not any(day in (one.start, one.end) for one in ranges):
                raise SchemaFault(place, "it must name a date field at the beginning or the end of a range")
            if day in times:
                raise SchemaFault(place, f"{day} has a time already: {times[day]}")
            if not same(node.get("visibleWhen"), self._fields[day].get("visibleWhen")):
                raise SchemaFault(place, f"it must have the same visibleWhen as {day}")
            times[day] = name
        return [
            DateRange(
                one.start, one.end, one.start_label, one.least, one.most,
                times.get(one.start), times.get(one.end),
                label_of(times[one.start], self._fields[times[one.start]]) if one.start in times else "",
            )
            for one in ranges
        ]  # fmt: skip

    # Both

    def _other(self, name: str, other: Any, place: Path) -> str:
        if not isinstance(other, str) or other not in self._fields:
            raise SchemaFault(place, "it must name another field of the form")
        if other == name:
            raise SchemaFault(place, "it must name another field than its own")
        return other

    def _need_format(self, name: str, wanted: str, keyword: str, place: Path | None = None) -> None:
        if not has_format(self._fields[name], wanted):
            what = f"{keyword} goes with" if place is None else f"{name} must be"
            raise SchemaFault(place or ("properties", name, keyword), f'{what} "format": "{wanted}"')


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    return "number" if isinstance(value, float) else "string" if isinstance(value, str) else "other"


def _check_circles(conditions: dict[str, Condition]) -> None:
    for name in conditions:
        seen = {name}
        at = conditions[name].field
        while at in conditions:
            if at in seen:
                raise SchemaFault(
                    ("properties", name, "visibleWhen"), "the conditions of these fields go round in a circle"
                )
            seen.add(at)
            at = conditions[at].field
