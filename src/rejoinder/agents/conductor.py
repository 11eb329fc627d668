"""Carries the runs of agents and resumable tools on: from the beginning or from a checkpoint, until they end or wait for people.

Light to import: LangGraph is loaded when the first agent is driven.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

from rejoinder.agents import playing
from rejoinder.agents.checkpoints import Checkpoints
from rejoinder.agents.late import LatePresets
from rejoinder.agents.steps import Drive
from rejoinder.asks.service import Asks
from rejoinder.contract import pause
from rejoinder.contract.answers import SUSPENDED_KEY
from rejoinder.contract.errors import RunTerminalFailed, SuspensionError
from rejoinder.contract.settings import Settings
from rejoinder.observe.logs import get_logger
from rejoinder.runs.agent import Agent
from rejoinder.runs.context import RunContext, current_run
from rejoinder.runs.driver import refuse_undurable
from rejoinder.runs.outcome import Parked
from rejoinder.runs.resumable import Resumable
from rejoinder.runs.tools import Tool
from rejoinder.store.database import Database
from rejoinder.store.questions import Questions
from rejoinder.store.steps import Steps

log = get_logger("agents")


class Agents:
    """Drives agents and resumable tools in this process; one for all of them."""

    def __init__(self, database: Database, questions: Questions, settings: Settings) -> None:
        self._steps = Steps(database)
        self._questions = questions
        self._settings = settings
        self._checkpoints = Checkpoints(settings, self._steps)
        self._graphs: dict[str, tuple[Tool, Any]] = {}
        self._building = asyncio.Lock()
        self.late = LatePresets()

    @property
    def durable(self) -> bool:
        return self._checkpoints.durable

    @property
    def provider(self) -> str:
        return self._checkpoints.provider

    async def stop(self) -> None:
        await self._checkpoints.close()

    async def sweep(self, asks: Asks) -> dict[str, int]:
        """Free what checkpoints take longer than they are kept: ``{"swept", "stranded"}``. Swept are runs that ended;
        stranded are questions of runs that wait longer than that, which are withdrawn, and their runs with them."""
        if not self.durable:
            return {"swept": 0, "stranded": 0}
        stranded = await self._checkpoints.stranded()
        if stranded:
            await asks.withdraw(stranded, "checkpoint gone")
        return {"swept": await self._checkpoints.sweep(), "stranded": len(stranded)}

    async def drive(self, tool: Tool, arguments: dict[str, Any]) -> Parked | Any:
        """Raises what the tool's code raised, and what ended a step for the whole run (see ``Drive.fatal``)."""
        refuse_undurable(tool, self)
        context = current_run()
        asker = context.asker
        if isinstance(tool, Agent):
            tool = self.late.now(tool)
        graph = await self._graph(tool)
        park_id, asker.ordinal = await self._steps.standing(asker.run_id)
        asker.park_id = park_id or uuid4()
        drive = Drive(
            self._steps,
            self._questions,
            context,
            horizon=self._checkpoints.horizon,
            cannot_park=self._checkpoints.why_not_park,
        )
        from langchain_core.runnables.config import var_child_runnable_config

        from rejoinder.agents.bridge import driving

        driven = driving.set(drive)
        # A run that another graph's tool calls is no part of that graph.
        outer = var_child_runnable_config.set(None)
        try:
            if isinstance(tool, Resumable):
                return await self._replay(tool, graph, drive, context)
            assert isinstance(tool, Agent)
            limit = tool.recursion_limit or self._settings.tai_agents_default_recursion_limit
            begin = playing.opening(arguments)
            return await self._carry_on(tool, graph, drive, context, begin, limit)
        finally:
            var_child_runnable_config.reset(outer)
            driving.reset(driven)
            await drive.stop()

    async def _replay(self, tool: Resumable, graph: Any, drive: Drive, context: RunContext) -> Parked | Any:
        from rejoinder.agents.replay import Replay

        replay = Replay(tool, drive, self._steps, self._questions, context)
        await replay.load()
        context.replay = replay
        try:
            # One step of the graph, whatever the code does in it.
            ended = await self._carry_on(tool, graph, drive, context, context.arguments, 2)
        finally:
            await replay.stop()
        if replay.parked:
            return Parked(tuple(replay.waiting.values()))
        assert not isinstance(ended, Parked)
        return ended["result"]

    async def _carry_on(
        self, tool: Tool, graph: Any, drive: Drive, context: RunContext, begin: Any, limit: int
    ) -> Parked | Any:
        config: dict[str, Any] = {"configurable": {"thread_id": str(drive.run_id)}, "recursion_limit": limit}
        ended = None
        if graph.checkpointer:
            state = await graph.aget_state(config)
            # Not by ``next``, which leaves out what has run and whose results are not in the state yet.
            if state.created_at is not None and not state.tasks:
                return _result(tool, state.values)
            if state.created_at is not None:
                begin = await self._resumption(state.interrupts)
        try:
            ended = await playing.play(
                graph, begin, config, durable=bool(graph.checkpointer), listen=context.listen
            )
        except Exception:
            await drive.settle()
            # Where a step ended the run, what the graph made of it does not matter.
            if drive.fatal is not None:
                raise drive.fatal from None
            raise
        await drive.settle()
        if drive.fatal is not None:
            raise drive.fatal
        await pause.here("agent.stopped")
        return self._settled(tool, drive, ended)

    async def _resumption(self, interrupts: Any) -> Any:
        """What wakes the places that wait: every answer in one map, for those alone whose questions are all closed."""
        from langgraph.types import Command

        asked = {one.id: _questions_of(one.value) for one in interrupts}
        found = await self._questions.by_ids([q for ids in asked.values() for q in ids])
        woken = {
            place: [str(q) for q in ids]
            for place, ids in asked.items()
            if ids and all(q in found and found[q].state != "pending" for q in ids)
        }
        return Command(resume=woken) if woken else None

    def _settled(self, tool: Tool, drive: Drive, ended: Any) -> Parked | Any:
        foreign = [one for one in ended.interrupts if not _questions_of(one.value)]
        if foreign:
            raise RunTerminalFailed(
                f"the agent {tool.name} stopped at an interrupt of its own graph, which nobody can answer; "
                "ask with a tool instead"
            )
        waiting = {one.interaction_id: one for asked in drive.waiting.values() for one in asked}
        if not waiting:
            return _result(tool, ended.values)
        if not ended.interrupts:
            raise SuspensionError(
                f"the agent {tool.name} went on although one of its tools waits for an answer"
            )
        return Parked(tuple(waiting.values()))

    async def _graph(self, tool: Tool) -> Any:
        known = self._graphs.get(tool.name)
        if known is not None and known[0] is tool:
            return known[1]
        async with self._building:
            saver = await self._checkpoints.open()
            # In a thread: the first one loads the libraries, which takes a second or two.
            graph = await asyncio.to_thread(_build, tool, saver)
            self._graphs[tool.name] = tool, graph
            return graph


def _build(tool: Tool, saver: Any) -> Any:
    if isinstance(tool, Resumable):
        from rejoinder.agents.flows import flow

        return flow(tool, saver)
    from rejoinder.agents.graphs import build

    assert isinstance(tool, Agent)
    return build(tool, saver)


def _result(tool: Tool, values: Any) -> Any:
    return playing.result(values) if isinstance(tool, Agent) else values


def _questions_of(value: Any) -> list[UUID]:
    """The questions that an interrupt of ours waits for; empty where it is not ours."""
    named = value.get(SUSPENDED_KEY) if isinstance(value, dict) else None
    return [UUID(one) for one in named] if isinstance(named, list) else []
