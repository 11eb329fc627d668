"""What a person is told about a value that is not accepted: one plain sentence for each kind of fault."""

from __future__ import annotations

import json
from typing import Any

REQUIRED = "This field is required"
OFFERED = "Choose one of the offered options"
OFFERED_MANY = "Choose from the offered options"
OTHER = "This value is not accepted"
TOO_DEEP = "This value is nested too deeply"
UNKNOWN = "This field is not part of the form"

TYPES = {
    "integer": "Enter a whole number",
    "number": "Enter a number",
    "boolean": "Choose yes or no",
    "string": "Enter text",
    "array": "Enter a list",
    "object": "Enter an object with named values",
    "null": "Leave this field empty",
}
FORMATS = {
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


def of_type(types: list[str]) -> str:
    """The sentence for a value of the wrong type."""
    wanted = [name for name in types if name != "null"] or types
    if set(wanted) == {"integer", "number"}:
        wanted = ["number"]
    if len(wanted) == 1:
        return TYPES.get(wanted[0], OTHER)
    return "Enter " + " or ".join(_NOUNS.get(name, name) for name in wanted)


_NOUNS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "yes or no",
    "string": "text",
    "array": "a list",
    "object": "an object with named values",
}


def of_format(name: str) -> str:
    return FORMATS.get(name, "This is not in the expected form")


def number(value: Any) -> str:
    """A number as people write it: 1.0 is printed 1."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return str(value)


def counted(value: Any, one: str, many: str) -> str:
    return f"{number(value)} {one if value == 1 else many}"


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
