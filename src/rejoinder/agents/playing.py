"""One pass through a graph: what goes in, what is told of it, what comes out. Imports nothing of LangGraph's."""

from __future__ import annotations

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
    """Run the graph until it ends or stops."""
    ended = Ended()
    options: dict[str, Any] = {"durability": "sync"} if durable else {}
    async for mode, payload in graph.astream(begin, config, stream_mode=["updates", "values"], **options):
        if mode == "values":
            ended.values = payload
        elif isinstance(payload, dict) and "__interrupt__" in payload:
            ended.interrupts.extend(payload["__interrupt__"])
    return ended


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
