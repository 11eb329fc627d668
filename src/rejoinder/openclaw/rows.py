"""Every row of a session that a recording holds, in the order of its transcript.

Rows come alone (`session.message`) and in histories, some of them cut to the newest; what a run says first may come
last. Those that come alone are not all there are: text before a tool and results of tools are in histories only. A row is known by its id; the number of a row (`__openclaw.seq`) orders them within one session id. The text
before a tool is a row of its own, with the number and the id of the row of its call, and stands before it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from rejoinder.openclaw.frames import Payload, mapping
from rejoinder.turns.transcript import is_input, run_of, steered_into

Mark = tuple[str, ...]


class Transcript:
    """The rows of one session, as far as they are known."""

    def __init__(self) -> None:
        self.session_id: str | None = None
        self._epochs: dict[str, int] = {}
        self._rows: dict[Mark, Payload] = {}
        self._places: dict[Mark, tuple[int, float, int, int]] = {}
        self._read: set[Mark] = set()
        self._judged: set[Mark] = set()
        self._ordered: list[Mark] | None = None

    def add(self, row: Payload, session_id: str | None, seq: object = None) -> None:
        """Take a row that came alone."""
        self._add(row, session_id, seq, 0.0, read=False)

    def _add(
        self, row: Payload, session_id: str | None, seq: object, after: float, *, read: bool
    ) -> tuple[Mark, float]:
        # `after`: the number of the row before it in its history.
        if session_id:
            if not self.session_id and "" in self._epochs:
                self._epochs[session_id] = self._epochs[""]  # what came before did not say whose it was
            self.session_id = session_id
        epoch = self._epochs.setdefault(session_id or self.session_id or "", len(self._epochs))
        notes = mapping(row.get("__openclaw"))
        number = notes.get("seq", seq)
        mark = _mark(row, epoch)
        if isinstance(number, (int, float)):
            at = float(number)
        else:
            at = self._places[mark][1] if mark in self._places else after
        fallback = 0 if row.get("openclawStreamFallback") else 1
        if mark not in self._places:
            self._places[mark] = (epoch, at, fallback, len(self._places))
        if read or mark not in self._read:
            self._rows[mark] = row
        if read:
            self._read.add(mark)
        self._ordered = None
        return mark, at

    def add_all(self, rows: Sequence[Payload], session_id: str | None) -> None:
        """Take a history's rows."""
        marks, at = [], 0.0
        for row in rows:
            mark, at = self._add(row, session_id, None, at, read=True)
            marks.append(mark)
        # What came alone before this and is not in it, the Gateway hides.
        first = min((self._places[mark] for mark in marks), default=None)
        self._judged.update(mark for mark, place in self._places.items() if first is None or place >= first)

    def marks(self, rows: Sequence[Payload], session_id: str | None) -> list[Mark]:
        """The marks of rows that were taken before."""
        epoch = self._epochs.get(session_id or self.session_id or "", 0)
        return [_mark(row, epoch) for row in rows]

    def rows(self) -> list[Payload]:
        """All of them."""
        return [self._rows[mark] for mark in self._order()]

    def are_read(self, rows: Sequence[Payload]) -> bool:
        """Whether a history was read that goes over all of these rows, so that nothing between them is missing."""
        judged = {id(self._rows[mark]) for mark in self._judged}
        return all(id(row) in judged for row in rows)

    def until(self, seen: set[Mark], runs: Mapping[str, int]) -> list[Payload]:
        """The rows a history read at this moment would have: those seen so far, and what the runs known so far
        (how often each id is known) were asked and wrote after those.
        """
        order = [self._rows[mark] for mark in self._order()]
        last = max((place for place, mark in enumerate(self._order()) if mark in seen), default=-1)
        begun = Counter(_asked(order, place) for place in range(last + 1) if _begins(order[place]))
        end = last + 1
        for place in range(last + 1, len(order)):
            row = order[place]
            run = _asked(order, place) if _begins(row) else run_of(row)
            if _begins(row):
                # A run's id may be its session's: then the same id is another run after each new input.
                if run == self.session_id and begun[run] >= runs.get(run or "", 0):
                    break
                begun[run] += 1
            if run in runs:
                end = place + 1
        return order[:end]

    def _order(self) -> list[Mark]:
        if self._ordered is None:
            self._ordered = sorted(self._places, key=self._places.__getitem__)
        return self._ordered


def _begins(row: Payload) -> bool:
    return is_input(row) and steered_into(row) is None


def _asked(order: Sequence[Payload], place: int) -> str | None:
    """The run that an input began: who writes next."""
    return next((run_of(row) for row in order[place + 1 :] if not is_input(row)), None)


def _mark(row: Payload, epoch: int) -> Mark:
    notes = mapping(row.get("__openclaw"))
    own = notes.get("id") or row.get("id")
    if not own:
        return (str(epoch), json.dumps(row, sort_keys=True, default=str))
    content = row.get("content")
    blocks = content if isinstance(content, list) else []
    calls = [str(block.get("id")) for block in map(mapping, blocks) if block.get("type") == "toolCall"]
    kind = "before" if row.get("openclawStreamFallback") else "row"
    return (str(epoch), str(own), str(row.get("role")), kind, *calls)
