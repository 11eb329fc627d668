"""One pass through a graph: what goes in, what is told of it, what comes out. Imports nothing of LangGraph's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rejoinder.runs.agent import Listener


@dataclass(slots=True)
class Ended:
    """The graph's last values, and the interrupts that it stopped at."""

    values: Any = None
    interrupts: list[Any] = field(default_factory=list)


def opening(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": arguments["message"]}]}


async def play(
    graph: Any, begin: Any, config: dict[str, Any], *, durable: bool, listen: Listener | None
) -> Ended:
    """Run the graph until it ends or stops. ``listen`` is given the frames that ``frames_of`` describes."""
    ended = Ended()
    options: dict[str, Any] = {"stream_mode": ["updates", "values"]}
    if durable:
        options["durability"] = "sync"
    if listen is not None:
        options["stream_mode"].append("messages")
        options["subgraphs"] = True
    async for part in graph.astream(begin, config, **options):
        path, mode, payload = part if listen is not None else ((), *part)
        if not path and mode == "values":
            ended.values = payload
        elif not path and mode == "updates" and isinstance(payload, dict) and "__interrupt__" in payload:
            ended.interrupts.extend(payload["__interrupt__"])
        elif listen is not None and mode != "values":
            for frame in frames_of(mode, payload):
                listen({**frame, "depth": len(path)})
    return ended


def frames_of(mode: str, payload: Any) -> Iterator[dict[str, Any]]:
    """What a part of LangGraph's stream tells a caller:

    ``{"type": "text", "text"}``                            a piece of what the model says
    ``{"type": "tool_call", "id", "name", "arguments"}``    the model calls a tool
    ``{"type": "tool_result", "id", "name", "content", "failed"}``

    To each is added ``depth``: 0 for the agent itself, more for the subagents inside it."""
    if mode == "messages":
        message = payload[0]
        if message.type == "AIMessageChunk" and message.text:
            yield {"type": "text", "text": str(message.text)}
        return
    for update in payload.values() if isinstance(payload, dict) else ():
        for message in _messages(update):
            kind = getattr(message, "type", None)
            if kind == "ai":
                for call in message.tool_calls:
                    yield {
                        "type": "tool_call",
                        "id": call["id"],
                        "name": call["name"],
                        "arguments": call["args"],
                    }
            elif kind == "tool":
                yield {
                    "type": "tool_result",
                    "id": message.tool_call_id,
                    "name": message.name,
                    "content": str(message.text),
                    "failed": message.status == "error",
                }


def _messages(update: Any) -> list[Any]:
    found = update.get("messages") if isinstance(update, dict) else None
    # A middleware may write one message, or a whole new list in a wrapper.
    found = getattr(found, "value", found)
    if found is None:
        return []
    return list(found) if isinstance(found, list | tuple) else [found]


def result(values: Any) -> Any:
    """What a run of an agent returns: its structured response, else the text of its last message, else its state."""
    if not isinstance(values, dict):
        return values
    if values.get("structured_response") is not None:
        return values["structured_response"]
    messages = values.get("messages")
    if not messages:
        return {name: value for name, value in values.items() if name != "__interrupt__"}
    last = messages[-1]
    return getattr(last, "text", None) or getattr(last, "content", last)
