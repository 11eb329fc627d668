"""Agents for tests, and what the scripted model is told to do with them."""

from __future__ import annotations

from typing import Any

from rejoinder.runs.agent import Agent, ModelSpec, Subagent
from rejoinder.runs.tools import Tool

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
