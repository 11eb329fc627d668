"""Ten parked questions, ten thousand, a million: what answering one costs, what a page of the list costs, what each holds."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from bench import load
from bench.client import expect
from bench.desk import Desk
from bench.lines import Line, ms, spread_text
from bench.machine import Bed, Process, resident_kib
from bench.stats import spread


async def measure(bed: Bed) -> list[Line]:
    many = bed.size(1_000_000, 100_000)
    found: dict[int, dict[str, Any]] = {}
    async with bed.database() as url, bed.server(url) as (server, key):
        empty = await load.bytes_stored(url)
        written = 0
        for count in (10, 10_000, many):
            await load.parked(url, written + 1, count, timedelta(hours=10))
            written = count
            stored = await load.bytes_stored(url)
            found[count] = await _one_size(bed, url, server, key, count)
            found[count]["bytes_each"] = round((stored - empty) / count)
    few, most = found[10], found[many]
    grown = round((most["rss_kib"] - found[10_000]["rss_kib"]) * 1024 / many, 1)
    whole = many == 1_000_000
    return [
        Line(
            f"answering a parked question among 10 / among {many:,} (ms, p50)",
            f"{ms(few['answer']['p50'])} / {ms(most['answer']['p50'])}",
            "the same",
            most["answer"]["p50"] <= few["answer"]["p50"] * 1.5 + 0.3 if whole else None,
            raw={str(count): one for count, one in found.items()},
        ),
        Line(
            f"a parked question holds, of {many:,}: bytes of disk / of the server's memory",
            f"{most['bytes_each']:,} / {grown:g}",
            "no memory",
            grown < 10 if whole else None,
        ),
        *(
            Line(
                f"a page of the list, {count:,} open (ms, p50 / p90 / p99 / max)",
                spread_text(found[count]["list"]),
                "p50 < 8",
                found[count]["list"]["p50"] < 8,
            )
            for count in (10_000, many)
        ),
    ]


async def _one_size(bed: Bed, url: str, server: Process, key: str, count: int) -> dict[str, Any]:
    async with Desk.at(server.port, key) as desk:
        person = await desk.connection()
        pages = []
        for _ in range(bed.size(200, 60)):
            began = time.perf_counter()
            pages.append(expect(await person.get("/api/interactions?pageSize=50")).at - began)
        answers = []
        for identifier in await load.open_ids(url, min(count, bed.size(300, 100))):
            began = time.perf_counter()
            answers.append(expect(await desk.answer(person, identifier)).at - began)
    return {"list": spread(pages), "answer": spread(answers), "rss_kib": resident_kib(server.pid)}
