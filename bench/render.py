"""The page docs/reference/performance.md and its picture, from the figures in bench/out. Every number there is measured."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson

from bench.machine import ROOT
from bench.plot import Bar, Panel, draw

PAGE = ROOT / "docs" / "reference" / "performance.md"
PICTURE = ROOT / "docs" / "images" / "bench-answer.svg"
BEGIN, END = "<!-- measured: written by make bench -->", "<!-- end of measured -->"
_FIRST = re.compile(r"[0-9]+(\.[0-9]+)?")
HEAD = ("what", "Rejoinder", "budget", "plain SQL claim", "DBOS recv", "LangGraph interrupt")


def render(out: Path) -> list[str]:
    """Write the page and the picture from what has been measured. Returns the lines that are over their budget."""
    files = {file.stem: orjson.loads(file.read_bytes()) for file in sorted(out.glob("*.json"))}
    conditions = files.pop("conditions", {})
    missed = [
        f"{name}: {line['what']}: {line['ours']} ({line['budget']})"
        for name, one in files.items()
        for line in one["lines"]
        if line["met"] is False
    ]
    # A quick run shows whether everything works; the page tells full runs only.
    full = {name: one for name, one in files.items() if not one["quick"]}
    if full and PAGE.exists():
        section(PAGE, BEGIN, END, _measured(full, conditions))
    if {"answering", "answering-5ms"} <= set(full):
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        PICTURE.write_text(_picture(full), encoding="utf-8")
    return missed


def section(page: Path, begin: str, end: str, text: str) -> None:
    """Put this between two marks of a page, which must be there. The rest of the page stays."""
    before, mark, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closing, after = rest.partition(end)
    if not mark or not closing:
        raise ValueError(f"{page} has no {begin} with an {end} after it")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def _measured(files: dict[str, Any], conditions: dict[str, Any]) -> str:
    from bench.__main__ import ROWS, SLOW

    where = (
        f"Measured on {conditions.get('at')} with Rejoinder {conditions.get('rejoinder')}, Python {conditions.get('python')}, "
        f"{conditions.get('cores')} cores ({conditions.get('cpu')}) shared by the servers, Postgres and the client. "
        f"The machine's load when the run began: {conditions.get('load')}."
    )
    quick = _table([line for row in ROWS if row in files for line in files[row]["lines"]])
    slow = _table([line for row in SLOW if f"{row}-5ms" in files for line in files[f"{row}-5ms"]["lines"]])
    parts = [where, "", "### On this machine's disk", "", quick]
    if any(f"{row}-5ms" in files for row in SLOW):
        parts += ["", "### Where each commit waits 5 ms for the disk", "", slow]
    return "\n".join(parts)


def _table(lines: list[dict[str, Any]]) -> str:
    rows = [HEAD, ("---",) * len(HEAD)]
    for line in lines:
        verdict = {True: " ✓", False: " ✗ not met", None: ""}[line["met"]]
        rows.append(
            (
                line["what"],
                f"**{line['ours']}**",
                line["budget"] + verdict,
                *(_beside(line[way], line["ours"]) for way in ("floor", "dbos", "langgraph")),
            )
        )
    return "\n".join("| " + " | ".join(cell or " " for cell in row) + " |" for row in rows)


def _beside(text: str, ours: str) -> str:
    """With how many times ours its first figure is."""
    first, mine = _FIRST.match(text), _FIRST.match(ours)
    if first is None or mine is None or any(letter.isalpha() for letter in text):
        return text
    return f"{text} (×{float(first[0]) / float(mine[0]):.2g})"


def _picture(files: dict[str, Any]) -> str:
    panels = []
    for name, disk in (("answering", "this machine's disk"), ("answering-5ms", "a commit waits 5 ms")):
        lines = {line["what"].partition(",")[0]: line for line in files[name]["lines"]}
        one = lines["blocked ask"]["raw"]
        burst = next(line for line in files[name]["lines"] if "answers/s" in line["what"])["raw"]
        others = one["others"]
        waits = [("Rejoinder", one["ours"]["wake"]), ("LangGraph", others["langgraph"]["one_returned"])]
        waits += [("DBOS", others["dbos"]["one"]), ("plain SQL", others["floor"]["one"])]
        panels.append(
            Panel(
                f"From the answer to the one who waits, ms: median, and the 99th of 100 ({disk})",
                [Bar(who, spent["p50"], spent["p99"], who == "Rejoinder") for who, spent in waits],
                "ms",
            )
        )
        rates = [
            ("Rejoinder", burst),
            ("LangGraph", others["langgraph"]["burst"]),
            ("DBOS", others["dbos"]["burst"]),
        ]
        rates += [("plain SQL", others["floor"]["burst"])]
        panels.append(
            Panel(
                f"500 waiting, all answered at once: answers a second ({disk})",
                [Bar(who, told["answers_per_s"], None, who == "Rejoinder") for who, told in rates],
                "/s",
            )
        )
    return draw([panels[0], panels[2], panels[1], panels[3]])
