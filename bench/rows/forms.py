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
        )
    ]


def _all(rounds: int) -> dict[str, float]:
    import jsonschema
    import jsonschema_rs

    from rejoinder.forms.answers import check_answer

    payload = {"schema": SCHEMA}
    slow = jsonschema.Draft202012Validator(SCHEMA)
    fast = jsonschema_rs.validator_for(SCHEMA)
    return {
        "ours": _microseconds(lambda: check_answer("form", payload, ANSWER), rounds),
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
