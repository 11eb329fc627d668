"""One run's live state: Gateway events in, the difference of the message's items out.

Recorded facts: tools come as `session.tool` to every subscribed connection and as `agent` stream `tool` to the one
that started the run, with the same payload (s03_tools); the row of an assistant message with its calls is pushed
before the first of them starts; a start in `inFlightRun` has no arguments and a number of its own, so it is known
by its call id only (c_claudecli); a run pushes several starts and terminals (t02_noreply), the true end being the
one with `executionSettled` or the settled push; an error comes twice, the second time reworded (s12_error).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from rejoinder.turns.items import Card, Item, Text, Thought, arguments_text, copy_of, result_text
from rejoinder.turns.shortened import beginning
from rejoinder.turns.text import TextFlow
from rejoinder.turns.transcript import blocks_of, is_input

Payload = Mapping[str, Any]
Ending = Literal["final", "error", "aborted"]
Words = TypeVar("Words", Text, Thought)


@dataclass(frozen=True, slots=True)
class Added:
    """A new item at `index` (counted over all items of the run)."""

    index: int
    item: Item


@dataclass(frozen=True, slots=True)
class Grew:
    """`text` was added to the end of a text or thought."""

    index: int
    item_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Changed:
    """An item is now this: a card got its result or arguments, or a text was replaced."""

    index: int
    item: Item


Op = Added | Grew | Changed
Diff = list[Op]


@dataclass(frozen=True, slots=True)
class Terminal:
    """How the run said it ended. `settled`: nothing of it runs any more (`executionSettled`)."""

    state: Ending
    stop_reason: str | None = None
    yielded: bool = False
    settled: bool = False


class Reducer:
    """The items of one run. `prefix` keeps the item ids of several runs in one message apart."""

    def __init__(self, run_id: str, *, prefix: str = "") -> None:
        self.run_id = run_id
        self.items: list[Item] = []
        self.terminal: Terminal | None = None
        self._said: Ending | None = None
        self.error: str | None = None
        self.heartbeat = False
        self.gapped = False
        self.killed = False
        """Whether the session's row says that the run was stopped: then what it says of an error is no failure."""
        self.started_at: int | None = None
        self.events = 0
        self._prefix = prefix
        self._count = 0
        self._diff: Diff = []
        self._text = TextFlow(self._new_text, self._set_text)
        self._thought = TextFlow(self._new_thought, self._set_text, hold=False)
        self._cards: dict[str, Card] = {}
        self._used: set[str] = set()
        self._results: dict[str, int | None] = {}
        self._borrowed: dict[str, str] = {}

    @property
    def silent(self) -> bool:
        """Whether the run said a sentinel and nothing else so far."""
        return not self.items and self._text.held

    def feed(self, event: str, payload: Payload) -> Diff:
        """One event frame of this run (chat, agent, session.tool, session.message); anything else is nothing."""
        self._diff = []
        self.events += 1
        if event == "chat":
            self._chat(payload)
        elif event == "session.tool":
            self._tool(payload.get("data") or {}, _number(payload.get("seq")))
        elif event == "agent":
            self._agent(payload)
        elif event == "session.message":
            self._row(payload.get("message") or {})
        return self._diff

    def in_flight(self, text: str, events: Sequence[Payload]) -> Diff:
        """What `chat.history` says of the run while it executes: its tools so far and its text so far."""
        self._diff = []
        for event in events:
            data = event.get("data") or {}
            if event.get("stream") == "tool":
                self._tool(data, None)
        if text:
            self._text.feed("chat", whole=text)
        return self._diff

    def lose(self) -> None:
        """Frames were lost: the transcript must say what is missing."""
        self.gapped = True

    def close(self) -> Diff:
        """The run is over: what was held is shown unless it is a sentinel."""
        self._diff = []
        self._text.flush()
        self._thought.flush()
        return self._diff

    def snapshot(self) -> Diff:
        """Everything shown so far, as one difference to nothing."""
        return [Added(index, copy_of(item)) for index, item in enumerate(self.items)]

    def _chat(self, payload: Payload) -> None:
        state = payload.get("state")
        whole = _message_text(payload.get("message"))
        if state == "delta":
            seq, delta = _number(payload.get("seq")), payload.get("deltaText")
            self._text.feed("chat", whole=whole, delta=delta, seq=seq, replace=bool(payload.get("replace")))
            return
        if state not in ("final", "error", "aborted"):
            return
        if whole:
            self._text.tell(whole, doubted=self.gapped)
            self._text.told = True
        if state == "error" and self.error is None:
            self.error = str(payload.get("errorMessage") or "The run failed.")
        self._said = state if self._said is None or state == "final" else self._said
        self._end(state, payload.get("stopReason"), bool(payload.get("yielded")), False)

    def _agent(self, payload: Payload) -> None:
        data = payload.get("data") or {}
        stream = payload.get("stream")
        seq = _number(payload.get("seq"))
        if payload.get("isHeartbeat"):
            self.heartbeat = True
        if stream == "assistant":
            self._text.feed(
                "assistant",
                whole=data.get("text"),
                delta=data.get("delta"),
                item_id=data.get("itemId"),
                seq=seq,
                replace=bool(data.get("replace")),
            )
        elif stream == "tool":
            self._tool(data, seq)
        elif stream == "item" and data.get("kind") == "preamble":
            # No number: an update and the end repeat the whole, and a preamble has an id of its own.
            self._text.feed("preamble", whole=data.get("progressText"), item_id=data.get("itemId"))
        elif stream == "item" and data.get("kind") == "tool":
            self._tool_item(data)
        elif stream in ("thinking", "reasoning"):
            self._thought.feed(
                "thinking",
                whole=data.get("text"),
                delta=data.get("delta"),
                item_id=data.get("itemId"),
                seq=seq,
            )
        elif stream == "lifecycle":
            self._lifecycle(data)

    def _lifecycle(self, data: Payload) -> None:
        phase = data.get("phase")
        if phase == "start":
            # A retry under the same id: its terminal is still to come.
            if self.terminal is not None and not self.terminal.settled:
                self.terminal = self._said = None
                self._text.told = False
            self.started_at = _number(data.get("startedAt")) or self.started_at
        elif phase in ("end", "error"):
            state: Ending = "aborted" if data.get("aborted") else "error" if phase == "error" else "final"
            if state == "error" and self.error is None and data.get("error"):
                self.error = str(data["error"])
            reply = data.get("terminalReply")
            if (
                isinstance(reply, Mapping)
                and reply.get("disposition") == "visible"
                and data.get("executionSettled")
            ):
                self._text.answer(str(reply.get("text") or ""))
            self._end(
                state, data.get("stopReason"), bool(data.get("yielded")), bool(data.get("executionSettled"))
            )

    def _end(self, state: Ending, stop: object, yielded: bool, settled: bool) -> None:
        known = self.terminal
        # The chat's word for the ending is the one people see; the agent's own stands until it comes.
        self.terminal = Terminal(
            self._said or (known.state if known else state),
            (known.stop_reason if known else None) or (str(stop) if stop else None),
            yielded or (known is not None and known.yielded),
            settled or (known is not None and known.settled),
        )

    def _row(self, row: Payload) -> None:
        if row.get("role") != "assistant" or is_input(row):
            return
        for block in blocks_of(row):
            if block.get("type") == "toolCall" and block.get("id"):
                if str(block["id"]) not in self._cards:
                    self._start(str(block["id"]), block.get("name"), block.get("arguments"), None)
            elif block.get("type") == "text":
                self._text.tell(beginning(str(block.get("text") or "")), doubted=self.gapped)

    def _tool(self, data: Payload, seq: int | None) -> None:
        phase = data.get("phase")
        call = str(data["toolCallId"]) if data.get("toolCallId") else None
        if phase == "start":
            self._tool_start(call, data, seq)
        elif phase == "result":
            self._tool_result(call, data, seq)

    def _tool_item(self, data: Payload) -> None:
        # The same tool told a second way, to every connection: it stands in where the tool's own events are lost.
        call = str(data["toolCallId"]) if data.get("toolCallId") else None
        if call is None or call in self._results:
            return
        card = self._cards.get(call) or self._start(call, data.get("name"), None, None)
        if data.get("phase") == "end" and card.output is None:
            card.output = str(data.get("error") or data.get("summary") or "")
            card.failed = data.get("status") in ("failed", "error")
            self._note(card)

    def _tool_start(self, call: str | None, data: Payload, seq: int | None) -> None:
        card = self._cards.get(call) if call else None
        if card is not None and call is not None:
            done = self._results.get(call)
            if seq is not None and done is not None and seq > done:
                # The same id for another call: the finished one keeps its card under a name of its own.
                self._cards[f"{call}#{len(self.items)}"] = self._cards.pop(call)
                self._results.pop(call)
                self._start(call, data.get("name"), data.get("args"), seq)
            elif card.arguments == "{}" and data.get("args"):
                card.arguments = arguments_text(data["args"])
                self._note(card)
            return
        self._start(call, data.get("name"), data.get("args"), seq)

    def _start(self, call: str | None, name: object, arguments: object, seq: int | None) -> Card:
        self._count += 1
        known = call or f"call_{self._prefix}{self._count}"
        card = Card(
            id=f"{self._prefix}tool_{self._count}",
            call_id=known if known not in self._used else f"{known}#{self._count}",
            name=str(name or "tool"),
            arguments=arguments_text(arguments),
        )
        self._cards[known] = card
        self._used.add(card.call_id)
        # Text that came first stands first: held text is shown before the card is put at the end.
        self._text.close(card, seq)
        self._thought.close(card, seq)
        self.items.append(card)
        self._diff.append(Added(len(self.items) - 1, copy_of(card)))
        return card

    def _tool_result(self, call: str | None, data: Payload, seq: int | None) -> None:
        owner = self._cards.get(call) if call else None
        if owner is None:
            if call in self._borrowed:
                return
            owner = self._open_card(data.get("name"))
            if owner is not None and call is not None:
                self._borrowed[call] = owner.call_id
            if owner is None:
                owner = self._start(call, data.get("name"), data.get("args"), seq)
        elif call is not None:
            if call in self._results:
                return
            self._give_back(call, owner, seq)
            self._results[call] = seq
        owner.output = result_text(data.get("result"))
        owner.failed = bool(data.get("isError"))
        self._note(owner)

    def _open_card(self, name: object) -> Card | None:
        # A result under a foreign id, or none, belongs to the oldest call of that tool that still waits.
        waiting = [card for card in self.items if isinstance(card, Card) and card.output is None]
        named = [card for card in waiting if card.name == name]
        if named:
            return named[0]
        return waiting[0] if waiting and not name else None

    def _give_back(self, call: str, owner: Card, seq: int | None) -> None:
        # The call's own result comes after a foreign one had been taken for it: that one was another call's.
        foreign = next((other for other, mine in self._borrowed.items() if mine == owner.call_id), None)
        if foreign is None:
            return
        del self._borrowed[foreign]
        card = self._start(foreign, owner.name, None, seq)
        card.output, card.failed = owner.output, owner.failed
        self._results[foreign] = seq
        self._note(card)

    def _new_text(self, before: Card | None) -> Text:
        self._count += 1
        return self._place(Text(f"{self._prefix}text_{self._count}"), before)

    def _new_thought(self, before: Card | None) -> Thought:
        self._count += 1
        return self._place(Thought(f"{self._prefix}thought_{self._count}"), before)

    def _place(self, item: Words, before: Card | None) -> Words:
        index = len(self.items)
        if before is not None:
            index = next((place for place, other in enumerate(self.items) if other is before), index)
        self.items.insert(index, item)
        self._diff.append(Added(index, copy_of(item)))
        return item

    def _set_text(self, item: Text | Thought, text: str) -> None:
        grown = text[len(item.text) :] if text.startswith(item.text) else None
        item.text = text
        if grown is None:
            self._note(item)
        else:
            self._diff.append(Grew(self._index(item), item.id, grown))

    def _note(self, item: Item) -> None:
        self._diff.append(Changed(self._index(item), copy_of(item)))

    def _index(self, item: Item) -> int:
        return next(index for index in range(len(self.items) - 1, -1, -1) if self.items[index] is item)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _message_text(message: object) -> str | None:
    if not isinstance(message, Mapping):
        return None
    texts = [str(block.get("text") or "") for block in blocks_of(message) if block.get("type") == "text"]
    return "\n\n".join(texts) if texts else None
