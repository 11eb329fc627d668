"""What a Gateway pushes, lists and remembers while it recovers a run that a kill cut, moment by moment.

The moments are those of a recorded kill (r_sigkill): the row that waits, the admission, the start, more than a second
later the input, the tool, the words, the end and the settled row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.unit.turns.script import KEY, SESSION, Frame, Frames, Row, row


@dataclass(frozen=True)
class Moment:
    """What the Gateway pushes, and how its list and its history stand afterwards."""

    name: str
    frames: tuple[Frame, ...]
    listed: dict[str, Any]
    rows: tuple[Row, ...]
    flight: dict[str, Any] | None = None

    @property
    def history(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "sessionId": SESSION,
            "messages": list(self.rows),
            "sessionInfo": self.listed,
        }
        return found if self.flight is None else {**found, "inFlightRun": self.flight}


def waiting(rows: tuple[Row, ...], key: str = KEY) -> Moment:
    """After the kill: nothing runs, and the row says that something was cut."""
    return Moment("waiting", (), row(key, abortedLastRun=True, activeRunIds=[]), rows)


def recovering(run: str, before: tuple[Row, ...], key: str = KEY, *, dies: bool = False) -> Iterator[Moment]:
    """One recovery from its admission to its end; `dies`: it is killed in the middle of its words."""
    f = Frames(run, key)
    named, withheld = row(key, hasActiveRun=True, activeRunIds=[run]), row(key, hasActiveRun=True)
    flight: dict[str, Any] = {"runId": run, "text": "", "events": []}
    admitted = f.changed(reason="send", hasActiveRun=True, activeRunIds=[run])
    yield Moment("admitted", (admitted,), named, before)
    started = f.changed(reason="agent.run.started", hasActiveRun=True, activeRunIds=None)
    yield Moment("started", (started,), withheld, before, flight)
    rows = (*before, f.recovers())
    yield Moment("asked", (f.row(rows[-1]),), withheld, rows, flight)
    call, start = f"call-{run}", f.call(f"call-{run}")
    events = [{"stream": "tool", "data": {"phase": "start", "name": "exec", "toolCallId": call}}]
    rows = (*rows, f.called(call))
    yield Moment("called", (f.row(rows[-1]), start), withheld, rows, {**flight, "events": events})
    rows = (*rows, f.returned(call))
    over = {"phase": "result", "name": "exec", "toolCallId": call, "result": "ok", "isError": False}
    events = [*events, {"stream": "tool", "data": over}]
    yield Moment("returned", (f.result(call),), withheld, rows, {**flight, "events": events})
    words = "Carr" if dies else "Carried on."
    said = f.says(words, words, "i")
    yield Moment("said", (said,), withheld, rows, {**flight, "events": events, "text": words})
    if dies:
        return
    rows = (*rows, f.said(words))
    yield Moment("written", (f.row(rows[-1]),), withheld, rows, {**flight, "events": events, "text": words})
    yield Moment("ended", tuple(f.final(words)), row(key, hasActiveRun=True, lastRunId=run), rows)
    settled = f.changed(reason="agent.input.settled", status="done", hasActiveRun=False, lastRunId=run)
    yield Moment("settled", (settled,), row(key, status="done", activeRunIds=[], lastRunId=run), rows)


MOMENTS = ["waiting", *(one.name for one in recovering("run", ()))]
