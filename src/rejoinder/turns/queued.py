"""Messages that the Gateway took into a busy session and that no run has answered yet.

Recorded (s10_queue, Gateway 2026.9.3): such a message is answered under a new run id. The row of that run's input names
the message by its key; one that holds several (`followup-collect:`) names none of them and has their texts, each under
a heading of its own, in the order in which they came. Two that wait may be collected one by one: each row takes those
it holds and no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rejoinder.turns.identity import parse_run
from rejoinder.turns.transcript import Row, blocks_of

_HEADING = re.compile(r"^---\s*\nQueued #\d+[^\n]*\n", re.MULTILINE)


def collected(row: Row) -> list[str]:
    """The texts of the messages that a collection's row holds, oldest first; empty for one that tells none."""
    whole = "\n".join(str(block.get("text") or "") for block in blocks_of(row) if block.get("type") == "text")
    return _HEADING.split(whole)[1:]


@dataclass(frozen=True, slots=True)
class _Waiting:
    text: str | None
    sure: bool


class Queued:
    """The waiting messages of one session by the ids they were sent under, oldest first."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __iter__(self) -> Iterator[str]:
        return iter(self._waiting)

    def __contains__(self, asked: object) -> bool:
        return isinstance(asked, str) and self._find(asked) is not None

    def put(self, run_id: str, text: str | None = None, *, sure: bool = True) -> None:
        """A message waits. text: what it says, where it is known. sure: the Gateway said so; else it is a reply of the
        chat that nobody finished, and is known to have waited only by its text in a collection."""
        known = self._find(run_id)
        if known is None or (sure and not self._waiting[known].sure):
            self.take(run_id)
            self._waiting[run_id] = _Waiting(text, sure)
        elif text is not None:
            self._waiting[known] = _Waiting(text, self._waiting[known].sure)

    def take(self, asked: str | None) -> None:
        """It waits no longer."""
        known = self._find(asked or "")
        if known is not None:
            del self._waiting[known]

    def clear(self) -> list[str]:
        """None waits any longer; those that did."""
        left = list(self._waiting)
        self._waiting.clear()
        return left

    def collect(self, row: Row) -> list[str]:
        """Those that a collection's row holds, oldest first. The last one waits on until its run is known (`take`)."""
        texts = collected(row)
        if not texts:
            found = [one for one, how in self._waiting.items() if how.sure]
        else:
            found = []
            for text in texts:
                match = self._match(text, found)
                if match is not None:
                    found.append(match)
        for one in found[:-1]:
            del self._waiting[one]
        return found

    def _match(self, text: str, but: list[str]) -> str | None:
        rest = {one: how for one, how in self._waiting.items() if one not in but}
        said = _squeezed(text)
        for one, how in rest.items():
            if how.text is not None and _squeezed(how.text) == said:
                return one
        # The Gateway may have put words of its own around it; the order is what is left.
        return next((one for one, how in rest.items() if how.sure), None)

    def _find(self, asked: str) -> str | None:
        if asked in self._waiting:
            return asked
        own = parse_run(asked)
        for one in self._waiting:
            other = parse_run(one)
            if (
                own is not None
                and other is not None
                and (own.chat, own.message) == (other.chat, other.message)
            ):
                return one
        return None


def _squeezed(text: str) -> str:
    return "".join(text.split())
