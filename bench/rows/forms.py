"""Checking a form's answer against its schema: ours, which also writes sentences for people, beside the two libraries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from bench.lines import Line
from bench.machine import Bed
from bench.stats import median
from bench.tools import ANSWER, SCHEMA


async def measure(bed: Bed) -> list[Line]:
    found = await asyncio.to_thread(_all, bed.size(20_000, 4_000))
    return [
        Line(
            "a valid form answer checked (µs; jsonschema / jsonschema-rs: "
            f"{found['jsonschema']:.0f} / {found['jsonschema-rs']:.1f})",
            f"{found['ours']:.1f}",
            "≤ 10",
            found["ours"] <= 10,
            raw=found,
        ),
        Line(
            "the same with conditions, date rules and the sender's words (µs; what JSON Schema can say of it, by "
            f"jsonschema: {found['booking-jsonschema']:.0f})",
            f"{found['booking']:.1f}",
            "≤ 10",
            found["booking"] <= 10,
            raw=found,
        ),
    ]


#: A form that uses every keyword of ours.
BOOKING = {
    "type": "object",
    "required": ["mail", "from", "to", "pay", "card"],
    "properties": {
        "mail": {"type": "string", "format": "email"},
        "from": {"type": "string", "format": "date", "minDate": "2030-01-01", "unavailableDates": ["2030-12-24", "sunday"]},
        "at": {"type": "string", "format": "time", "timeOf": "from"},
        "to": {"type": "string", "format": "date", "rangeStart": "from", "minDays": 1, "maxDays": 14},
        "until": {"type": "string", "format": "time", "timeOf": "to"},
        "pay": {"type": "string", "enum": ["card", "cash", "bill"]},
        "card": {"type": "string", "minLength": 12, "visibleWhen": {"field": "pay", "equals": "card"}},
        "address": {"type": "string", "visibleWhen": {"field": "pay", "in": ["bill", "cash"]}},
        "guests": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
    },
}  # fmt: skip
BOOKED = {
    "mail": "ann@example.com", "from": "2030-02-01", "at": "10:30", "to": "2030-02-01", "until": "12:00",
    "pay": "card", "card": "4242424242424242", "address": "left from before", "guests": ["Bob", "Eve"],
}  # fmt: skip
WORDS = {
    "form": {"fields": {"mail": {"invalid": "Enter your full address", "required": "Enter an address first"}}}
}


def _all(rounds: int) -> dict[str, float]:
    import jsonschema
    import jsonschema_rs

    from rejoinder.forms.answers import check_answer
    from rejoinder.forms.asked import form_payload

    payload = {"schema": SCHEMA}
    booking = form_payload(BOOKING, wording=WORDS)
    # Conditions as draft 2020-12 spells them. It has no word for dates that lie before one another.
    plain = BOOKING | {
        "required": ["mail", "from", "to", "pay"],
        "if": {"properties": {"pay": {"const": "card"}}},
        "then": {"required": ["card"]},
    }
    conditional = jsonschema.Draft202012Validator(plain, format_checker=jsonschema.FormatChecker())
    slow = jsonschema.Draft202012Validator(SCHEMA)
    fast = jsonschema_rs.validator_for(SCHEMA)
    return {
        "ours": _microseconds(lambda: check_answer("form", payload, ANSWER), rounds),
        "booking": _microseconds(lambda: check_answer("form", booking, BOOKED), rounds),
        "booking-jsonschema": _microseconds(lambda: conditional.is_valid(BOOKED), rounds // 20),
        "jsonschema": _microseconds(lambda: slow.is_valid(ANSWER), rounds // 20),
        "jsonschema-rs": _microseconds(lambda: fast.is_valid(ANSWER), rounds),
    }


def _microseconds(act: Callable[[], object], rounds: int) -> float:
    """CPU time, the median of five series: undisturbed by what else the machine does."""
    series = []
    act()
    for _ in range(5):
        began = time.thread_time()
        for _ in range(rounds // 5):
            act()
        series.append((time.thread_time() - began) / (rounds // 5) * 1e6)
    return round(median(series), 2)
