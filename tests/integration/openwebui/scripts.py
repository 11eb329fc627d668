"""Runs of every kind, made by chance from the axes on which bridges are known to fail; the same seed gives the same run.

A run is told by frames and remembered by rows; the rows are what its message must say in the end, whatever happened to
the frames on their way.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from rejoinder.turns.items import cards_of, text_of
from rejoinder.turns.transcript import items_of
from tests.unit.turns.script import Frame, Frames, Row

TEXTS = ("empty", "deltas", "wholes", "both", "chat and agent", "sentinel", "long")
TOOLS = ("none", "one", "failed", "parallel", "no start", "no result", "same id twice", "no id")
ENDINGS = ("final", "lifecycle", "error", "aborted", "settled", "none", "final twice", "final early")
SOURCES = ("own", "agent", "child", "heartbeat", "action")
FAULTS = (
    "none",
    "lost frames",
    "dropped",
    "slow",
    "redeployed",
    "two connections",
    "refused",
    "draining",
    "killed",
    "restarted",
    "stopped",
    "contained",
)
ACTS = ("none", "new message", "send now", "stop", "delete")

#: What the axes cannot have together: no Gateway tells it, or no page can do it.
_NEVER = (
    ("source", ("agent", "child", "heartbeat", "action"), "fault", ("refused",)),
    ("source", ("child", "heartbeat", "action"), "fault", ("killed", "restarted", "stopped", "contained")),
    ("source", ("child", "heartbeat", "action"), "act", ("new message", "send now", "stop", "delete")),
    # Nothing was shown yet that a person could act on, or the frame that ended it was the fault itself.
    ("text", ("empty", "sentinel"), "act", ("send now", "stop")),
    ("text", ("empty", "sentinel"), "fault", ("killed", "restarted", "stopped", "contained")),
    (
        "fault",
        ("killed", "restarted", "stopped", "contained"),
        "act",
        ("new message", "send now", "stop", "delete"),
    ),
    (
        "fault",
        ("dropped", "slow", "lost frames", "refused", "redeployed", "draining"),
        "act",
        ("send now", "stop"),
    ),
)


@dataclass(frozen=True)
class Script:
    """One choice on each axis."""

    text: str
    tools: str
    ending: str
    source: str
    fault: str
    act: str

    @property
    def silent(self) -> bool:
        """Whether nothing of it may be seen."""
        return self.source in ("child", "heartbeat", "action")

    def __str__(self) -> str:
        return ", ".join((self.text, self.tools, self.ending, self.source, self.fault, self.act))


def possible(script: Script) -> bool:
    return not any(
        getattr(script, one) in these and getattr(script, other) in those
        for one, these, other, those in _NEVER
    )


def scripts(seed: int, tries: int = 40) -> list[Script]:
    """Few scripts in which every two choices that are possible together come together at least once."""
    chance = random.Random(seed)
    axes = {"text": TEXTS, "tools": TOOLS, "ending": ENDINGS, "source": SOURCES, "fault": FAULTS, "act": ACTS}

    def pairs(script: Script) -> set[tuple[str, str, str, str]]:
        names = list(axes)
        return {
            (one, getattr(script, one), other, getattr(script, other))
            for place, one in enumerate(names)
            for other in names[place + 1 :]
        }

    def any_one() -> Script:
        while True:
            found = Script(**{name: chance.choice(values) for name, values in axes.items()})
            if possible(found):
                return found

    chosen: list[Script] = []
    seen: set[tuple[str, str, str, str]] = set()
    while True:
        best = max((any_one() for _ in range(tries)), key=lambda one: len(pairs(one) - seen))
        if not pairs(best) - seen:
            return chosen
        chosen.append(best)
        seen |= pairs(best)


@dataclass
class Told:
    """What a run tells: before the middle and after it, and its end; and what it leaves."""

    frames: Frames
    rows: list[Row] = field(default_factory=list)
    body: list[Frame] = field(default_factory=list)
    end: list[Frame] = field(default_factory=list)
    middle: int = 0
    #: How many rows are written when the middle is reached, and the words that were said by then.
    written: int = 0
    partial: str = ""

    @property
    def said(self) -> tuple[str, list[str]]:
        """What the transcript says: the words, and the cards with how they ended."""
        items = items_of(self.rows[1:])
        return " ".join(text_of(items).split()), [card.name for card in cards_of(items)]


WORDS = {"empty": "", "sentinel": "NO_REPLY", "long": "All of it. " * 400}


def told(script: Script, f: Frames) -> Told:
    """The frames and the rows of the script's run."""
    found = Told(f, [f.asked()])
    _tools(script.tools, f, found)
    found.written = len(found.rows)
    words = WORDS.get(script.text, "One two three four five.").strip()
    found.middle = len(found.body)
    if words:
        _words(script.text, words, f, found)
        if script.text != "sentinel":
            stop = {"error": "error", "aborted": "aborted"}.get(script.ending, "stop")
            found.rows.append(f.said(words, stop=stop))
    found.middle = max(found.middle + 1, 1) if words else found.middle
    _ending(script.ending, words if script.text != "sentinel" else "", f, found)
    return found


def _tools(kind: str, f: Frames, found: Told) -> None:
    def one(
        call: str, *, told_as: str | None = "", start: bool = True, result: bool = True, failed: bool = False
    ) -> None:
        shown = call if told_as == "" else told_as
        found.rows.append(f.called(call))
        found.body += [f.call(shown)] if start else []
        if result:
            found.body.append(f.result(shown, "ok", error=failed))
            found.rows.append(f.returned(call, "ok", error=failed))

    if kind == "one":
        one("c1")
    elif kind == "failed":
        one("c1", failed=True)
    elif kind == "parallel":
        found.rows.append(f.called("c1", "c2", "c3"))
        found.body += [
            f.call("c1"),
            f.call("c2"),
            f.call("c3"),
            f.result("c3"),
            f.result("c1"),
            f.result("c2"),
        ]
        found.rows += [f.returned("c1"), f.returned("c2"), f.returned("c3")]
    elif kind == "no start":
        one("c1", start=False)
    elif kind == "no result":
        one("c1", result=False)
    elif kind == "same id twice":
        one("c1")
        one("c1")
    elif kind == "no id":
        one("c1", told_as=None)


def _words(kind: str, words: str, f: Frames, found: Told) -> None:
    parts = words.split(" ")
    step = max(1, len(parts) // 5)
    so_far = ""
    for at in range(0, len(parts), step):
        piece = " ".join(parts[at : at + step])
        delta = piece if not so_far else f" {piece}"
        so_far += delta
        found.partial = found.partial or so_far
        if kind == "deltas":
            found.body.append(f.agent("assistant", delta=delta, itemId="i"))
        elif kind == "wholes":
            found.body.append(f.says(so_far, None, "i"))
        elif kind == "chat and agent":
            name, payload = f.says(so_far, delta, "i")
            found.body += [(name, payload), f.delta(so_far, delta, payload["seq"])]
        else:
            found.body.append(f.says(so_far, delta, "i"))


def _ending(kind: str, words: str, f: Frames, found: Told) -> None:
    settled = [f.settled({"error": "failed", "aborted": "killed"}.get(kind, "done"))]
    if kind == "error":
        found.end = [f.over("error", error="It broke."), f.chat("error", errorMessage="It broke."), *settled]
    elif kind == "aborted":
        found.end = [
            f.over(aborted=True, stopReason="rpc"),
            f.chat("aborted", words, stopReason="rpc"),
            *settled,
        ]
    elif kind == "lifecycle":
        found.end = [
            f.over(stopReason="stop"),
            f.changed(phase="end", runId=f.run, hasActiveRun=True),
            *settled,
        ]
    elif kind == "settled":
        found.end = settled
    elif kind == "none":
        found.end = []
    elif kind == "final twice":
        found.end = [*f.final(words), *f.final(words), *settled]
    elif kind == "final early":
        last = [found.body.pop()] if len(found.body) > found.middle + 1 else []
        found.end = [*f.final(words), *last, *settled]
    else:
        found.end = [*f.final(words), *settled]


def row_of(key: str, f: Frames, ending: str, *, active: bool) -> dict[str, Any]:
    """The session's row while the run goes on, and after it."""
    base = {"key": key, "sessionId": f.session, "updatedAt": 1}
    if active:
        return {**base, "status": "running", "hasActiveRun": True}
    status = {"error": "failed", "aborted": "killed"}.get(ending, "done")
    return {**base, "status": status, "hasActiveRun": False, "activeRunIds": [], "lastRunId": f.run}
