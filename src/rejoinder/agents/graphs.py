"""Graphs from what the manifest says of an agent. Imports LangChain, so it is imported only where one is driven."""

from __future__ import annotations

import inspect
import os
from typing import Any

from rejoinder.agents.bridge import RegistryTool
from rejoinder.contract.errors import ConfigurationError
from rejoinder.runs.agent import Agent, ModelSpec


def build(agent: Agent, checkpointer: Any) -> Any:
    """The agent's compiled graph. Raises ConfigurationError."""
    if agent.graph is not None:
        return _from_factory(agent, checkpointer)
    if agent.model is None:
        raise ConfigurationError(f"agent {agent.name} has no model")
    tools = [RegistryTool(one) for one in agent.tools]
    model = chat_model(agent.model, agent.name)
    if agent.kind == "simple":
        from langchain.agents import create_agent

        from rejoinder.agents.state import SimpleAgentState

        return create_agent(
            model,
            tools=tools,
            system_prompt=agent.instructions or None,
            state_schema=SimpleAgentState,
            checkpointer=checkpointer,
            name=agent.name,
        )
    from deepagents import create_deep_agent

    subagents: list[Any] = [
        {
            "name": one.name,
            "description": one.description,
            "system_prompt": one.instructions,
            "tools": [RegistryTool(t) for t in one.tools],
            **({"model": chat_model(one.model, agent.name)} if one.model is not None else {}),
        }
        for one in agent.subagents
    ]
    return create_deep_agent(
        model,
        tools=tools,
        system_prompt=agent.instructions or None,
        subagents=subagents,
        checkpointer=checkpointer,
        name=agent.name,
    )


def chat_model(spec: ModelSpec, agent: str) -> Any:
    """A LangChain chat model, reached as the environment says. Raises ConfigurationError naming the variable."""
    from langchain.chat_models import init_chat_model

    options = dict(spec.options)
    for variable, option in ((spec.base_url_env, "base_url"), (spec.api_key_env, "api_key")):
        if variable is None:
            continue
        value = os.environ.get(variable)
        if not value:
            raise ConfigurationError(f"agent {agent}: the environment variable {variable} is not set")
        options[option] = value
    try:
        return init_chat_model(spec.name, **options)
    except (ValueError, ImportError) as error:
        raise ConfigurationError(f"agent {agent}: the model {spec.name} cannot be used: {error}") from error


def _from_factory(agent: Agent, checkpointer: Any) -> Any:
    assert agent.graph is not None
    takes = inspect.signature(agent.graph).parameters
    given: dict[str, Any] = {}
    if "model" in takes:
        if agent.model is None:
            raise ConfigurationError(f"agent {agent.name}: its graph takes a model, and none is named")
        given["model"] = chat_model(agent.model, agent.name)
    if "tools" in takes:
        given["tools"] = [RegistryTool(one) for one in agent.tools]
    if "checkpointer" in takes:
        given["checkpointer"] = checkpointer
    graph = agent.graph(**given)
    if hasattr(graph, "compile"):
        graph = graph.compile(checkpointer=checkpointer)
    if not hasattr(graph, "astream"):
        raise ConfigurationError(f"agent {agent.name}: its factory returned no LangGraph graph")
    if checkpointer is not None and graph.checkpointer is not checkpointer:
        raise ConfigurationError(
            f"agent {agent.name}: its graph was not compiled with the checkpointer that its factory was given"
        )
    return graph
