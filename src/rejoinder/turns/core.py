"""What the table knows of each session and its runs, and how a run's message is shown and closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from rejoinder.turns.finish import Final, hushed
from rejoinder.turns.identity import chat_key, is_action, shares_id
from rejoinder.turns.link import source_of
from rejoinder.turns.queued import Queued
from rejoinder.turns.reducer import Diff, Op, Reducer
from rejoinder.turns.signals import (
    Action,
    Collected,
    Cut,
    Discard,
    End,
    Lost,
    Opened,
    Payload,
    ReadHistory,
    Run,
    Show,
)
from rejoinder.turns.transcript import Row, runs_in

KEPT = 32
"""How many ended runs of a session are remembered, so that what still comes of them is known for theirs."""


@dataclass(eq=False, slots=True)
class Session:
    """One session: its runs in the order they opened, and what was said before the run it belongs to."""

    key: str
    session_id: str | None = None
    runs: list[Run] = field(default_factory=list)
    queued: Queued = field(default_factory=Queued)
    steered: set[str] = field(default_factory=set)
    waiting: str | None = None
    waiting_recovers: bool = False
    reading: int | None = None
    """At which signal the history was asked for that is not there yet."""
    recovering: bool = False
    asked_active: bool = False
    rows: tuple[Row, ...] = ()
    settled: Payload | None = None

    def newest(self, run_id: str) -> Run | None:
        return next((run for run in reversed(self.runs) if run.run_id == run_id), None)

    def keep(self, row: Payload) -> None:
        """The session's row while no run goes on: what it says of the last one stands, whatever frames were lost."""
        self.settled = row
        last = self.newest(str(row.get("lastRunId") or ""))
        if last is not None and row.get("status") == "killed":
            last.state.killed = True


class Core:
    """The runs of every session, and the actions that were asked for."""

    def __init__(self, accepts: Callable[[str], bool] = chat_key, *, adopt: bool = False) -> None:
        self._accepts = accepts
        self._adopt = adopt
        self._sessions: dict[str, Session] = {}
        self._by_run: dict[str, Session] = {}
        self._boot: str | None = None
        self._settles = False
        self._stop_notice = False
        self._after_gap = True
        self._greeted = False
        self._now = 0
        self._out: list[Action] = []

    def _session(self, key: str) -> Session:
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = Session(key)
        return session

    def _open(self, session: Session, run_id: str) -> Run:
        run = session.newest(run_id)
        if run is not None:
            return run
        return self._new(session, run_id)

    def _new(self, session: Session, run_id: str) -> Run:
        sequence = len(session.runs)
        run = Run(session.key, run_id, Reducer(run_id, prefix=f"r{sequence}_" if sequence else ""))
        run.session_id = session.session_id
        # Before the list has come, nobody knows whether a restart cut another run of the session.
        run.unsure = not self._greeted or session.recovering or bool(session.queued)
        run.unsure = run.unsure or any(other.cut for other in session.runs)
        recovers = False
        if session.waiting is not None and (
            run_id == session.waiting or self._may_answer(session, run, session.waiting)
        ):
            run.input_run, session.waiting = session.waiting, None
            session.queued.take(run.input_run)
            recovers, session.waiting_recovers = session.waiting_recovers, False
        session.runs.append(run)
        self._by_run[run_id] = session
        self._out.append(Opened(run))
        if recovers:
            self._link(session, run, None)
        return run

    def _may_answer(self, session: Session, run: Run, asked: str) -> bool:
        return shares_id(run.run_id, session.session_id) or asked in session.queued

    def _start(self, session: Session, run_id: str) -> Run:
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

    def _link(self, session: Session, run: Run, rows: Sequence[Row] | None, asked: int = 0) -> None:
        if run.sources or run.shown:
            return
        run.recovery = True
        run.told = self._now if rows is None else run.told
        named = source_of(rows, run.run_id) if rows is not None else None
        if named is None and asked < run.told:
            rows = None  # its input may not have been written when that history was read
        cut = _last_of(session, named, run) if named else None
        cut = cut or next(
            (other for other in reversed(session.runs) if other is not run and other.cut and other.open), None
        )
        if cut is None and rows is not None:
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
                source.continued, source.cut, source.ending = True, False, False
            session.recovering = False
        elif rows is None:
            self._ask(session, "link")

    def _end(self, session: Session, run: Run) -> None:
        if run.ended or run.ending or run.continued:
            return
        run.cut = False
        run.ending, run.told = True, self._now
        self._ask(session, "end")

    def _cut(self, run: Run) -> None:
        if not run.cut and not run.ending:
            run.cut = True
            self._out.append(Cut(run))

    def _ask(self, session: Session, why: str) -> None:
        # What a read that goes on does not have yet is asked for when it is there.
        if session.reading is None:
            session.reading = self._now
            self._out.append(ReadHistory(session.key, why))

    def _collect(self, session: Session, row: Row) -> str | None:
        """The message that a collection is answered in: the last of those that it holds."""
        *others, last = session.queued.collect(row) or (None,)
        self._out += [Collected(session.key, str(other), str(last)) for other in others]
        return last

    def _lose_queued(self) -> None:
        # What waits is in the Gateway's memory only.
        for session in self._sessions.values():
            self._out += [Lost(session.key, run_id) for run_id in session.queued.clear()]

    def _over(self, run: Run, final: Final) -> None:
        final = final if run.asked_by_person else hushed(final)
        run.final, run.ended, run.ending = final, True, False
        self._forget(self._sessions[run.key], run)
        if run.message_id is None or not (final.visible or run.shown):
            self._out.append(Discard(run))
            return
        run.claimed_id = run.message_id
        self._out.append(End(run, final))

    def _forget(self, session: Session, newest: Run) -> None:
        if self._adopt:
            return  # a replay is asked for all its runs at the end
        done = [run for run in session.runs if not run.open and run is not newest]
        for run in done[:-KEPT]:
            session.runs.remove(run)
            if session.newest(run.run_id) is None:
                self._by_run.pop(run.run_id, None)

    def _show(self, session: Session, run: Run, diff: Diff) -> None:
        if run.message_id is None or is_action(run.run_id) or run.ended:
            return
        if run.shown:
            if diff:
                self._out.append(Show(run, _shifted(diff, _base(run)), first=False))
            return
        if not run.state.items:
            return
        if not run.identified:
            if run.recovery or run.unsure or shares_id(run.run_id, session.session_id):
                self._ask(session, "identity")
            return
        carried = any(source.shown for source in run.sources)
        run.shown = True
        run.claimed_id = run.claimed_id or run.message_id
        whole = run.state.snapshot()
        if carried:
            self._out.append(Show(run, _shifted(whole, _base(run)), first=False))
            return
        before = [op for source in run.sources for op in _shifted(source.state.snapshot(), _base(source))]
        self._out.append(Show(run, [*before, *_shifted(whole, _base(run))], first=True))


def _last_of(session: Session, named: str, but: Run) -> Run | None:
    """The run that goes on in the message of the run `named`, other than `but`: itself, or a recovery of it."""
    return next(
        (
            other
            for other in reversed(session.runs)
            if other is not but
            and other.open
            and (other.run_id == named or any(source.run_id == named for source in other.sources))
        ),
        None,
    )


def _base(run: Run) -> int:
    return sum(len(source.state.items) for source in run.sources)


def _shifted(diff: Iterable[Op], by: int) -> Diff:
    return [replace(op, index=op.index + by) for op in diff] if by else list(diff)
