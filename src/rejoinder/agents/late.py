"""Presets that agents name: which tools they are is known only when an agent is driven."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rejoinder.contract.errors import ToolNotFoundError
from rejoinder.runs.agent import Agent, LatePreset
from rejoinder.runs.tools import Tool


class LatePresets:
    """``find`` is the registry's: a tool by its name as it is now; raises ToolNotFoundError."""

    def __init__(self) -> None:
        self.find: Callable[[str], Tool] | None = None
        self._known: dict[str, tuple[Agent, list[Any], Agent]] = {}

    def now(self, agent: Agent) -> Agent:
        """The agent with the versions of its presets that count now: the same object as long as they do. Raises
        ToolNotFoundError naming the preset that is not there."""
        if not agent.named_presets():
            return agent
        tools = self._found(agent, agent.tools)
        subagents = tuple(replace(one, tools=self._found(agent, one.tools)) for one in agent.subagents)
        bound: list[Any] = [tools, *(one.tools for one in subagents)]
        known = self._known.get(agent.name)
        if known is not None and known[0] is agent and _same(known[1], bound):
            return known[2]
        made = copy.copy(agent)
        made.tools, made.subagents = tools, subagents
        self._known[agent.name] = agent, bound, made
        return made

    def _found(self, agent: Agent, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        return tuple(self._preset(agent, one) if isinstance(one, LatePreset) else one for one in tools)

    def _preset(self, agent: Agent, late: LatePreset) -> Tool:
        try:
            found = None if self.find is None else self.find(late.name)
        except ToolNotFoundError:
            found = None
        if found is None or found.preset_version is None:
            raise ToolNotFoundError(f"{agent.name} is given the preset {late.name}, which is not there")
        marked = late.requires_approval and not found.requires_approval
        return found.needing_approval() if marked else found


def _same(before: list[Any], now: list[Any]) -> bool:
    def marks(bound: list[Any]) -> list[Any]:
        return [[(one.name, one.preset_version, one.requires_approval) for one in tools] for tools in bound]

    return marks(before) == marks(now)
