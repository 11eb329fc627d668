"""Graphs of the benchmarks: one that asks once with a tool, and conversations that only grow."""

from __future__ import annotations

from typing import Any

#: Characters of each message of a conversation.
LONG = 2000


def build(tools: list[Any], checkpointer: Any) -> Any:
    """An agent without a model: it calls ``park`` for what the message names, and ends with what that returned."""
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    def decide(state: MessagesState) -> dict[str, Any]:
        last = state["messages"][-1]
        if last.type == "tool":
            return {"messages": [AIMessage(str(last.content))]}
        call = {"name": "park", "args": {"refund": str(last.content)}, "id": "only", "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    graph = StateGraph(MessagesState)
    graph.add_node("decide", decide)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "decide")
    graph.add_conditional_edges("decide", tools_condition)
    graph.add_edge("tools", "decide")
    return graph.compile(checkpointer=checkpointer)


def talking(state: Any, checkpointer: Any) -> Any:
    """A conversation of one message a step, until there are as many as the run's recursion limit allows."""
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import RunnableLambda
    from langgraph.graph import START, StateGraph

    def speak(so_far: Any) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{len(so_far['messages'])} ".ljust(LONG, "x"))]}

    def more(so_far: Any) -> str:
        return "speak" if len(so_far["messages"]) < int(so_far["messages"][0].content) else "__end__"

    graph: StateGraph[Any, Any, Any, Any] = StateGraph(state)
    graph.add_node("speak", RunnableLambda(speak))
    graph.add_edge(START, "speak")
    graph.add_conditional_edges("speak", more)
    return graph.compile(checkpointer=checkpointer)
