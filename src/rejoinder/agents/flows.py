"""Resumable tools on LangGraph's functional API. Imports LangGraph where one is driven."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from rejoinder.contract.answers import SUSPENDED_KEY
from rejoinder.runs.context import current_run

if TYPE_CHECKING:
    from rejoinder.agents.replay import Replay
    from rejoinder.runs.resumable import Resumable


def flow(tool: Resumable, checkpointer: Any) -> Any:
    """A graph that plays the tool's code, and stops at one interrupt for all that it waits for."""
    from langgraph.func import entrypoint
    from langgraph.types import interrupt

    async def play(arguments: dict[str, Any]) -> dict[str, Any]:
        replay: Any = current_run().replay
        playing: Replay = replay
        result = await playing.play()
        while playing.parked:
            # What it gives back is of an earlier park: the answers are in our rows, and nowhere else.
            interrupt({SUSPENDED_KEY: [str(one) for one in playing.waiting]})
        return {"result": result}

    play.__name__ = tool.name
    return entrypoint(checkpointer=checkpointer)(play)


async def as_task(name: str, code: Callable[[], Awaitable[str]]) -> None:
    """Run ``code`` as a task of the graph that is being played."""
    from langgraph.func import task

    named: Any = task(name=name)
    await named(code)()
