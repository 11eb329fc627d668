"""A message's items as Open WebUI shows them: Responses-style items, and the events that change them.

`response.output_item.added` replaces an item of the same id (or the same kind and call id) and else puts a new one at
`output_index`; `response.output_text.delta` grows one. Both the Host and its page keep to that. Items are never
changed in place once they were handed out: the Host keeps references to them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from rejoinder.turns.items import NO_RESULT, Card, Item, Text, Thought, copy_of, text_of
from rejoinder.turns.reducer import Added, Grew, Op

Event = dict[str, Any]
Entry = dict[str, Any]

#: Characters of a card's arguments and of its result that are shown; the agent's transcript keeps the whole.
ARGUMENTS, RESULT = 3_000, 8_000


class Emission:
    """What one message shows, and the events by which it came to be so."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self.output: list[Entry] = []

    @property
    def text(self) -> str:
        """The reply's text so far."""
        return text_of(self._items)

    @property
    def empty(self) -> bool:
        """Whether nothing was shown yet."""
        return not self.output

    def apply(self, diff: Iterable[Op]) -> list[Event]:
        """The events of a difference."""
        events: list[Event] = []
        for op in diff:
            if isinstance(op, Added):
                at = self._at(op.index)
                self._items.insert(op.index, copy_of(op.item))
                for offset, entry in enumerate(_entries(op.item, done=False)):
                    self.output.insert(at + offset, entry)
                    events.append(_added(at + offset, entry))
            elif isinstance(op, Grew):
                events += self._grow(op)
            else:
                events += self._change(op.index, op.item)
        return events

    def finish(self, items: Sequence[Item]) -> tuple[list[Event], bool]:
        """The events after which the message shows exactly these items, every call with its result.

        Second: False if something that was shown is not among them any more, which no event takes away: the whole
        output must be told (`output`).
        """
        shown = list(self.output)
        wanted = [entry for item in items for entry in _entries(item, done=True) if not _blank(entry)]
        self._items = [copy_of(item) for item in items]
        self.output = _with_known_ids(shown, wanted)
        kept = [entry["id"] for entry in self.output]
        exact = [entry["id"] for entry in shown] == [
            one for one in kept if one in {entry["id"] for entry in shown}
        ]
        events = []
        known = {entry["id"]: entry for entry in shown}
        for index, entry in enumerate(self.output):
            before = known.get(entry["id"])
            if before is None or _content(before) != _content(entry):
                events.append(_added(index, entry))
        return events, exact

    def close(self) -> list[Event]:
        """The events that give every call without a result one, and end what is open."""
        return self.finish(self._items)[0]

    def _at(self, index: int) -> int:
        return sum(len(_entries(item, done=False)) for item in self._items[:index])

    def _grow(self, op: Grew) -> list[Event]:
        item = self._items[op.index]
        if isinstance(item, Card):
            return []
        item.text += op.text
        at = self._at(op.index)
        self.output[at] = _entries(item, done=False)[0]
        kind = "reasoning_text" if isinstance(item, Thought) else "output_text"
        return [
            {
                "type": f"response.{kind}.delta",
                "output_index": at,
                "content_index": 0,
                "item_id": item.id,
                "delta": op.text,
            }
        ]

    def _change(self, index: int, item: Item) -> list[Event]:
        at = self._at(index)
        before = self.output[at : at + len(_entries(self._items[index], done=False))]
        self._items[index] = copy_of(item)
        after = _entries(item, done=False)
        self.output[at : at + len(before)] = after
        return [
            _added(at + offset, entry)
            for offset, entry in enumerate(after)
            if offset >= len(before) or before[offset] != entry
        ]


def joined(events: Sequence[Event]) -> list[Event]:
    """The same events, neighbouring growths of one item as one."""
    found: list[Event] = []
    for event in events:
        last = found[-1] if found else None
        if (
            last is not None
            and event["type"].endswith(".delta")
            and last["type"] == event["type"]
            and last["item_id"] == event["item_id"]
        ):
            found[-1] = {**last, "delta": last["delta"] + event["delta"]}
        else:
            found.append(event)
    return found


def _added(index: int, entry: Entry) -> Event:
    return {
        "type": "response.output_item.added",
        "output_index": index,
        "item": copy.deepcopy(entry),
    }


def _entries(item: Item, *, done: bool) -> list[Entry]:
    status = "completed" if done else "in_progress"
    if isinstance(item, Text):
        return [
            {
                "type": "message",
                "id": item.id,
                "status": status,
                "role": "assistant",
                "content": [{"type": "output_text", "text": item.text}],
            }
        ]
    if isinstance(item, Thought):
        return [
            {
                "type": "reasoning",
                "id": item.id,
                "status": status,
                "content": [{"type": "output_text", "text": item.text}],
                "summary": [],
            }
        ]
    over = item.output is not None or done
    call: Entry = {
        "type": "function_call",
        "id": f"fc_{item.call_id}",
        "call_id": item.call_id,
        "name": item.name,
        "arguments": _cut(item.arguments, ARGUMENTS),
        "status": item.status if over else "in_progress",
    }
    if not over:
        return [call]
    told = item.output if item.output is not None else NO_RESULT
    if item.failed:
        told = f"This call failed.\n{told}" if told else "This call failed."
    return [
        call,
        {
            "type": "function_call_output",
            "id": f"fco_{item.call_id}",
            "call_id": item.call_id,
            "output": [{"type": "input_text", "text": _cut(told, RESULT)}],
            "status": item.status,
        },
    ]


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[{len(text) - limit} more characters are in the agent's transcript.]"


def _blank(entry: Entry) -> bool:
    return entry["type"] in ("message", "reasoning") and not entry["content"][0]["text"].strip()


def _content(entry: Entry) -> object:
    if entry["type"] in ("message", "reasoning"):
        # How an item ends is told once for all of them.
        return entry["content"][0]["text"]
    return entry


def _with_known_ids(shown: Sequence[Entry], wanted: Sequence[Entry]) -> list[Entry]:
    """The wanted items, each with the id under which it is shown already, if it is: nothing is drawn twice."""
    found: list[Entry] = []
    place, used = 0, {entry["id"] for entry in wanted}
    for entry in wanted:
        match = next(
            (at for at in range(place, len(shown)) if _same(shown[at], entry)),
            None,
        )
        if match is not None:
            entry = {**entry, "id": shown[match]["id"]}
            place = match + 1
        elif any(other["id"] == entry["id"] for other in [*shown, *found]):
            entry = {**entry, "id": _free(entry["id"], used)}
            used.add(entry["id"])
        found.append(entry)
    return found


def _free(known: str, used: set[str]) -> str:
    number = 2
    while f"{known}_{number}" in used:
        number += 1
    return f"{known}_{number}"


def _same(shown: Entry, wanted: Entry) -> bool:
    if shown["type"] != wanted["type"]:
        return False
    if "call_id" in wanted:
        return bool(shown["call_id"] == wanted["call_id"])
    mine, theirs = "".join(_text(shown).split()), "".join(_text(wanted).split())
    # The transcript's text is the shown one, or goes on where frames were lost.
    return mine == theirs or (bool(mine) and theirs.startswith(mine))


def _text(entry: Entry) -> str:
    return str(entry["content"][0]["text"])
