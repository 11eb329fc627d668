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

from collections.abc import Mapping

from rejoinder.turns.core import Session
from rejoinder.turns.identity import any_key, chat_key, input_id, shares_id
from rejoinder.turns.readings import OVER, Readings
from rejoinder.turns.signals import (
    Action,
    Dropped,
    Gap,
    GivenUp,
    Hello,
    HistoryFailed,
    HistoryRead,
    Listed,
    Payload,
    Pushed,
    Queued,
    ReadList,
    Run,
    Signal,
    Steered,
)
from rejoinder.turns.transcript import (
    Row,
    RunRows,
    is_collection,
    is_input,
    is_posted,
    is_recovery,
    key_of,
    run_of,
    runs_in,
    steered_into,
)


class RunTable(Readings):
    """Feed it signals in their order, do what it answers.

    accepts: which session keys are chats.
    adopt: whether closed runs that a history shows and nobody watched get their message too.
    """

    def feed(self, signal: Signal) -> list[Action]:
        """What one signal asks for."""
        self._out = []
        self._now += 1
        if isinstance(signal, Pushed):
            self._pushed(signal.event, signal.payload)
            self._after_gap = False
        elif isinstance(signal, Hello):
            restarted = self._boot is not None and self._boot != signal.boot_id
            self._boot = signal.boot_id
            self._stop_notice = False
            self._after_gap = self._greeted = True
            if restarted:
                self._lose_queued()
            self._reconcile(signal.rows, restarted=restarted, hello=True)
        elif isinstance(signal, Listed):
            self._reconcile(signal.rows, restarted=False, hello=False)
        elif isinstance(signal, HistoryRead):
            if self._accepts(signal.key):
                session = self._session(signal.key)
                self._history(session, signal)
        elif isinstance(signal, HistoryFailed):
            if self._accepts(signal.key) and signal.restarting:
                self._finish_streamed(self._session(signal.key))
            elif self._accepts(signal.key):
                self._history_failed(self._session(signal.key))
        elif isinstance(signal, Gap):
            self._lose()
            self._after_gap = True
            self._out.append(ReadList())
        elif isinstance(signal, GivenUp):
            session = self._session(signal.key)
            for run in [run for run in session.runs if run.cut and run.open]:
                self._end(session, run)
        elif isinstance(signal, Dropped):
            self._lose()
            self._greeted = False
        return self._out

    @property
    def now(self) -> int:
        """How many signals there were: what a history that is asked for now cannot be older than."""
        return self._now

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

    def row(self, key: str) -> Payload | None:
        """The session's row as it was last told while no run went on: what `owner.owner_of` decides by."""
        session = self._sessions.get(key)
        return session.settled if session is not None else None

    def expect(self, key: str, run_id: str, words: str | None = None) -> None:
        """A run that this process sends itself and streams into its own request. words: what it was asked."""
        session = self._session(key)
        if run_id in session.queued:
            session.queued.put(run_id, words)  # it waits already, and will never run under this id
            return
        run = self._open(session, run_id)
        run.mode, run.words = "inline", words

    def unfinished(self) -> list[Run]:
        """The runs that have not ended, cut ones among them."""
        return [run for session in self._sessions.values() for run in session.runs if run.open]

    def _pushed(self, event: str, payload: Payload) -> None:
        if event == "shutdown":
            self._stop_notice = payload.get("restartExpectedMs") is None
            if self._stop_notice:
                for each in self._sessions.values():
                    self._finish_streamed(each)
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

    def _session_of(self, payload: Payload) -> Session | None:
        key = str(payload.get("sessionKey") or "")
        if not key:
            return self._by_run.get(str(payload.get("runId") or ""))
        if payload.get("spawnedBy") or not self._accepts(key):
            return None
        return self._session(key)

    def _event(self, session: Session, event: str, payload: Payload) -> None:
        run_id = str(payload.get("runId") or "")
        if not run_id:
            return
        run = session.newest(run_id)
        if event == "chat" and _is_bare(payload) and (run is None or not run.state.events):
            if run is not None:
                session.runs.remove(run)
            if run_id not in session.steered:
                session.queued.put(run_id, run.words if run is not None else None)
                self._out.append(Queued(session.key, run_id))
            return
        data = payload.get("data") or {}
        if run is not None and event != "session.tool" and not payload.get("isHeartbeat"):
            run.hidden = False
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

    def _take(self, session: Session, run: Run, event: str, payload: Payload) -> None:
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

    def _consider(self, session: Session, run: Run, *, chat: bool) -> None:
        terminal = run.state.terminal
        assert terminal is not None
        run.stop_notice = run.stop_notice or self._stop_notice
        if terminal.stop_reason == "restart":
            self._cut(run)
        elif chat and (
            terminal.settled or terminal.state == "aborted" or terminal.yielded or not self._settles
        ):
            self._end(session, run)

    def _changed(self, session: Session, payload: Payload) -> None:
        phase, run_id = payload.get("phase"), payload.get("runId")
        if phase == "start" and run_id:
            known = session.newest(str(run_id))
            run = self._start(session, str(run_id))
            # The agent's own start stands right before this one, but for a heartbeat's run.
            if run is not known and not self._after_gap:
                run.hidden = True
        active = payload.get("hasActiveRun")
        if active:
            for named in payload.get("activeRunIds") or ():
                self._open(session, str(named))
        ended = session.newest(str(run_id)) if run_id else None
        if phase in ("end", "error") and ended is not None and not ended.cut:
            terminal = ended.state.terminal
            if terminal is None or terminal.settled or not self._settles:
                self._end(session, ended)
        if active is False:
            self._settled(session, payload)

    def _settled(self, session: Session, row: Payload) -> None:
        session.keep(row)
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
            elif status in OVER and (terminal is not None or last == run.run_id or settled):
                self._end(session, run)

    def _message(self, session: Session, payload: Payload) -> None:
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
                # A row alone shows nothing: whether its run is one for people, its events say.
                run = self._new(session, run_id)
                run.hidden = run.unsure = True
            if not run.ended:
                self._take(session, run, "session.message", payload)

    def _input(self, session: Session, row: Row) -> None:
        asked, into = input_id(key_of(row)), steered_into(row)
        if asked is None and is_collection(row):
            asked = self._collect(session, row)
        if asked is None:
            return
        if into is not None:
            if session.waiting == asked:
                session.waiting = None
            session.queued.take(asked)
            if asked not in session.steered:
                session.steered.add(asked)
                self._out.append(Steered(session.key, asked, into))
            return
        if not is_recovery(row):
            for cut in [run for run in session.runs if run.cut and run.open]:
                # The Gateway recovers the run that was admitted last: from here on that is another one.
                self._end(session, cut)
        run = session.newest(asked) or next(
            (
                other
                for other in reversed(session.runs)
                if other.open and other.input_run is None and self._may_answer(session, other, asked)
            ),
            None,
        )
        if run is None:
            session.waiting, session.waiting_recovers = asked, is_recovery(row)
            return
        session.queued.take(asked)
        run.input_run = asked
        if is_recovery(row):
            self._link(session, run, None)
        self._show(session, run, [])


def _is_bare(payload: Payload) -> bool:
    return payload.get("state") == "final" and not any(
        payload.get(name) for name in ("agentId", "message", "stopReason", "yielded")
    )


__all__ = ["RunTable", "any_key", "chat_key"]
