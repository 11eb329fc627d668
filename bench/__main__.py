"""``python -m bench [--quick] [--strict] [--only ROW ...] [--render]``: measure, write bench/out, draw the page."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import resource
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from bench.machine import Bed, scratch

OUT = Path(__file__).with_name("out")
#: In this order; those named twice are measured once more where a commit waits 5 ms.
ROWS = (
    "answering",
    "callbacks",
    "parking",
    "events",
    "agents",
    "parked_agents",
    "footprint",
    "million",
    "deadlines",
    "schedules",
    "faults",
    "starting",
    "forms",
)
SLOW = ("answering", "callbacks", "parking")


async def run(rows: list[str], quick: bool, alone: bool, parked: int | None = None) -> bool:
    """Measure those rows; False where one of them could not be measured."""
    OUT.mkdir(exist_ok=True)
    fine = True
    with scratch() as folder:
        bed = Bed(folder, quick, alone, parked)
        await bed.start()
        try:
            for row in rows:
                fine &= await _one(bed, row)
            if slow := [row for row in rows if row in SLOW]:
                async with bed.flush_of_5_ms():
                    for row in slow:
                        fine &= await _one(bed, row)
        finally:
            await bed.stop()
    return fine


async def _one(bed: Bed, row: str) -> bool:
    name = f"{row}-5ms" if bed.slow_disk else row
    began = time.perf_counter()
    try:
        lines = await importlib.import_module(f"bench.rows.{row}").measure(bed)
    except Exception:
        traceback.print_exc()
        print(f"{name}: could not be measured", flush=True)
        return False
    took = round(time.perf_counter() - began, 1)
    content = {
        "row": row,
        "quick": bed.quick,
        "slow_disk": bed.slow_disk,
        "took_s": took,
        "load": os.getloadavg()[0],
        "lines": [line.as_json() for line in lines],
    }
    (OUT / f"{name}.json").write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
    for line in lines:
        verdict = {True: "met", False: "NOT MET", None: ""}[line.met]
        print(f"{name}: {line.what}: {line.ours}  [{line.budget}] {verdict}", flush=True)
    print(f"{name}: {took} s", flush=True)
    return True


def conditions() -> dict[str, Any]:
    from importlib.metadata import version

    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "at": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "cpu": model,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "rejoinder": version("rejoinder"),
        # Something else that runs on the machine is in every figure.
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        default=bool(os.environ.get("QUICK")),
        help="smaller sizes: under two minutes",
    )
    parser.add_argument("--strict", action="store_true", help="end with 1 where a budget is not met")
    parser.add_argument(
        "--only", nargs="+", choices=ROWS, metavar="ROW", help="some rows: " + ", ".join(ROWS)
    )
    parser.add_argument("--alone", action="store_true", help="leave out what one would pick instead")
    parser.add_argument(
        "--parked", type=int, metavar="N", help="so many agents for the row parked_agents, such as 100000"
    )
    parser.add_argument(
        "--render", action="store_true", help="draw the page from the last figures, measuring nothing"
    )
    given = parser.parse_args()
    from bench import render

    fine = True
    if not given.render:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
        import uvloop

        OUT.mkdir(exist_ok=True)
        (OUT / "conditions.json").write_bytes(orjson.dumps(conditions()))
        fine = uvloop.run(run(given.only or list(ROWS), given.quick, given.alone, given.parked))
    missed = render.render(OUT)
    for line in missed:
        print(f"over budget: {line}")
    return 1 if not fine or (given.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
