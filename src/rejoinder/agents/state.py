"""The state of a simple agent. Imports LangChain, so it is imported only where one is driven."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Required

from langchain.agents.middleware.types import AgentState
from langchain_core.messages import AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import add_messages

#: A conversation is kept whole once in so many steps, and what each step adds in between.
SNAPSHOT_EVERY = 50


def fold(messages: list[AnyMessage] | None, writes: Sequence[Any]) -> list[AnyMessage]:
    """The messages after these writes, in order."""
    folded: Any = messages or []
    for write in writes:
        folded = add_messages(folded, write)
    return list(folded)


class SimpleAgentState(AgentState[Any]):
    """LangChain's own, but that the conversation is not kept anew with every step: that grows with its square."""

    messages: Required[Annotated[list[AnyMessage], DeltaChannel(fold, snapshot_frequency=SNAPSHOT_EVERY)]]
