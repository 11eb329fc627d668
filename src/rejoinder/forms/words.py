"""What a person is told about a value that is not accepted: one plain sentence for each kind of fault."""

from __future__ import annotations

import json
from typing import Any

from rejoinder.language.spoken import n, t

_TYPES = {
    "integer": "Enter a whole number",
    "number": "Enter a number",
    "boolean": "Choose yes or no",
    "string": "Enter text",
    "array": "Enter a list",
    "object": "Enter an object with named values",
    "null": "Leave this field empty",
}
_FORMATS = {
    "email": "Enter a valid email address",
    "idn-email": "Enter a valid email address",
    "date": "Enter a date as YYYY-MM-DD",
    "time": "Enter a time as HH:MM",
    "date-time": "Enter a date and time with its time zone, such as 2030-01-31T14:00:00+01:00",
    "duration": "Enter a duration such as P1DT2H",
    "uri": "Enter a full web address, such as https://example.com",
    "uri-reference": "Enter a web address",
    "iri": "Enter a full web address, such as https://example.com",
    "iri-reference": "Enter a web address",
    "hostname": "Enter a host name, such as example.com",
    "idn-hostname": "Enter a host name, such as example.com",
    "ipv4": "Enter an IPv4 address, such as 192.0.2.1",
    "ipv6": "Enter an IPv6 address, such as 2001:db8::1",
    "uuid": "Enter a UUID, such as 123e4567-e89b-12d3-a456-426614174000",
    "regex": "Enter a valid regular expression",
    "json-pointer": "Enter a JSON pointer, such as /a/b",
}
_NOUNS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "yes or no",
    "string": "text",
    "array": "a list",
    "object": "an object with named values",
}


def required() -> str:
    return t("This field is required")


def offered() -> str:
    return t("Choose one of the offered options")


def offered_many() -> str:
    return t("Choose from the offered options")


def other() -> str:
    return t("This value is not accepted")


def too_deep() -> str:
    return t("This value is nested too deeply")


def unknown() -> str:
    return t("This field is not part of the form")


def pattern() -> str:
    return t("This is not in the expected form")


def of_type(*types: str) -> str:
    """The sentence for a value of the wrong type."""
    wanted = [name for name in types if name != "null"] or list(types)
    if set(wanted) == {"integer", "number"}:
        wanted = ["number"]
    if len(wanted) == 1:
        return t(_TYPES[wanted[0]]) if wanted[0] in _TYPES else other()
    return t("Enter {kinds}", kinds=t(" or ").join(t(_NOUNS.get(name, name)) for name in wanted))


def of_format(name: str) -> str:
    return t(_FORMATS[name]) if name in _FORMATS else pattern()


def least(limit: Any, kind: str) -> str:
    """``kind`` is ``character``, ``entry``, ``value`` or ``number``."""
    return _limit(_LEAST[kind], limit)


def most(limit: Any, kind: str) -> str:
    return _limit(_MOST[kind], limit)


def _limit(pair: tuple[str, str], limit: Any) -> str:
    return t(pair[0 if limit == 1 else 1], count=number(limit))


_LEAST = {
    "character": ("Enter at least {count} character", "Enter at least {count} characters"),
    "entry": ("Give at least {count} entry", "Give at least {count} entries"),
    "option": ("Choose at least {count} option", "Choose at least {count} options"),
    "value": ("Give at least {count} value", "Give at least {count} values"),
    "number": ("Enter a number of at least {count}", "Enter a number of at least {count}"),
}
_MOST = {
    "character": ("Enter at most {count} character", "Enter at most {count} characters"),
    "entry": ("Give at most {count} entry", "Give at most {count} entries"),
    "option": ("Choose at most {count} option", "Choose at most {count} options"),
    "value": ("Give at most {count} value", "Give at most {count} values"),
    "number": ("Enter a number of at most {count}", "Enter a number of at most {count}"),
}


def on_or_after(date: str) -> str:
    return t("Choose a date on or after {date}", date=date)


def on_or_before(date: str) -> str:
    return t("Choose a date on or before {date}", date=date)


def unavailable() -> str:
    return t("This date is not available; choose another")


def before_start(label: str, *, time: bool = False) -> str:
    if time:
        return t("Choose a time that is not before “{label}”", label=label)
    return t("Choose a date that is not before “{label}”", label=label)


def span(low: int | None, high: int | None) -> str:
    """``low`` and ``high`` are days, both ends counted."""
    if low is not None and high is not None and low != high:
        return t("Choose from {low} to {high} days, first and last day counted", low=low, high=high)
    if low is not None and high is not None:
        return n(
            "Choose exactly {count} day, first and last day counted",
            "Choose exactly {count} days, first and last day counted",
            low,
        )
    if low is not None:
        return n(
            "Choose at least {count} day, first and last day counted",
            "Choose at least {count} days, first and last day counted",
            low,
        )
    return n(
        "Choose at most {count} day, first and last day counted",
        "Choose at most {count} days, first and last day counted",
        high,
    )


def number(value: Any) -> str:
    """A number as people write it: 1.0 is printed 1."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return str(value)


def shown(value: Any, limit: int = 80) -> str:
    """A JSON value inside a sentence: text as it is, the rest as JSON, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def listed(values: list[Any], limit: int = 2_000) -> str:
    """The values as a JSON list, cut where it is long."""
    parts: list[str] = []
    size = 0
    for value in values:
        part = json.dumps(value, ensure_ascii=False)
        size += len(part) + 2
        if parts and size > limit:
            parts.append("…")
            break
        parts.append(part)
    return "[" + ", ".join(parts) + "]"
