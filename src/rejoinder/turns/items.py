"""A message's content: an ordered list of texts, thoughts and tool cards, and its Responses-style form.

A card holds both halves of a tool call, so a result that arrives late stands beside its call and never splits
the text that streams meanwhile (parallel calls whose results come out of order are legal).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["completed", "failed", "incomplete"]
"""A card's outcome: the tool returned; it returned an error; it never returned."""

NO_RESULT = "This call never returned a result."


@dataclass(slots=True)
class Text:
    """A stretch of the reply's text between two tools."""

    id: str
    text: str = ""


@dataclass(slots=True)
class Thought:
    """A stretch of reasoning, where the Gateway sends it."""

    id: str
    text: str = ""


@dataclass(slots=True)
class Card:
    """One tool call. `arguments` is JSON text; `output` is None until the tool returned."""

    id: str
    call_id: str
    name: str
    arguments: str = "{}"
    output: str | None = None
    failed: bool = False

    @property
    def status(self) -> Status:
        """How the call stands; a call that still runs reads as incomplete."""
        if self.output is None:
            return "incomplete"
        return "failed" if self.failed else "completed"


Item = Text | Thought | Card


def copy_of(item: Item) -> Item:
    """An independent copy: what is handed out must not change under its reader."""
    if isinstance(item, Card):
        return Card(item.id, item.call_id, item.name, item.arguments, item.output, item.failed)
    return type(item)(item.id, item.text)


def text_of(items: Iterable[Item]) -> str:
    """The reply's text, its stretches parted by an empty line as the Gateway itself joins them."""
    return "\n\n".join(part for item in items if isinstance(item, Text) and (part := item.text.strip()))


def cards_of(items: Iterable[Item]) -> list[Card]:
    """The tool cards, in order."""
    return [item for item in items if isinstance(item, Card)]


def output_items(items: Iterable[Item], *, done: bool) -> list[dict[str, Any]]:
    """The items as Responses-style output: message, reasoning, function_call and function_call_output.

    With `done`, every call has its output (a call without one would be run again by the chat's program).
    """
    return [entry for item in items for entry in _output_of(item, done)]


def _output_of(item: Item, done: bool) -> Iterator[dict[str, Any]]:
    status = "completed" if done else "in_progress"
    if isinstance(item, Text):
        if item.text:
            content = [{"type": "output_text", "text": item.text}]
            yield {
                "type": "message",
                "id": item.id,
                "status": status,
                "role": "assistant",
                "content": content,
            }
    elif isinstance(item, Thought):
        if item.text:
            content = [{"type": "output_text", "text": item.text}]
            yield {"type": "reasoning", "id": item.id, "status": status, "content": content, "summary": []}
    else:
        yield {
            "type": "function_call",
            "id": f"fc_{item.call_id}",
            "call_id": item.call_id,
            "name": item.name,
            "arguments": item.arguments,
            "status": item.status if item.output is not None or done else "in_progress",
        }
        if item.output is not None or done:
            text = item.output if item.output is not None else NO_RESULT
            yield {
                "type": "function_call_output",
                "id": f"fco_{item.call_id}",
                "call_id": item.call_id,
                "output": [{"type": "input_text", "text": text}],
                "status": item.status,
            }


def arguments_text(arguments: object) -> str:
    """A call's arguments as JSON text."""
    if arguments is None:
        return "{}"
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def result_text(result: object) -> str:
    """A tool's result as text: a text, a list of content blocks, or an object with such a `content`."""
    if result is None:
        return ""
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        if "content" in result:
            return result_text(result["content"])
        if result.get("type") == "text":
            return str(result.get("text") or "")
        return json.dumps(result, ensure_ascii=False)
    if isinstance(result, list):
        return "\n".join(part for block in result if (part := result_text(block)))
    return json.dumps(result, ensure_ascii=False)
