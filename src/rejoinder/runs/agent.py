"""Agents as the registry holds them: what the manifest says of one. They are driven by ``rejoinder.agents``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from rejoinder.contract.errors import ConfigurationError
from rejoinder.runs.outcome import Parked
from rejoinder.runs.tools import Tool

Kind = Literal["simple", "deep"]
#: What is told of a drive while it goes on: one frame, a JSON object with ``type``.
Listener = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A chat model by its name, ``provider:model``. Where it is reached and its key come from the environment."""

    name: str
    base_url_env: str | None = None
    api_key_env: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subagent:
    """An agent that the main one hands work to: with instructions and tools of its own."""

    name: str
    description: str
    instructions: str
    tools: tuple[Tool, ...] = ()
    model: ModelSpec | None = None


class LatePreset(Tool):
    """A preset that an agent's tools name. Presets come and go: which tool it is is known when the agent is driven."""

    def __init__(self, name: str) -> None:
        async def run_preset() -> Any:
            raise ConfigurationError(f"the preset {name} is run by a server or a worker")

        super().__init__(run_preset, name=name, description="")


class Agent(Tool):
    """An agent: a tool that takes a message and works on it with a model and tools of the registry.

    ``graph`` is a factory that returns a LangGraph graph; it is given those of ``model``, ``tools`` and
    ``checkpointer`` that it has parameters for. Without one the agent is built from its instructions, as ``kind``
    says: ``simple`` (a model that calls tools until it is done) or ``deep`` (with plans, notes and subagents).
    Its runs go on from checkpoints, on any worker, so they are idempotent; what its tools do is done once.
    """

    checkpointed = True

    def __init__(
        self,
        name: str,
        *,
        title: str | None = None,
        description: str | None = None,
        model: ModelSpec | None = None,
        instructions: str = "",
        tools: tuple[Tool, ...] = (),
        subagents: tuple[Subagent, ...] = (),
        graph: Callable[..., Any] | None = None,
        kind: Kind = "simple",
        recursion_limit: int | None = None,
    ) -> None:
        async def run_agent(
            message: Annotated[str, Field(min_length=1, description="What the agent is to do.")],
        ) -> Any:
            raise ConfigurationError(f"agent {name} is run by a server or a worker")

        super().__init__(run_agent, name=name, title=title, description=description or "", idempotent=True)
        self.model = model
        self.instructions = instructions
        self.tools = tools
        self.subagents = subagents
        self.graph = graph
        self.kind: Kind = "deep" if subagents else kind
        self.recursion_limit = recursion_limit

    def named_presets(self) -> frozenset[str]:
        """The presets that it and its subagents are given by name."""
        tools = [*self.tools, *(tool for one in self.subagents for tool in one.tools)]
        return frozenset(tool.name for tool in tools if isinstance(tool, LatePreset))


class Conductor(Protocol):
    """What drives agents and resumable tools. ``durable``: their runs can be carried on by another process."""

    @property
    def durable(self) -> bool: ...

    @property
    def provider(self) -> str:
        """Where checkpoints are kept, as LLM_PROVIDER_CHECKPOINT says it."""

    async def drive(self, tool: Tool, arguments: dict[str, Any]) -> Parked | Any:
        """Carry the current run on, from its checkpoint where it has one, until it ends or waits for people."""
