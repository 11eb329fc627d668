"""Whether an agent can be run here, as far as that is known before its model is asked. Imports nothing heavy."""

from __future__ import annotations

import os
from importlib.util import find_spec

from rejoinder.runs.agent import Agent


def why_not_run(agent: Agent) -> str | None:
    """What this process lacks for the agent, as a sentence for its operator; None where it lacks nothing."""
    needed = "langgraph" if agent.kind == "simple" else "deepagents"
    if find_spec(needed) is None:
        return "the packages for agents are not installed; install rejoinder[agents]"
    models = [agent.model, *(one.model for one in agent.subagents)]
    for spec in models:
        for variable in (spec.base_url_env, spec.api_key_env) if spec is not None else ():
            if variable is not None and not os.environ.get(variable):
                return f"the environment variable {variable} is not set"
    return None
