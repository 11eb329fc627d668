"""The run table: which runs are open, when their messages may be shown, and when and how they end.

Recorded facts (Gateway 2026.9.3) each rule stands on:

- A run is known by the first of: `activeRunIds` (only between admission and execution), phase `start`, its first
  event, `inFlightRun` of the history. Recovery runs and CLI runs of the `agent` method push no start (r_sigkill,
  c_claudecli). While a run executes the list says `hasActiveRun` and names none.
- The true end carries `executionSettled` on the agent's lifecycle, or the next push for the session says
  `hasActiveRun: false`; a final without either is followed by another start of the same id (t02_noreply). A
  connection that never saw `executionSettled` takes the first terminal.
- A bare `final` (no agent, no message) is a message taken into a busy session, never an answer (s10_queue).
- `aborted` with stopReason `restart`, and a settled push that still says running, are cuts (r_restart_force_term);
  a yielded run settles the same way and is none (s11_subagent): it had its terminal.
- A result that a scheduled job posts has a row and no run (t01_cron_twice).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rejoinder.turns.finish import Final, finish, joined
from rejoinder.turns.identity import input_id, is_action, is_child_key, parse_key, shares_id
from rejoinder.turns.link import source_of
from rejoinder.turns.reducer import Diff, Op, Reducer
from rejoinder.turns.signals import (
    Action,
    Cut,
    Discard,
    Dropped,
    End,
    Gap,
    Hello,
    HistoryFailed,
    HistoryRead,
    Listed,
    Opened,
    Payload,
    Pushed,
    Queued,
    ReadHistory,
    ReadList,
    Run,
    Show,
    Signal,
    Steered,
)
from rejoinder.turns.transcript import (
    Row,
    RunRows,
    is_input,
    is_posted,
    is_recovery,
    key_of,
    rows_of,
    run_of,
    runs_in,
    steered_into,
)

_OVER = frozenset({"done", "failed", "killed"})


def chat_key(key: str) -> bool:
    """Whether the key is a chat's own session."""
    return parse_key(key) is not None


def any_key(key: str) -> bool:
    """Whether the key may stand for a chat at all: every session but a sub-agent's own."""
    return bool(key) and not is_child_key(key)


@dataclass(eq=False, slots=True)
class _Session:
    key: str
    session_id: str | None = None
    runs: list[Run] = field(default_factory=list)
    queued: set[str] = field(default_factory=set)
    waiting: str | None = None
    reading: bool = False
    stale: bool = False
    recovering: bool = False
    asked_active: bool = False
    rows: tuple[Row, ...] = ()

    def newest(self, run_id: str) -> Run | None:
        return next((run for run in reversed(self.runs) if run.run_id == run_id), None)


class RunTable:
    """Feed it signals in their order, do what it answers.

    accepts: which session keys are chats.
    adopt: whether closed runs that a history shows and nobody watched get their message too.
    """

    def __init__(self, accepts: Callable[[str], bool] = chat_key, *, adopt: bool = False) -> None:
        self._accepts = accepts
        self._adopt = adopt
        self._sessions: dict[str, _Session] = {}
        self._by_run: dict[str, _Session] = {}
        self._boot: str | None = None
        self._settles = False
        self._stop_notice = False
        self._out: list[Action] = []

    def feed(self, signal: Signal) -> list[Action]:
        """What one signal asks for."""
        self._out = []
        if isinstance(signal, Pushed):
            self._pushed(signal.event, signal.payload)
        elif isinstance(signal, Hello):
            restarted = self._boot is not None and self._boot != signal.boot_id
            self._boot = signal.boot_id
            self._stop_notice = False
            self._reconcile(signal.rows, restarted=restarted, hello=True)
        elif isinstance(signal, Listed):
            self._reconcile(signal.rows, restarted=False, hello=False)
        elif isinstance(signal, HistoryRead):
            if self._accepts(signal.key):
                self._history(self._session(signal.key), signal.payload)
        elif isinstance(signal, HistoryFailed):
            if self._accepts(signal.key):
                self._history_failed(self._session(signal.key))
        elif isinstance(signal, Gap):
            self._lose()
            self._out.append(ReadList())
        elif isinstance(signal, Dropped):
            self._lose()
        return self._out

    def runs(self, key: str) -> list[Run]:
        """The runs of a session in the order of its transcript (a run it does not have stays where it opened)."""
        session = self._sessions.get(key)
        if session is None:
            return []
        place = {
            (run.run_id, run.input_run if shares_id(run.run_id, session.session_id) else None): index
            for index, run in enumerate(runs_in(session.rows, session.session_id))
        }
        order: list[tuple[float, int, Run]] = []
        after = -1.0
        for index, run in enumerate(session.runs):
            asked = run.input_run if shares_id(run.run_id, session.session_id) else None
            after = float(place.get((run.run_id, asked), max(after, 0.0) if after >= 0 else -1.0))
            order.append((after, index, run))
        return [run for _, _, run in sorted(order, key=lambda entry: entry[:2])]

    def keys(self) -> list[str]:
        """The sessions that had a run, in the order they were met."""
        return [key for key, session in self._sessions.items() if session.runs]

    def find(self, key: str, run_id: str) -> Run | None:
        """The newest run of that id."""
        session = self._sessions.get(key)
        return session.newest(run_id) if session is not None else None

    def expect(self, key: str, run_id: str) -> Run:
        """A run that this process sends itself and streams into its own request."""
        run = self._open(self._session(key), run_id)
        run.mode = "inline"
        return run

    def unfinished(self) -> list[Run]:
        """The runs that have not ended, cut ones among them."""
        return [run for session in self._sessions.values() for run in session.runs if run.open]

    # Events.

    def _pushed(self, event: str, payload: Payload) -> None:
        if event == "shutdown":
            self._stop_notice = payload.get("restartExpectedMs") is None
            return
        session = self._session_of(payload)
        if session is None:
            return
        if payload.get("sessionId") and event != "session.tool":
            session.session_id = str(payload["sessionId"])
        if event == "sessions.changed":
            self._changed(session, payload)
        elif event == "session.message":
            self._message(session, payload)
        elif event in ("chat", "agent", "session.tool"):
            self._event(session, event, payload)

    def _session_of(self, payload: Payload) -> _Session | None:
        key = str(payload.get("sessionKey") or "")
        if not key:
            return self._by_run.get(str(payload.get("runId") or ""))
        if payload.get("spawnedBy") or not self._accepts(key):
            return None
        return self._session(key)

    def _session(self, key: str) -> _Session:
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = _Session(key)
        return session

    def _open(self, session: _Session, run_id: str) -> Run:
        run = session.newest(run_id)
        if run is not None:
            return run
        return self._new(session, run_id)

    def _new(self, session: _Session, run_id: str) -> Run:
        before = [run for run in session.runs if run.run_id == run_id]
        sequence = len(session.runs)
        run = Run(
            session.key, run_id, Reducer(run_id, prefix=f"r{sequence}_" if sequence else ""), len(before)
        )
        run.session_id = session.session_id
        run.unsure = session.recovering or bool(session.queued) or any(other.cut for other in session.runs)
        if session.waiting is not None and (
            run_id == session.waiting or self._may_answer(session, run, session.waiting)
        ):
            run.input_run, session.waiting = session.waiting, None
        session.runs.append(run)
        self._by_run[run_id] = session
        self._out.append(Opened(run))
        return run

    def _may_answer(self, session: _Session, run: Run, asked: str) -> bool:
        return shares_id(run.run_id, session.session_id) or asked in session.queued

    def _start(self, session: _Session, run_id: str) -> Run:
        run = session.newest(run_id)
        if run is None:
            return self._new(session, run_id)
        over = run.ended or run.ending
        if over and shares_id(run_id, session.session_id):
            self._give_up(run)
            return self._new(session, run_id)
        if over and run.state.terminal is not None and run.state.terminal.state != "aborted":
            run.ended = run.ending = False
        return run

    def _give_up(self, run: Run) -> None:
        # Its history was not read before the next run of the same id began; it can still be told apart there.
        if run.ending and not run.ended:
            self._ask(self._sessions[run.key], "end")

    def _event(self, session: _Session, event: str, payload: Payload) -> None:
        run_id = str(payload.get("runId") or "")
        if not run_id:
            return
        run = session.newest(run_id)
        if event == "chat" and _is_bare(payload) and (run is None or not run.state.events):
            if run is not None:
                session.runs.remove(run)
            session.queued.add(run_id)
            self._out.append(Queued(session.key, run_id))
            return
        data = payload.get("data") or {}
        phase = data.get("phase") if payload.get("stream") == "lifecycle" else None
        if phase == "start":
            run = self._start(session, run_id)
        elif run is None:
            if phase is not None:
                return  # the end of a run that nobody here saw: the history has it
            run = self._new(session, run_id)
            run.unsure = run.unsure or payload.get("seq") not in (None, 1)
        if data.get("executionSettled"):
            self._settles = True
        if run.ended and not (event == "chat" and payload.get("state") == "final"):
            return
        self._take(session, run, event, payload)

    def _take(self, session: _Session, run: Run, event: str, payload: Payload) -> None:
        before = run.state.terminal
        diff = run.state.feed(event, payload)
        terminal = run.state.terminal
        if run.ended:
            if diff and terminal is not None and terminal.state == "final":
                run.ended, run.ending = False, True
                self._ask(session, "end")
            return
        self._show(session, run, diff)
        if terminal is not None and terminal is not before:
            self._consider(session, run, chat=event == "chat")

    def _consider(self, session: _Session, run: Run, *, chat: bool) -> None:
        terminal = run.state.terminal
        assert terminal is not None
        run.stop_notice = run.stop_notice or self._stop_notice
        if terminal.stop_reason == "restart":
            self._cut(run)
        elif chat and (
            terminal.settled or terminal.state == "aborted" or terminal.yielded or not self._settles
        ):
            self._end(session, run)

    def _end(self, session: _Session, run: Run) -> None:
        if run.ended or run.continued:
            return
        run.cut = False
        run.ending = True
        self._ask(session, "end")

    def _cut(self, run: Run) -> None:
        if not run.cut and not run.ending:
            run.cut = True
            self._out.append(Cut(run))

    def _ask(self, session: _Session, why: str) -> None:
        if session.reading:
            session.stale = session.stale or why == "end"
            return
        session.reading = True
        self._out.append(ReadHistory(session.key, why))

    # What a session says of itself.

    def _changed(self, session: _Session, payload: Payload) -> None:
        phase, run_id = payload.get("phase"), payload.get("runId")
        if phase == "start" and run_id:
            self._start(session, str(run_id))
        active = payload.get("hasActiveRun")
        if active:
            for named in payload.get("activeRunIds") or ():
                self._open(session, str(named))
        run = session.newest(str(run_id)) if run_id else None
        if phase in ("end", "error") and run is not None and not run.cut:
            terminal = run.state.terminal
            if terminal is None or terminal.settled or not self._settles:
                self._end(session, run)
        if active is False:
            self._settled(session, payload)

    def _settled(self, session: _Session, row: Payload) -> None:
        settled = str(row.get("reason") or "").endswith(".settled")
        status, last = row.get("status"), row.get("lastRunId")
        for run in list(session.runs):
            if not run.open or run.ending:
                continue
            terminal = run.state.terminal
            if status == "running":
                if terminal is not None and terminal.stop_reason != "restart":
                    self._end(session, run)
                elif row.get("abortedLastRun"):
                    self._cut(run)
                    session.recovering = True
            elif status in _OVER and (terminal is not None or last == run.run_id or settled):
                self._end(session, run)

    def _reconcile(self, rows: Sequence[Payload], *, restarted: bool, hello: bool) -> None:
        listed = {str(row.get("key") or ""): row for row in rows}
        for key, row in listed.items():
            if not self._accepts(key) or row.get("spawnedBy"):
                continue
            session = self._session(key)
            session.session_id = str(row["sessionId"]) if row.get("sessionId") else session.session_id
            session.recovering = row.get("status") == "running" and not row.get("hasActiveRun")
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
                if run.open and not run.ending and known is not None:
                    self._check(session, run, known, restarted=restarted)

    def _check(self, session: _Session, run: Run, row: Payload, *, restarted: bool) -> None:
        if row.get("hasActiveRun"):
            named = row.get("activeRunIds")
            if named and run.run_id not in named and not run.cut:
                self._end(session, run)
            elif not named and restarted:
                self._cut(run)
            return
        if row.get("status") in _OVER or (
            run.state.terminal is not None and run.state.terminal.stop_reason != "restart"
        ):
            self._end(session, run)
        elif restarted or row.get("abortedLastRun"):
            self._cut(run)

    def _lose(self) -> None:
        for run in self.unfinished():
            run.state.lose()
            run.unsure = run.unsure or not run.shown
        for session in self._sessions.values():
            session.reading = session.stale = False

    # Rows.

    def _message(self, session: _Session, payload: Payload) -> None:
        row = payload.get("message")
        if not isinstance(row, Mapping):
            return
        if is_input(row):
            self._input(session, row)
        elif is_posted(row):
            self._adopted(session, RunRows(run_of(row) or "", None, (row,), posted=True))
        else:
            run_id = run_of(row)
            if run_id is None:
                return
            run = session.newest(run_id)
            if run is None:
                run = self._new(session, run_id)
                run.unsure = True
            if not run.ended:
                self._take(session, run, "session.message", payload)

    def _input(self, session: _Session, row: Row) -> None:
        asked, into = input_id(key_of(row)), steered_into(row)
        if asked is None:
            return
        if into is not None:
            if session.waiting == asked:
                session.waiting = None
            if asked in session.queued or session.newest(asked) is None:
                session.queued.discard(asked)
                self._out.append(Steered(session.key, asked, into))
            return
        run = session.newest(asked) or next(
            (
                other
                for other in reversed(session.runs)
                if other.open and other.input_run is None and self._may_answer(session, other, asked)
            ),
            None,
        )
        if run is None:
            session.waiting = asked
            return
        session.queued.discard(asked)
        run.input_run = asked
        if is_recovery(row):
            self._link(session, run, None)
        self._show(session, run, [])

    def _link(self, session: _Session, run: Run, rows: Sequence[Row] | None) -> None:
        if run.sources or run.shown:
            return
        run.recovery = True
        cut = next(
            (other for other in reversed(session.runs) if other is not run and other.cut and other.open), None
        )
        if cut is None and rows is not None:
            named = source_of(rows, run.run_id)
            cut = session.newest(named) if named else None
            if cut is None and named:
                cut = Run(session.key, named, Reducer(named), session_id=session.session_id)
                cut.input_run = next(
                    (r.input_run for r in runs_in(rows, session.session_id) if r.run_id == named), None
                )
                session.runs.insert(session.runs.index(run), cut)
            if cut is None:
                run.recovery = False  # its source is not in the history any more: it stands for itself
        if cut is not None and cut is not run:
            run.sources = [*cut.sources, cut]
            run.recovery = False
            for source in run.sources:
                source.continued, source.cut = True, False
            session.recovering = False
        elif rows is None:
            self._ask(session, "link")

    # Histories.

    def _history(self, session: _Session, payload: Payload) -> None:
        rows = tuple(row for row in payload.get("messages") or () if isinstance(row, Mapping))
        if payload.get("kind") == "delta":
            rows = (*session.rows, *rows)
        session.rows = rows
        session.session_id = str(payload["sessionId"]) if payload.get("sessionId") else session.session_id
        again, session.reading, session.stale = session.stale, False, False
        flight = payload.get("inFlightRun")
        active = str(flight["runId"]) if isinstance(flight, Mapping) and flight.get("runId") else None
        known = runs_in(rows, session.session_id)
        self._identify(session, rows, known)
        if active is not None and isinstance(flight, Mapping):
            self._flight(session, active, flight, rows)
        if session.asked_active:
            session.asked_active = False
            for run in list(session.runs):
                if run.open and not run.ending and not run.cut and run.run_id != active:
                    run.ending = True
        for run in list(session.runs):
            if run.ending and not run.ended and run.run_id != active:
                self._finished(session, run, rows)
        for found in known:
            if found.posted or (self._adopt and found.run_id != active):
                self._adopted(session, found)
        if again and any(run.ending and not run.ended for run in session.runs):
            self._ask(session, "end")

    def _history_failed(self, session: _Session) -> None:
        session.reading = session.stale = session.asked_active = False
        for run in list(session.runs):
            if run.ending and not run.ended:
                self._finished(session, run, session.rows)
            elif not run.identified and run.open:
                run.claimed_id = run.message_id
                run.recovery = False
                self._show(session, run, [])

    def _identify(self, session: _Session, rows: Sequence[Row], known: Sequence[RunRows]) -> None:
        for run in list(session.runs):
            if not run.open or run.shown or run.sources:
                continue
            run.session_id = session.session_id
            same = [found for found in known if found.run_id == run.run_id]
            if run.input_run is None and same:
                run.input_run = same[min(run.occurrence, len(same) - 1)].input_run
            elif run.input_run is None and shares_id(run.run_id, session.session_id):
                run.input_run = _newest_input(rows)
            if (
                run.recovery
                or any(found.recovery for found in same)
                or source_of(rows, run.run_id) is not None
            ):
                self._link(session, run, rows)
            run.unsure = False
            self._show(session, run, [])

    def _flight(self, session: _Session, run_id: str, flight: Payload, rows: Sequence[Row]) -> None:
        run = session.newest(run_id)
        if run is None or (run.ended and shares_id(run_id, session.session_id)):
            run = self._new(session, run_id)
            run.unsure = True
            self._identify(session, rows, runs_in(rows, session.session_id))
        if run.ended:
            return
        run.ending = run.cut = False
        events = [event for event in flight.get("events") or () if isinstance(event, Mapping)]
        self._show(session, run, run.state.in_flight(str(flight.get("text") or ""), events))

    def _finished(self, session: _Session, run: Run, rows: Sequence[Row]) -> None:
        own = rows_of(rows, run.run_id, run.input_run, session.session_id)
        final = finish(own, run.state, prefix=f"h{session.runs.index(run)}_")
        if run.sources:
            parts = [self._part(session, source, rows) for source in run.sources]
            final = joined([*parts, final])
        self._over(run, final)

    def _part(self, session: _Session, source: Run, rows: Sequence[Row]) -> Final:
        own = rows_of(rows, source.run_id, source.input_run, session.session_id)
        return finish(own, source.state, continued=True, prefix=f"h{session.runs.index(source)}_")

    def _over(self, run: Run, final: Final) -> None:
        run.final, run.ended, run.ending = final, True, False
        if run.message_id is None or not (final.visible or run.shown):
            self._out.append(Discard(run))
            return
        run.claimed_id = run.message_id
        self._out.append(End(run, final))

    def _adopted(self, session: _Session, found: RunRows) -> None:
        repeats = shares_id(found.run_id, session.session_id)
        for run in session.runs:
            same = run.run_id == found.run_id
            if same and (not repeats or run.input_run in (None, found.input_run)):
                return
        if not found.run_id:
            return
        run = self._new(session, found.run_id)
        run.input_run = found.input_run
        if found.recovery:
            self._link(session, run, session.rows)
        final = finish(found.rows, run.state, prefix=f"h{len(session.runs)}_")
        if run.sources:
            final = joined([*(self._part(session, source, session.rows) for source in run.sources), final])
        self._over(run, final)

    # Showing.

    def _show(self, session: _Session, run: Run, diff: Diff) -> None:
        if run.message_id is None or is_action(run.run_id) or run.ended:
            return
        if run.shown:
            if diff:
                self._out.append(Show(run, _shifted(diff, _base(run)), first=False))
            return
        if not any(True for _ in run.state.items):
            return
        if not run.identified:
            if run.recovery or run.unsure or shares_id(run.run_id, session.session_id):
                self._ask(session, "identity")
            return
        carried = any(source.shown for source in run.sources)
        run.shown = True
        if run.claimed_id is None:
            run.claimed_id = run.message_id
        whole = run.state.snapshot()
        if carried:
            self._out.append(Show(run, _shifted(whole, _base(run)), first=False))
            return
        before = [op for source in run.sources for op in _shifted(source.state.snapshot(), _base(source))]
        self._out.append(Show(run, [*before, *_shifted(whole, _base(run))], first=True))


def _base(run: Run) -> int:
    return sum(len(source.state.items) for source in run.sources)


def _shifted(diff: Iterable[Op], by: int) -> Diff:
    return [replace(op, index=op.index + by) for op in diff] if by else list(diff)


def _is_bare(payload: Payload) -> bool:
    return payload.get("state") == "final" and not any(
        payload.get(name) for name in ("agentId", "message", "stopReason", "yielded")
    )


def _newest_input(rows: Sequence[Row]) -> str | None:
    for row in reversed(rows):
        if is_input(row) and steered_into(row) is None:
            return input_id(key_of(row))
    return None


__all__ = ["RunTable", "any_key", "chat_key"]
