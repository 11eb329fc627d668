"""The state of a simple agent. Imports LangChain, so it is imported only where one is driven."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Required

from langchain.agents.middleware.types import AgentState
from langchain_core.messages import AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import add_messages

#: A conversation is kept whole once in so many messages, and what each step adds in between. Those copies are what would
#: grow with the square of its length; so there is none below a length that few runs reach. Beyond it they bound how many
#: rows a run reads when it goes on.
SNAPSHOT_EVERY = 2000


def fold(messages: list[AnyMessage] | None, writes: Sequence[Any]) -> list[AnyMessage]:
    """The messages after these writes, in order."""
    # At once: for each alone the whole conversation would be gone through.
    added = [one for write in writes for one in (write if isinstance(write, list) else [write])]
    folded: Any = add_messages(messages or [], added)  # type: ignore[arg-type]
    return list(folded)


class SimpleAgentState(AgentState[Any]):
    """LangChain's own, but that the conversation is not kept anew with every step: that grows with its square."""

    messages: Required[Annotated[list[AnyMessage], DeltaChannel(fold, snapshot_frequency=SNAPSHOT_EVERY)]]
