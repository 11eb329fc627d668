"""What the chats of a recording look like: the same rules that write real chats, fed from a file.

Every session that showed a run counts as a chat, whatever its key, but for a sub-agent's own. Several connections in
one recording saw the same things: what one of them has said already is not heard again from another.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rejoinder.openclaw.frames import Event, FrameError, Payload, Response, mapping, read, rows
from rejoinder.openclaw.recording import Line
from rejoinder.openclaw.rows import Mark, Transcript
from rejoinder.turns.finish import finish, hushed, joined
from rejoinder.turns.items import text_of
from rejoinder.turns.link import source_of
from rejoinder.turns.signals import (
    Dropped,
    Gap,
    Hello,
    HistoryRead,
    Listed,
    Pushed,
    ReadHistory,
    Run,
    Signal,
)
from rejoinder.turns.table import RunTable, any_key
from rejoinder.turns.transcript import is_closed, items_of, rows_of, runs_in


@dataclass(frozen=True, slots=True)
class Card:
    """A tool card: `completed`, `failed`, or `incomplete` for a call that never returned."""

    name: str
    status: str


@dataclass(frozen=True, slots=True)
class Message:
    """One run's message. `done` is False while the run goes on, or waits for one that carries on with it."""

    id: str
    run_id: str
    text: str
    cards: Sequence[Card]
    done: bool


def replay(lines: Iterable[Line]) -> dict[str, list[Message]]:
    """The messages of each chat, oldest first; what people wrote is left out. Chats without any are left out."""
    kept = [line for line in lines if line.direction != "note"]
    player = _Player(_transcripts(kept))
    for line in kept:
        player.play(line)
    return player.chats()


def as_json(chats: dict[str, list[Message]]) -> dict[str, Any]:
    """`{"chats": {key: [{"id", "run_id", "text", "cards": [{"name", "status"}], "done"}]}}`."""
    return {
        "chats": {
            key: [
                {
                    "id": message.id,
                    "run_id": message.run_id,
                    "text": message.text,
                    "cards": [{"name": card.name, "status": card.status} for card in message.cards],
                    "done": message.done,
                }
                for message in messages
            ]
            for key, messages in chats.items()
        }
    }


def _transcripts(lines: Iterable[Line]) -> dict[str, Transcript]:
    found: dict[str, Transcript] = {}
    for line in lines:
        frame = _frame(line)
        if isinstance(frame, Event) and frame.name == "session.message" and frame.session_key:
            transcript = found.setdefault(frame.session_key, Transcript())
            row, session_id = mapping(frame.payload.get("message")), _text(frame.payload.get("sessionId"))
            if row:
                transcript.add(row, session_id, frame.payload.get("messageSeq"))
        elif isinstance(frame, Response) and (history := _history(frame)) is not None:
            key, payload = history
            transcript = found.setdefault(key, Transcript())
            transcript.add_all(rows(payload.get("messages")), _text(payload.get("sessionId")))
    return found


def _frame(line: Line) -> Event | Response | None:
    if line.direction != "in":
        return None
    try:
        return read(line.frame)
    except FrameError:
        return None


def _history(response: Response) -> tuple[str, Payload] | None:
    payload = mapping(response.payload)
    key = payload.get("sessionKey")
    if response.ok and isinstance(key, str) and isinstance(payload.get("messages"), list):
        return key, payload
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


@dataclass(slots=True)
class _Connection:
    seq: int | None = None
    greeted: str | None = None
    heard: Counter[str] = field(default_factory=Counter)
    numbers: dict[int, str] = field(default_factory=dict)


class _Player:
    """Feeds the run table, and answers what it asks for with what the recording knows."""

    def __init__(self, transcripts: dict[str, Transcript]) -> None:
        self._table = RunTable(any_key, adopt=True)
        self._transcripts = transcripts
        self._seen: dict[str, set[Mark]] = {}
        self._connections: dict[str, _Connection] = {}
        self._known: Counter[str] = Counter()
        self._boot: str | None = None
        self._lost = False
        self._answered: dict[str, tuple[int, str | None]] = {}
        self._owed: set[str] = set()

    def play(self, line: Line) -> None:
        if line.direction == "closed":
            gone = self._connections.pop(line.connection, None)
            if gone is not None and not self._connections:
                self._lost = True
                self._feed(Dropped())
            return
        frame = _frame(line)
        if isinstance(frame, Event):
            self._event(line.connection, frame)
        elif isinstance(frame, Response) and frame.ok:
            self._response(line.connection, frame)
        for key in list(self._owed):
            self._answer(key)

    def chats(self) -> dict[str, list[Message]]:
        for key, transcript in self._transcripts.items():
            # All that is known of a session: runs that only its history shows get their message too.
            if any_key(key):
                self._read(key, transcript.rows(), transcript.session_id, None)
        found = {key: self._messages(key) for key in self._table.keys()}  # noqa: SIM118  a method of its own
        return {key: messages for key, messages in found.items() if messages}

    def _connection(self, name: str) -> _Connection:
        return self._connections.setdefault(name, _Connection())

    def _event(self, name: str, event: Event) -> None:
        if event.name == "connect.challenge":
            self._connections[name] = _Connection(heard=self._connection(name).heard)
            return
        connection, mark = self._connection(name), _fingerprint(event)
        if event.seq is not None:
            if connection.numbers.get(event.seq) == mark:
                return  # the very same frame
            last, connection.seq = connection.seq, event.seq
            # A number that was there before with other words is a new connection's, whose beginning was left out.
            connection.numbers = connection.numbers if event.seq not in connection.numbers else {}
            connection.numbers[event.seq] = mark
            if last is not None and event.seq != last + 1:
                self._feed(Gap())
        connection.heard[mark] += 1
        if connection.heard[mark] <= self._known[mark]:
            return
        self._known[mark] = connection.heard[mark]
        if event.name == "session.message" and event.session_key:
            row, session_id = mapping(event.payload.get("message")), _text(event.payload.get("sessionId"))
            transcript = self._transcripts[event.session_key]
            self._seen.setdefault(event.session_key, set()).update(transcript.marks([row], session_id))
        self._feed(Pushed(event.name, event.payload))

    def _response(self, name: str, response: Response) -> None:
        payload = mapping(response.payload)
        if payload.get("type") == "hello-ok":
            self._connection(name).greeted = str(mapping(payload.get("server")).get("bootId") or "")
            return
        listing = payload.get("list") if isinstance(payload.get("list"), dict) else payload
        if isinstance(listing, dict) and isinstance(listing.get("sessions"), list):
            self._listed(name, rows(listing["sessions"]))
            return
        history = _history(response)
        if history is None:
            return
        key, found = history
        transcript = self._transcripts[key]
        session_id = _text(found.get("sessionId"))
        seen = self._seen.setdefault(key, set())
        seen.update(transcript.marks(rows(found.get("messages")), session_id))
        self._read(key, transcript.until(seen, self._runs(key)), session_id, found.get("inFlightRun"))
        session = mapping(found.get("sessionInfo"))
        if session:
            self._feed(Listed([{"key": key, **session}]))

    def _listed(self, name: str, listed: Sequence[Payload]) -> None:
        connection = self._connection(name)
        boot, connection.greeted = connection.greeted, None
        if boot is not None and (boot != self._boot or self._lost):
            self._boot, self._lost = boot, False
            self._feed(Hello(boot, listed))
        else:
            self._feed(Listed(listed))

    def _feed(self, signal: Signal) -> None:
        for action in self._table.feed(signal):
            if isinstance(action, ReadHistory):
                if action.why == "end":
                    self._answered.pop(action.key, None)
                self._answer(action.key)

    def _answer(self, key: str) -> None:
        """What the Gateway would have answered at this moment; later, if it would say again what it said before."""
        transcript = self._transcripts.get(key) or Transcript()
        runs = self._table.runs(key)
        active = next((run for run in reversed(runs) if _executes(run)), None)
        flight = {"runId": active.run_id, "text": "", "events": []} if active is not None else None
        known = transcript.until(self._seen.get(key, set()), self._runs(key))
        said = (len(known), active.run_id if active is not None else None)
        if self._answered.get(key) == said:
            self._owed.add(key)
            return
        self._answered[key] = said
        self._owed.discard(key)
        self._read(key, known, transcript.session_id, flight)

    def _read(self, key: str, known: Sequence[Payload], session_id: str | None, flight: Any) -> None:
        payload: dict[str, Any] = {"sessionKey": key, "messages": list(known)}
        if session_id:
            payload["sessionId"] = session_id
        if flight:
            payload["inFlightRun"] = flight
        self._feed(HistoryRead(key, payload))

    def _runs(self, key: str) -> Counter[str]:
        return Counter(run.run_id for run in self._table.runs(key))

    def _messages(self, key: str) -> list[Message]:
        transcript = self._transcripts.get(key) or Transcript()
        known = transcript.rows()
        found: dict[str, Message] = {}
        for first, runs in self._groups(key, known):
            message_id = first.message_id
            if message_id is None or message_id in found:
                continue
            finals = [finish(_own(run, known), run.state, continued=True) for run in runs[:-1]]
            last, own = runs[-1], _own(runs[-1], known)
            # Rows that came alone went into the stream's state as well, which has besides what they leave out.
            alone = bool(last.state.items) and not transcript.are_read(own)
            final = joined([*finals, finish(() if alone else own, last.state)])
            final = final if last.asked_by_person else hushed(final)
            if final.visible:
                cards = [Card(card.name, card.status) for card in final.cards]
                done = last.ended or is_closed(own)
                found[message_id] = Message(message_id, first.run_id, final.text, cards, done)
        return list(found.values())

    def _groups(self, key: str, known: Sequence[Payload]) -> list[tuple[Run, list[Run]]]:
        """The runs by the message they write, oldest first: a run that was cut, and those that carried on with it.

        The whole transcript tells it better than the frames did, of which some may have been lost.
        """
        groups: dict[int, tuple[Run, list[Run]]] = {}
        runs = _parted(self._table.runs(key), known)
        asked = _asked(runs, known)
        for run in runs:
            # Only a run that nobody asked for may be a heartbeat's; the frames that said it was none were lost.
            run.hidden = run.hidden and run.run_id not in asked
            first = run.sources[0] if run.sources else None
            if first is None and (named := source_of(known, run.run_id)) is not None:
                first = self._table.find(key, named)
            first = first or run
            groups.setdefault(id(first), (first, []))[1].append(run)
        return list(groups.values())


def _parted(runs: Sequence[Run], known: Sequence[Payload]) -> list[Run]:
    """The runs, of which those that share their session's id have the inputs that the transcript has for them.

    A connection that is not told the session's id shows such a run before its input is known; and what others say of
    it afterwards looks like another one.
    """
    session_id = next((run.session_id for run in reversed(runs) if run.session_id), None)
    stored = [found for found in runs_in(known, session_id) if found.run_id == session_id]
    sharing = [run for run in runs if run.run_id == session_id and run.ended]
    taken = {run.input_run for run in sharing}
    left = [found.input_run for found in stored if found.input_run and found.input_run not in taken]
    told = ["".join(text_of(items_of(found.rows)).split()) for found in stored]
    kept = []
    for run in runs:
        if run in sharing and run.input_run is None:
            if left:
                run.input_run, run.claimed_id, run.session_id = left.pop(0), None, session_id
            elif any("".join(text_of(run.state.items).split()) in text for text in told):
                continue  # all of the transcript's have theirs, and it says nothing that none of them says
        kept.append(run)
    return kept


def _asked(runs: Sequence[Run], known: Sequence[Payload]) -> set[str]:
    """The runs that the transcript has an input for which is no other run's."""
    ids = {run.run_id for run in runs}
    session_id = runs[0].session_id if runs else None
    return {
        found.run_id
        for found in runs_in(known, session_id)
        if not found.internal and (found.input_run == found.run_id or found.input_run not in ids)
    }


def _executes(run: Run) -> bool:
    return run.open and not run.ending and not run.cut and run.state.terminal is None


def _own(run: Run, known: Sequence[Payload]) -> tuple[Payload, ...]:
    """The run's rows among all that the recording knows, also those that were read after its end."""
    return rows_of(known, run.run_id, run.input_run, run.session_id)


def _fingerprint(event: Event) -> str:
    payload: Any = event.payload
    name = event.name
    if name in ("agent", "session.tool"):
        # One connection gets a tool as the one, the next as the other, with the same words.
        name = "agent"
        payload = [payload.get(part) for part in ("runId", "stream", "seq", "data")]
    return f"{name} {json.dumps(payload, sort_keys=True, default=str)}"
