"""How long a server takes to be ready and what it then holds; how long a command takes; what an installation is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

from bench.desk import Desk
from bench.lines import Line
from bench.machine import ROOT, Bed, environment, owner_key, resident_kib
from bench.stats import median

CLI = str(Path(sys.executable).with_name("rejoinder"))


async def measure(bed: Bed) -> list[Line]:
    starts = await _starts(bed)
    commands = await _commands(bed)
    listing = commands["interactions list"]
    lines = [
        Line(
            "cold start on a warm database: process started → ready (s, median / worst)",
            f"{median(starts['ready_s']):.2f} / {max(starts['ready_s']):.2f}",
            "< 1.5",
            median(starts["ready_s"]) < 1.5,
            raw=starts,
        ),
        Line(
            "memory of the server process, ready / after its first hundred asks (MB)",
            f"{median(starts['ready_mb']):.0f} / {median(starts['used_mb']):.0f}",
            "< 110",
            max(*starts["ready_mb"], *starts["used_mb"]) < 110,
        ),
        Line(
            "a command: rejoinder version / interactions list (s, median)",
            f"{median(commands['version']):.2f} / {median(listing):.2f}",
            "< 0.5",
            median(listing) < 0.5 and median(commands["version"]) < 0.5,
            raw=commands,
        ),
    ]
    if not bed.quick:
        found = await asyncio.to_thread(_install, bed.folder)
        lines.append(
            Line(
                "installation without extras: seconds / MB / packages",
                f"{found['seconds']:.0f} / {found['mb']:.0f} / {found['packages']}",
                "< 30, < 180, < 60",
                found["seconds"] < 30 and found["mb"] < 180 and found["packages"] < 60,
                raw=found,
            )
        )
    return lines


async def _starts(bed: Bed) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"ready_s": [], "ready_mb": [], "used_mb": []}
    async with bed.database() as url:
        # The first one compiles what an installation has compiled already.
        for turn in range(bed.size(6, 3)):
            key = await owner_key(url)
            began = time.perf_counter()
            with bed.process("serve", url) as server:
                ready = await server.ready() - began
                await asyncio.sleep(0.5)
                at_rest = resident_kib(server.pid) / 1024
                async with Desk.at(server.port, key) as desk:
                    caller, person = await desk.connections(2)
                    for i in range(100):
                        await desk.cycle(caller, person, f"used-{turn}-{i}")
                used = resident_kib(server.pid) / 1024
            if turn:
                for name, value in (("ready_s", ready), ("ready_mb", at_rest), ("used_mb", used)):
                    found[name].append(round(value, 3))
    return found


async def _commands(bed: Bed) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"version": [], "interactions list": []}
    async with bed.database() as url, bed.server(url) as (server, key), Desk.at(server.port, key) as desk:
        await desk.ask_all(await desk.connections(5), [f"listed-{i}" for i in range(5)])
        place = {"REJOINDER_SERVER": f"http://127.0.0.1:{server.port}", "REJOINDER_API_KEY": key}
        for turn in range(bed.size(6, 3)):
            for words, took in found.items():
                began = time.perf_counter()
                await asyncio.to_thread(
                    subprocess.run,
                    [CLI, *words.split()],
                    env=environment(place),
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                if turn:
                    took.append(round(time.perf_counter() - began, 3))
    return found


def _install(folder: Path) -> dict[str, Any]:
    """As ``pip install`` does it from the pinned versions, into an environment of its own."""
    place = folder / "installed"
    began = time.perf_counter()
    venv.create(place, with_pip=True)
    made = time.perf_counter() - began
    before = _megabytes(place)
    pip = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    began = time.perf_counter()
    subprocess.run(
        [*pip, "install", "--no-deps", "--require-hashes", "-r", str(ROOT / "requirements" / "run.txt")],
        check=True, env=environment(), capture_output=True,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    packages = {file.name.partition("-")[0].lower() for file in place.rglob("*.dist-info")} - {
        "pip",
        "setuptools",
    }
    return {
        "seconds": round(seconds, 1),
        "environment_s": round(made, 1),
        "mb": round(_megabytes(place) - before),
        # and ours
        "packages": len(packages) + 1,
    }


def _megabytes(folder: Path) -> float:
    return (
        sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
        / 1e6
    )
