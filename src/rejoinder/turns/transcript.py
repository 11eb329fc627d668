"""A session's history, read run by run: which rows are a run's own, and what they say.

Recorded facts (Gateway 2026.9.3), the row's way of naming its run:

| row | names its run by |
|---|---|
| input | idempotency key `<id>:user`; role user, or assistant for a message from another session |
| assistant and tool rows, API runtimes | `__openclaw.runId` |
| assistant row, CLI runtimes (closing text only, no tool rows) | idempotency key `cli-assistant:<R>`, no runId |
| partial text of a stopped run | `<R>:assistant` |
| error text, fallback text | `<R>:terminal-error`, `<R>:settled-finalization-fallback` |
| result of a scheduled job "in this chat" | `cron-current-completion:<run>`; no run exists on the key |

Rows of an announce or a heartbeat have no input row: it is hidden, and leaves a hole in the rows' `seq`. Text before
a tool is a row of its own (`openclawStreamFallback`) with the tool row's `seq`. Two scheduled runs of one session
share their run id, and their input rows part them. A steered input is marked `steerTargetRunId`: it belongs to the
run it was put into.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rejoinder.turns.identity import input_id
from rejoinder.turns.items import Card, Item, Text, Thought, arguments_text, result_text
from rejoinder.turns.media import split
from rejoinder.turns.sentinels import without_sentinel

Row = Mapping[str, Any]

HIDDEN_INPUT = "announce:"
"""How the ids of runs begin whose input row is hidden from the history."""
RECOVERY_TOOL = "main_session_restart_recovery"
_CLI = "cli-assistant:"
_POSTED = "cron-current-completion:"
#: Of the row in which a stopped run's words are kept.
_ABORT = "openclawAbort"
_CLOSING = frozenset({"stop", "end_turn", "error", "aborted", "length", "max_tokens"})
_OWN_SUFFIXES = (":assistant", ":terminal-error", ":settled-finalization-fallback")


@dataclass(frozen=True, slots=True)
class RunRows:
    """The rows of one run of a session.

    input_run: `<id>` of its input row (the whole key for a collection of queued messages); None if it is hidden.
    """

    run_id: str
    input_run: str | None
    rows: tuple[Row, ...]
    recovery: bool = False
    posted: bool = False

    @property
    def internal(self) -> bool:
        """Whether nobody asked for the run: no input, no sub-agent's end. Such a run is a heartbeat's."""
        return self.input_run is None and not self.posted and not self.run_id.startswith(HIDDEN_INPUT)


def meta_of(row: Row) -> Row:
    """The Gateway's own notes on a row."""
    notes = row.get("__openclaw")
    return notes if isinstance(notes, Mapping) else {}


def key_of(row: Row) -> str:
    """The row's idempotency key, or an empty text."""
    return str(row.get("idempotencyKey") or meta_of(row).get("idempotencyKey") or "")


def is_input(row: Row) -> bool:
    """Whether the row is what a run was asked, by its key and never by its role."""
    return input_id(key_of(row)) is not None or is_collection(row) or row.get("role") == "user"


def is_collection(row: Row) -> bool:
    """Whether the row is the input of a run that answers several queued messages at once."""
    return is_collection_key(key_of(row))


def is_collection_key(key: str) -> bool:
    """Whether an input of this key is a collection's."""
    return key.startswith("followup-collect:")


def is_recovery(row: Row) -> bool:
    """Whether the row is the Gateway's own input of a restart recovery run."""
    source = row.get("provenance")
    return isinstance(source, Mapping) and source.get("sourceTool") == RECOVERY_TOOL


def steered_into(row: Row) -> str | None:
    """The run an input was put into while it ran, if it was."""
    target = meta_of(row).get("steerTargetRunId")
    return str(target) if target else None


def run_of(row: Row) -> str | None:
    """The run an assistant or tool row belongs to; None for inputs and for rows that do not say."""
    if is_input(row):
        return None
    named = meta_of(row).get("runId")
    if named:
        return str(named)
    key = key_of(row)
    if key.startswith(_CLI):
        return key[len(_CLI) :]
    if key.startswith(_POSTED):
        posted = row.get("openclawAutomation")
        return str((posted.get("runId") if isinstance(posted, Mapping) else None) or key[len(_POSTED) :])
    for suffix in _OWN_SUFFIXES:
        if key.endswith(suffix):
            return key[: -len(suffix)]
    return None


def is_posted(row: Row) -> bool:
    """Whether the row is a result put into the session by a job that ran elsewhere."""
    return key_of(row).startswith(_POSTED)


def blocks_of(row: Row) -> list[Row]:
    """The content blocks of a row; a plain text is one block."""
    content = row.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def runs_in(rows: Sequence[Row], session_id: str | None = None) -> list[RunRows]:
    """Every run the history knows, oldest first, each with its own rows.

    session_id: the session's id; a run of that id is another run after each new input.
    """
    found: list[_Found] = []
    newest: dict[str, _Found] = {}
    calls: dict[str, str] = {}
    taken: set[str] = set()
    waiting: str | None = None
    recovery = False
    place: int | None = None
    for row in _unique(rows):
        if is_input(row):
            if steered_into(row) is None:
                key = key_of(row)
                waiting, recovery = input_id(key) or key or None, is_recovery(row)
                place = _place(row)
            continue
        run = run_of(row) or calls.get(str(row.get("toolCallId")))
        if run is None:
            continue
        for block in blocks_of(row):
            if block.get("type") == "toolCall" and block.get("id"):
                calls[str(block["id"])] = run
        own = newest.get(run)
        if own is None or (run == session_id and waiting is not None and waiting not in taken):
            hidden = is_posted(row) or run.startswith(HIDDEN_INPUT) or waiting in taken
            # Between an input and the row of a run of another id another input is hidden: it answers that one.
            hidden = hidden or (waiting != run != session_id and _hole(place, _place(row)))
            asked = None if hidden else waiting
            own = newest[run] = _Found(run, asked, [], recovery and asked is not None, is_posted(row))
            found.append(own)
            if asked is not None:
                taken.add(asked)
        own.rows.append(row)
    return [RunRows(own.run_id, own.asked, tuple(own.rows), own.recovery, own.posted) for own in found]


def _place(row: Row) -> int | None:
    number = meta_of(row).get("seq")
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _hole(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and after > before + 1


@dataclass(slots=True)
class _Found:
    run_id: str
    asked: str | None
    rows: list[Row]
    recovery: bool
    posted: bool


def rows_of(
    rows: Sequence[Row], run_id: str, input_run: str | None = None, session_id: str | None = None
) -> tuple[Row, ...]:
    """The rows of one run; of a repeated run id, those after the input `input_run` (else the newest)."""
    named = [run for run in runs_in(rows, session_id) if run.run_id == run_id]
    if len(named) > 1 and input_run is not None:
        named = [run for run in named if run.input_run == input_run]
    return named[-1].rows if named else ()


def items_of(rows: Sequence[Row], *, prefix: str = "") -> list[Item]:
    """What the rows of one run say, in the transcript's order."""
    items: list[Item] = []
    cards: dict[str, Card] = {}
    fallback: str | None = None
    for row in rows:
        if row.get("role") == "toolResult":
            _result(row, items, cards, prefix)
            continue
        again, fallback = fallback, None
        for block in blocks_of(row):
            kind = block.get("type")
            if kind == "text":
                text = without_sentinel(split(str(block.get("text") or ""))[0])
                if row.get(_ABORT):
                    text = _unsaid(text, items)
                if not text.strip() or text.strip() == again:
                    continue
                items.append(Text(f"{prefix}text_{len(items) + 1}", text))
                if row.get("openclawStreamFallback"):
                    fallback = text.strip()
            elif kind in ("thinking", "reasoning"):
                thought = str(block.get("thinking") or block.get("text") or "")
                if thought.strip():
                    items.append(Thought(f"{prefix}thought_{len(items) + 1}", thought))
            elif kind == "toolCall":
                _call(block, items, cards, prefix)
    return items


def files_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """The files that the run's words attach and that the rows do not have themselves; their paths, in order."""
    found = [
        path
        for row in rows
        if row.get("role") == "assistant"
        for block in blocks_of(row)
        if block.get("type") == "text"
        for path in split(str(block.get("text") or ""))[1]
    ]
    return tuple(dict.fromkeys(found))


def is_closed(rows: Sequence[Row]) -> bool:
    """Whether the run's last row is the end of its answer, so that nothing of it is missing after it."""
    if not rows:
        return False
    last = rows[-1]
    if last.get("role") == "toolResult" and last.get("toolName") == "sessions_yield":
        return True  # it waits for its sub-agents, and what comes of them is another run (s11_subagent)
    if last.get("role") != "assistant":
        return False
    if last.get("openclawStreamFallback"):
        return False
    if any(block.get("type") == "toolCall" for block in blocks_of(last)):
        return False
    key = key_of(last)
    return (
        key.startswith((_CLI, _POSTED)) or key.endswith(_OWN_SUFFIXES) or last.get("stopReason") in _CLOSING
    )


def says_only_the_end(rows: Sequence[Row]) -> bool:
    """Whether the run's runtime writes its closing text only: its cards are known from the stream alone."""
    return bool(rows) and all(key_of(row).startswith(_CLI) for row in rows)


def _unsaid(text: str, items: Sequence[Item]) -> str:
    """What a stopped run's last row says beyond the rows before it.

    Recorded (Gateway 2026.9.3, a stop while a tool runs): that row has what was streamed, and of it the words before the
    tool have a row of their own by then."""
    said = "".join("".join(item.text.split()) for item in items if isinstance(item, Text))
    if said.endswith("".join(text.split())):
        return ""
    rest = iter(said)
    for place, letter in enumerate(text):
        if letter.isspace():
            continue
        expected = next(rest, None)
        if expected is None:
            return text[place:]
        if expected != letter:
            return text
    return text


def _unique(rows: Sequence[Row]) -> Iterator[Row]:
    seen: set[str] = set()
    for row in rows:
        notes = meta_of(row)
        if notes.get("id"):
            calls = ",".join(
                str(block.get("id")) for block in blocks_of(row) if block.get("type") == "toolCall"
            )
            mark = f"{notes['id']}|{row.get('role')}|{calls}|{bool(row.get('openclawStreamFallback'))}"
            if mark in seen:
                continue
            seen.add(mark)
        yield row


def _call(block: Row, items: list[Item], cards: dict[str, Card], prefix: str) -> None:
    place = len(items) + 1
    call = str(block.get("id") or f"call_{prefix}{place}")
    unique = (
        call
        if all(not isinstance(item, Card) or item.call_id != call for item in items)
        else f"{call}#{place}"
    )
    name, arguments = str(block.get("name") or "tool"), arguments_text(block.get("arguments"))
    cards[call] = Card(f"{prefix}tool_{place}", unique, name, arguments)
    items.append(cards[call])


def _result(row: Row, items: list[Item], cards: dict[str, Card], prefix: str) -> None:
    call = str(row.get("toolCallId") or "")
    card = cards.get(call)
    if card is None:
        name = row.get("toolName")
        card = next((c for c in cards.values() if c.output is None and (not call or c.name == name)), None)
    if card is None:
        place = len(items) + 1
        card = Card(
            f"{prefix}tool_{place}", call or f"call_{prefix}{place}", str(row.get("toolName") or "tool")
        )
        items.append(card)
        cards[card.call_id] = card
    if card.output is None:
        card.output = result_text(row.get("content"))
        card.failed = bool(row.get("isError"))
