"""Agents for tests, and what the scripted model is told to do with them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rejoinder.node import Node
from rejoinder.runs.agent import Agent, ModelSpec, Subagent
from rejoinder.runs.tools import Tool
from tests.integration.core.support import in_an_hour, run_reaches
from tests.live.rig.model import tool as call

SCRIPTED = ModelSpec(
    "openai:scripted",
    base_url_env="SCRIPTED_BASE_URL",
    api_key_env="SCRIPTED_API_KEY",
    options={"max_retries": 0},
)


def agent(*tools: Tool, name: str = "helper", **more: Any) -> Agent:
    return Agent(name, description="Helps.", model=SCRIPTED, tools=tools, **more)


def subagent(name: str, *tools: Tool) -> Subagent:
    return Subagent(name, f"Does what {name} does.", "Do what you are told.", tools)


def asking(text: str, **more: Any) -> dict[str, Any]:
    """A call of the builtin tool that parks on one question."""
    return call("ask", question=text, mode="async", expiry_at=in_an_hour().isoformat(), **more)


async def finished(node: Node, run_id: UUID) -> Any:
    """The result of a run that ends well; fails with its error where it does not."""
    state = await run_reaches(node, run_id, "succeeded", "failed", "lost", "cancelled")
    run = await node.runs.by_id(run_id)
    assert run is not None
    assert state == "succeeded", run.error
    return run.result
