"""The demo's agent: it looks something up, asks two things at once, and goes on when both are answered.

Its model is a script, so it needs no key. With a real one nothing else changes: name it in the manifest.
"""

from __future__ import annotations

from typing import Any

from rejoinder import tool

CONNECTIONS = [
    {"name": "Train, 9 hours", "price": 178},
    {"name": "Flight, 2 hours", "price": 241},
    {"name": "Night train, 11 hours", "price": 129},
]


@tool(title="Find connections (demo)", idempotent=True, read_only=True)
async def demo_find_connections(to: str = "Lisbon") -> list[dict[str, Any]]:
    """The ways to get somewhere and what each costs. They are made up."""
    return [{**one, "to": to} for one in CONNECTIONS]


def build(tools: list[Any], checkpointer: Any) -> Any:
    """The agent's graph, as the manifest names it."""
    from langchain.agents import create_agent

    from rejoinder.demo.script import ScriptedModel

    return create_agent(ScriptedModel(), tools=tools, checkpointer=checkpointer, name="demo_agent")
