"""What the session list and a session's history say of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rejoinder.turns.core import Core, Session
from rejoinder.turns.finish import Final, finish, joined
from rejoinder.turns.identity import input_id, shares_id
from rejoinder.turns.link import asked_before, source_of
from rejoinder.turns.signals import HistoryRead, Payload, Run
from rejoinder.turns.transcript import (
    Row,
    RunRows,
    is_closed,
    is_collection,
    is_collection_key,
    is_input,
    key_of,
    rows_of,
    runs_in,
    steered_into,
)

OVER = frozenset({"done", "failed", "killed"})
"""The states of a session's row in which no run of it goes on."""


class Readings(Core):
    """The table's answers to a list and to a history."""

    def _reconcile(self, rows: Sequence[Payload], *, restarted: bool, hello: bool) -> None:
        listed = {str(row.get("key") or ""): row for row in rows}
        for key, row in listed.items():
            if not self._accepts(key) or row.get("spawnedBy"):
                continue
            session = self._session(key)
            session.session_id = str(row["sessionId"]) if row.get("sessionId") else session.session_id
            session.recovering = row.get("status") == "running" and not row.get("hasActiveRun")
            if not row.get("hasActiveRun"):
                session.keep(row)
            if row.get("hasActiveRun"):
                named = [str(run_id) for run_id in row.get("activeRunIds") or ()]
                for run_id in named:
                    self._open(session, run_id).unsure |= hello
                if not named:
                    session.asked_active = True
                    self._ask(session, "active")
        for session in self._sessions.values():
            known = listed.get(session.key)
            for run in list(session.runs):
                if run.open and run.ending and hello:
                    # The read that should have told its end broke off with the last connection.
                    self._ask(session, "end")
                elif run.open and not run.ending and known is not None:
                    self._check(session, run, known, restarted=restarted)

    def _check(self, session: Session, run: Run, row: Payload, *, restarted: bool) -> None:
        if row.get("hasActiveRun"):
            named = row.get("activeRunIds") or ()
            if restarted and run.run_id not in named:
                # What goes on there may be its recovery: only the history tells.
                self._cut(run)
                self._ask(session, "link")
            elif named and run.run_id not in named and not run.cut:
                self._end(session, run)
            return
        if row.get("status") in OVER or (
            run.state.terminal is not None and run.state.terminal.stop_reason != "restart"
        ):
            self._end(session, run)
        elif restarted or row.get("abortedLastRun"):
            self._cut(run)

    def _lose(self) -> None:
        for run in [run for session in self._sessions.values() for run in session.runs if run.open]:
            run.state.lose()
            run.unsure = run.unsure or not run.shown
        for session in self._sessions.values():
            session.reading = None

    def _history(self, session: Session, signal: HistoryRead) -> None:
        payload, adopt, asked = signal.payload, signal.adopt, signal.asked
        outstanding = session.reading if asked is not None else None
        if asked is None:
            asked = self._now if session.reading is None else session.reading
        # While it is taken in, nothing asks for it anew: what it does not tell, it would not tell again.
        session.reading = asked
        rows = tuple(row for row in payload.get("messages") or () if isinstance(row, Mapping))
        if payload.get("kind") == "delta":
            rows = (*session.rows, *rows)
        session.rows = rows
        session.session_id = str(payload["sessionId"]) if payload.get("sessionId") else session.session_id
        flight = payload.get("inFlightRun")
        active = str(flight["runId"]) if isinstance(flight, Mapping) and flight.get("runId") else None
        known = runs_in(rows, session.session_id)
        told = payload.get("sessionInfo")
        standing = told if isinstance(told, Mapping) else {}
        for run_id, words in signal.left.items():
            session.queued.put(run_id, words, sure=False)
        self._recovered(session, rows, known, active, standing)
        self._identify(session, rows, known, asked)
        if active is not None and isinstance(flight, Mapping):
            self._flight(session, active, flight, rows, asked)
        if session.asked_active:
            session.asked_active = False
            for run in list(session.runs):
                if run.open and not run.ending and not run.cut and run.run_id != active:
                    run.ending = True
        for run in list(session.runs):
            if run.cut and run.open and (standing.get("status") in OVER or self._left(session, run, rows)):
                run.cut, run.ending = False, True
        for run in list(session.runs):
            if run.ending and not run.ended and run.run_id != active:
                own = rows_of(rows, run.run_id, run.input_run, session.session_id)
                unknown = run.input_run is None and shares_id(run.run_id, session.session_id)
                if asked < run.told and (unknown or not is_closed(own)):
                    continue
                self._finished(session, run, rows)
        cut = _cut_ones(rows, known, standing)
        for found in known:
            if found.posted or ((self._adopt or adopt) and not found.internal and found.run_id != active):
                self._adopted(session, found, cut=found.run_id in cut)
        if active is None and standing.get("status") in OVER:
            for run_id in signal.left:
                session.queued.take(run_id)  # nothing goes on there that would come to it
        session.reading = outstanding
        if any(run.open and (run.ending or run.recovery) and asked < run.told for run in session.runs):
            self._ask(session, "end")
        if not self._adopt:
            session.rows = ()

    def _recovered(
        self,
        session: Session,
        rows: Sequence[Row],
        known: Sequence[RunRows],
        active: str | None,
        standing: Payload,
    ) -> None:
        """Take in the recoveries of open runs that went by while nobody was connected."""
        for found in known:
            if not found.recovery or session.newest(found.run_id) is not None:
                continue
            source = source_of(rows, found.run_id)
            carrier = next((run for run in reversed(session.runs) if run.open and source in _ids(run)), None)
            if carrier is None:
                continue
            run = self._new(session, found.run_id)
            run.input_run = found.input_run
            if carrier.run_id != source and asked_before(rows, run.run_id, carrier.run_id):
                # A later recovery was met first: this one was cut as well, and stands before it.
                run.sources, run.continued = list(carrier.sources), True
                carrier.sources.append(run)
                continue
            self._link(session, run, rows)
            if run.run_id == active:
                continue
            if is_closed(found.rows) or standing.get("status") in OVER:
                run.ending = True
            else:
                self._cut(run)

    def _left(self, session: Session, run: Run, rows: Sequence[Row]) -> bool:
        """Whether the session went on without a cut run: the Gateway recovers the run that was admitted last."""
        later = session.runs[session.runs.index(run) + 1 :]
        newest = _newest_input(rows)
        return any(newest == (other.input_run or other.run_id) and not other.sources for other in later)

    def _history_failed(self, session: Session) -> None:
        session.reading, session.asked_active = None, False
        for run in list(session.runs):
            if run.ending and not run.ended:
                self._finished(session, run, session.rows)
            elif not run.identified and run.open:
                run.claimed_id = run.message_id
                run.recovery = False
                self._show(session, run, [])

    def _finish_streamed(self, session: Session) -> None:
        """The Gateway stops, and may not come back: since it began to, it answers no reading. What was streamed to its
        end without a loss is the message."""
        session.reading = None
        for run in list(session.runs):
            whole = run.state.terminal is not None and not run.gapped
            if run.ending and not run.ended and run.identified and whole:
                self._finished(session, run, session.rows)

    def _identify(self, session: Session, rows: Sequence[Row], known: Sequence[RunRows], asked: int) -> None:
        for run in list(session.runs):
            if not run.open or run.shown or run.sources:
                continue
            run.session_id = session.session_id
            same = [found for found in known if found.run_id == run.run_id]
            # It was asked under its own id, so it is no heartbeat's; the frames that said so were lost.
            run.hidden = run.hidden and all(found.input_run != run.run_id for found in same)
            if run.input_run is None and shares_id(run.run_id, session.session_id):
                run.input_run = _asked_of(run, session.runs, rows, known, late=asked < run.told)
            elif run.input_run is None:
                run.input_run = self._answers(session, rows, known, same)
            if (
                run.recovery
                or any(found.recovery for found in same)
                or source_of(rows, run.run_id) is not None
            ):
                self._link(session, run, rows, asked)
            # A recovery runs for a second before its input is written, and would be taken for a run of its own.
            run.unsure = run.input_run is None and any(other.cut and other.open for other in session.runs)
            self._show(session, run, [])

    def _answers(
        self, session: Session, rows: Sequence[Row], known: Sequence[RunRows], same: Sequence[RunRows]
    ) -> str | None:
        """The input that a run answers: that of its rows, or a queued one that has no run's rows after it yet."""
        asked = same[-1].input_run if same else _newest_input(rows)
        if asked is None or (not same and any(found.input_run == asked for found in known)):
            return None
        if is_collection_key(asked):
            asked = self._collected(session, rows, asked) or (asked if same else None)
        elif not same and asked not in session.queued:
            return None
        session.queued.take(asked)
        return asked

    def _collected(self, session: Session, rows: Sequence[Row], key: str) -> str | None:
        row = next((row for row in rows if is_collection(row) and key_of(row) == key), None)
        return self._collect(session, row) if row is not None else None

    def _flight(
        self, session: Session, run_id: str, flight: Payload, rows: Sequence[Row], asked: int
    ) -> None:
        run = session.newest(run_id)
        if run is None or (run.ended and shares_id(run_id, session.session_id)):
            run = self._new(session, run_id)
            run.unsure = True
            self._identify(session, rows, runs_in(rows, session.session_id), asked)
        if run.ended:
            return
        # A history that was asked for before the run's end may still have it in flight.
        run.ending, run.cut = run.ending and asked < run.told, False
        events = [event for event in flight.get("events") or () if isinstance(event, Mapping)]
        self._show(session, run, run.state.in_flight(str(flight.get("text") or ""), events))

    def _finished(self, session: Session, run: Run, rows: Sequence[Row]) -> None:
        own = rows_of(rows, run.run_id, run.input_run, session.session_id)
        final = finish(own, run.state, prefix=f"h{session.runs.index(run)}_")
        if run.sources:
            parts = [self._part(session, source, rows) for source in run.sources]
            final = joined([*parts, final])
        self._over(run, final)

    def _part(self, session: Session, source: Run, rows: Sequence[Row]) -> Final:
        own = rows_of(rows, source.run_id, source.input_run, session.session_id)
        return finish(own, source.state, continued=True, prefix=f"h{session.runs.index(source)}_")

    def _adopted(self, session: Session, found: RunRows, *, cut: bool = False) -> None:
        repeats = shares_id(found.run_id, session.session_id)
        for run in session.runs:
            same = run.run_id == found.run_id
            if same and (not repeats or run.input_run in (None, found.input_run)):
                return
        if not found.run_id:
            return
        run = self._new(session, found.run_id)
        run.input_run = found.input_run
        if found.input_run is not None and is_collection_key(found.input_run):
            run.input_run = self._collected(session, session.rows, found.input_run) or found.input_run
            session.queued.take(run.input_run)
        if found.recovery:
            self._link(session, run, session.rows)
        if cut:
            self._cut(run)
            return
        final = finish(found.rows, run.state, prefix=f"h{len(session.runs)}_")
        if run.sources:
            final = joined([*(self._part(session, source, session.rows) for source in run.sources), final])
        self._over(run, final)


def _ids(run: Run) -> set[str]:
    """The runs whose message the run goes on in."""
    return {run.run_id, *(source.run_id for source in run.sources)}


def _cut_ones(rows: Sequence[Row], known: Sequence[RunRows], standing: Payload) -> set[str]:
    """The runs of a history that another one carries on with, or will: the session's row says so of the last."""
    found: set[str] = set()
    last: dict[str, str] = {}
    for run in known:
        source = source_of(rows, run.run_id) if run.recovery else None
        if source is not None:
            found.add(last.get(source, source))
            last[source] = run.run_id
    newest = next((run for run in reversed(known) if not run.posted and not run.internal), None)
    waits = standing.get("hasActiveRun") or standing.get("abortedLastRun")
    if newest is not None and standing.get("status") == "running" and waits and not is_closed(newest.rows):
        found.add(newest.run_id)
    return found


def _asked_of(
    run: Run, runs: Sequence[Run], rows: Sequence[Row], known: Sequence[RunRows], *, late: bool
) -> str | None:
    """What a run was asked whose id other runs of its session have too; None while the history may not have it.

    They follow each other, so the newest run is the newest of the history: how many there were before this process
    came, it does not know. Nothing stands in the history of a run that has not begun to answer.
    """
    if not (run.ending or run.state.items) or late:
        return None
    same = [found for found in known if found.run_id == run.run_id]
    asked = [found.input_run for found in same]
    newest = _newest_input(rows)
    if newest is not None and all(found.input_run != newest for found in known):
        asked.append(newest)
    place = next(index for index, other in enumerate(runs) if other is run)
    before = {other.input_run for other in runs[:place] if other.run_id == run.run_id} - {None}
    later = [other for other in runs[place + 1 :] if other.run_id == run.run_id]
    for other in reversed(later):
        # Each of the later ones has one: its own, or the newest that is left.
        end = asked.index(other.input_run) if other.input_run in asked else len(asked) - 1
        asked = asked[: max(end, 0)]
    seen = [index for index, one in enumerate(asked) if one in before]
    # After one that was watched comes the next; the newest input may be another run's, which is only beginning.
    asked = asked[seen[-1] + 1 :][:1] if seen else asked
    if not asked:
        return None
    own = next((found for found in same if found.input_run == asked[-1]), None)
    if own is not None and not run.ending and not seen and is_closed(own.rows):
        return None  # that one is over: this history was read before the input of the one that goes on
    return asked[-1]


def _newest_input(rows: Sequence[Row]) -> str | None:
    for row in reversed(rows):
        if is_input(row) and steered_into(row) is None:
            return input_id(key_of(row)) or (key_of(row) if is_collection(row) else None)
    return None
