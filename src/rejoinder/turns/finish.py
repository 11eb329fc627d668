"""The finished message of a run: its transcript, and what only the stream knew.

- The transcript's rows win where the run's answer is closed in them.
- Without rows, what streamed stays (c_claudecli: a killed CLI run leaves no row but its input).
- CLI runtimes write the closing text only: the cards stay where they streamed (c_claudecli).
- An answer the transcript does not close (r_sigterm_long: partial text of a killed run is not stored) goes on
  with what streamed after it, unless another run carried on with it (r_sigkill: the recovery says it anew).
- A call without a row for its result keeps the streamed one (s10_queue, interrupted: only the call has a row).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rejoinder.turns.items import Card, Item, Text, Thought, cards_of, copy_of, output_items, text_of
from rejoinder.turns.reducer import Reducer
from rejoinder.turns.sentinels import is_nothing_said, may_become_sentinel
from rejoinder.turns.shortened import mended
from rejoinder.turns.transcript import Row, files_of, is_closed, items_of, says_only_the_end
from rejoinder.turns.usage import Usage, usage_of

_MADE_UP = re.compile(r"call_(r\d+_)?\d{1,4}")


@dataclass(frozen=True, slots=True)
class Final:
    """A finished message. `visible` is False for a run that said nothing, which gets none.

    error: what the Gateway said of a failed run, for people; None otherwise.
    files: paths of files that the run's words attach (`media`). usage: the tokens it used, as far as rows name them.
    """

    items: list[Item]
    error: str | None = None
    silent: bool = False
    state: str = "final"
    yielded: bool = False
    complete: bool = field(default=True)
    files: tuple[str, ...] = ()
    usage: Usage = field(default=Usage())

    @property
    def text(self) -> str:
        """The reply's text."""
        return text_of(self.items)

    @property
    def cards(self) -> list[Card]:
        """The tool cards, in order."""
        return cards_of(self.items)

    @property
    def output(self) -> list[dict[str, Any]]:
        """The Responses-style output items, every call with its output."""
        return output_items(self.items, done=True)

    @property
    def visible(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.text or self.cards or self.files or (self.error and not self.silent))


def finish(rows: Sequence[Row], state: Reducer | None, *, continued: bool = False, prefix: str = "") -> Final:
    """The finished message of one run.

    rows: the run's own history rows (`transcript.rows_of`); empty if the history has none or cannot be read.
    state: what streamed; None for a run nobody watched. It is closed by this call.
    continued: another run carried on in the same message, so a cut-off end that only streamed is dropped.
    """
    live: list[Item] = []
    if state is not None:
        state.close()
        live = [copy_of(item) for item in state.items if isinstance(item, Card) or item.text.strip()]
    told = mended(items_of(rows, prefix=prefix), live)
    cut = False
    if not rows:
        items = _without_cut_sentinel(live) if state is not None and state.gapped else live
        cut = len(items) < len(live)
        items = _without_open_end(items) if continued else items
    elif says_only_the_end(rows):
        items = _with_closing(live, told, trusted=state is not None and not state.gapped)
    else:
        items = told if is_closed(rows) or continued else _with_tail(told, live)
        items = _completed(items, live)
    ending = state.terminal if state is not None else None
    how = ending.state if ending is not None else "final"
    if how == "error" and state is not None and state.killed:
        # Its other ending was lost. A model that only says NO_REPLY ends so, with an error (t02_noreply); so does a stop.
        how = "aborted"
    shown = any(isinstance(item, Card) or item.text.strip() for item in items)
    return Final(
        items,
        error=state.error if state is not None and how == "error" else None,
        silent=state is not None and (state.silent or cut) and not shown,
        state=how,
        yielded=ending is not None and ending.yielded,
        complete=bool(rows) or state is None or not state.gapped,
        files=files_of(rows),
        usage=usage_of(rows),
    )


def _without_cut_sentinel(live: list[Item]) -> list[Item]:
    # The frames that would have finished the sentinel, or taken it back, were lost (t02_noreply with lost frames).
    if live and isinstance(live[-1], Text) and may_become_sentinel(live[-1].text):
        return live[:-1]
    return live


def _without_open_end(items: list[Item]) -> list[Item]:
    # The run that carried on says it anew, as it does where the cut one has rows.
    last = max((place for place, item in enumerate(items) if isinstance(item, Card)), default=-1)
    return items[: last + 1]


def joined(finals: Sequence[Final]) -> Final:
    """One message of several runs that followed each other in it (a cut run and the one that carried on)."""
    last = finals[-1]
    return replace(
        last,
        items=[item for final in finals for item in final.items],
        files=tuple(dict.fromkeys(path for final in finals for path in final.files)),
        usage=sum((final.usage for final in finals), Usage()),
    )


def hushed(final: Final) -> Final:
    """The same, silent if all it says is that the run said nothing: for a run whose answer nobody waits for."""
    if final.items or final.files or not is_nothing_said(final.error):
        return final
    return replace(final, silent=True)


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _with_closing(live: list[Item], told: list[Item], *, trusted: bool) -> list[Item]:
    closing = text_of(told)
    streamed = [item for item in live if isinstance(item, Text)]
    whole, end = text_of(streamed).split(), closing.split()
    if not any(isinstance(item, Card) for item in live):
        return [item for item in live if isinstance(item, Thought)] + told
    if whole == end or (trusted and end and whole[-len(end) :] == end):
        return live
    # Lost frames: the streamed stretches the closing text has are kept in place, the rest of it comes last.
    rest = closing
    kept: list[Item] = []
    for item in live:
        if not isinstance(item, Text):
            kept.append(item)
            continue
        start = rest.lstrip()
        if start.startswith(item.text.strip()) and item is not streamed[-1]:
            # A stretch whose end was lost goes on to the end of its paragraph.
            place = start.find("\n\n", len(item.text.strip()))
            part = start[: place if place >= 0 else None]
            rest = start[len(part) :]
            kept.append(Text(item.id, part))
    if rest.strip():
        kept.append(Text("text_closing", rest.strip()))
    return kept


def _same(one: Item, other: Item) -> bool:
    if isinstance(one, Card) or isinstance(other, Card):
        if not isinstance(one, Card) or not isinstance(other, Card) or one.name != other.name:
            return False
        # A call that was told without an id has one of our making.
        return one.call_id == other.call_id or _MADE_UP.fullmatch(other.call_id) is not None
    return type(one) is type(other) and _squeezed(one.text) == _squeezed(other.text)


def _with_tail(told: list[Item], live: list[Item]) -> list[Item]:
    place = 0
    streamed = [item for item in live if not isinstance(item, Thought)]
    for item in told:
        if isinstance(item, Thought):
            continue
        if place == len(streamed):
            return told
        if not _same(item, streamed[place]):
            mine, theirs = item, streamed[place]
            last = item is told[-1]
            if (
                last
                and isinstance(mine, Text)
                and isinstance(theirs, Text)
                and theirs.text.startswith(mine.text)
            ):
                return [*told[:-1], Text(mine.id, theirs.text), *streamed[place + 1 :]]
            return told
        place += 1
    return [*told, *streamed[place:]]


def _completed(items: list[Item], live: list[Item]) -> list[Item]:
    streamed = {card.call_id: card for card in cards_of(live)}
    for card in cards_of(items):
        known = streamed.get(card.call_id)
        if card.output is None and known is not None and known.output is not None:
            card.output, card.failed = known.output, known.failed
    return items
