"""Agents: which there are, and running one while it tells what it does.

``POST /api/agents/{name}/run`` answers with server-sent events: ``started``, then ``text``, ``tool_call`` and
``tool_result`` as they happen, then ``suspended`` where the agent waits for people or for its caller, ``final`` with its
result, or ``error``. Closing the connection cancels a run that is going; one that is parked stays parked.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

from fastapi import APIRouter
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rejoinder.access.gate import Caller
from rejoinder.agents.runnable import why_not_run
from rejoinder.asks.tail import sse
from rejoinder.contract.answers import SuspendedInteraction
from rejoinder.contract.errors import (
    AgentNotFoundError,
    AgentNotRunnableError,
    AuthenticationError,
    BadInputError,
)
from rejoinder.contract.identity import Identity
from rejoinder.contract.questions import Question
from rejoinder.doors.admission import Door, PlainDoor, needs, still_admitted
from rejoinder.doors.blocking import unless_gone
from rejoinder.doors.bodies import LARGE, read_object, reply
from rejoinder.doors.problems import internal, problem_of
from rejoinder.doors.requests import REQUEST_ID
from rejoinder.doors.run_tool import RUN_ID_HEADER, traceparent
from rejoinder.doors.schemas import gives
from rejoinder.doors.stream import HEADERS, KEEP_ALIVE, STILL_HERE
from rejoinder.node import Node
from rejoinder.observe.logs import get_logger
from rejoinder.runs.agent import Agent, ModelSpec
from rejoinder.runs.manifest import Registry
from rejoinder.runs.outcome import RunResult
from rejoinder.runs.visits import Standing

log = get_logger("agents")

DOOR = "agents"
KEYS = frozenset(("message", "follow"))


class RunAgent(PlainDoor):
    """``authored``: a door to the agents that are built from what is written down of them, and to no other."""

    grant = "write"

    def __init__(self, node: Node, *, authored: bool = False) -> None:
        super().__init__(node)
        self._authored = authored

    async def serve(self, connection: HTTPConnection, caller: Caller, receive: Receive, send: Send) -> None:
        scope = connection.scope
        agent = agent_of(self.node.registry, scope["path_params"]["name"])
        if self._authored and not is_authored(agent):
            raise AgentNotFoundError(
                "This agent is a graph of its own code, and not built from a specification."
            )
        body = await read_object(scope, receive, LARGE, keys=KEYS)
        follow = body.pop("follow", False)
        if not isinstance(follow, bool):
            raise BadInputError("follow must be true or false", field="follow")
        agent.check_arguments(body)
        if lacking := why_not_run(agent):
            raise AgentNotRunnableError(f"this agent cannot be run here: {lacking}")
        told = Telling(self.node, caller.identity, scope, send, uuid4())
        run = told.run(agent, body, traceparent(connection), follow=follow)
        try:
            await unless_gone(receive, run, still_admitted(connection, "write"))
        except AuthenticationError as error:
            # The response has begun: it says itself why it ends.
            await told.failed(error)
        await send({"type": "http.response.body", "body": b""})


class Telling:
    """One run of an agent, told to its caller."""

    def __init__(self, node: Node, by: Identity, scope: Scope, send: Send, run_id: UUID) -> None:
        self._node = node
        self._by = by
        self._scope = scope
        self._send = send
        self._run_id = run_id
        self._heard: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    async def run(self, agent: Agent, arguments: dict[str, Any], trace: str | None, *, follow: bool) -> None:
        going = asyncio.create_task(
            self._node.run_service.call(
                agent.name,
                arguments,
                by=self._by,
                door=DOOR,
                traceparent=trace,
                run_id=self._run_id,
                keep_result=True,
                listen=self._heard.put_nowait,
            ),
            name=f"agent.{agent.name}",
        )
        going.add_done_callback(lambda _: self._heard.put_nowait(None))
        try:
            headers = [*HEADERS, (RUN_ID_HEADER, str(self._run_id).encode())]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._tell("started", {"agent": agent.name})
            while (frame := await self._next()) is not None:
                await self._tell(str(frame["type"]), {k: v for k, v in frame.items() if k != "type"})
            result = await going
        except Exception as error:
            await self.failed(error)
            return
        finally:
            if not going.done():
                going.cancel()
                await asyncio.gather(going, return_exceptions=True)
        if result.parked:
            await self._parked(follow)
        else:
            await self._final(result)

    async def failed(self, error: Exception) -> None:
        """Tell that the run, or the listening to it, ended with this error."""
        problem = problem_of(error, self._scope[REQUEST_ID])
        if problem is None:
            log.error("an agent's run failed", id=self._scope[REQUEST_ID], exc_info=error)
            problem = internal(self._scope[REQUEST_ID])
        await self._tell("error", {"status": "failed", **problem[1]})

    async def _next(self) -> dict[str, Any] | None:
        """The next frame; None once the run has come to its end here. Says that it is still here meanwhile."""
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE):
                    return await self._heard.get()
            except TimeoutError:
                await self._write(STILL_HERE)

    async def _parked(self, follow: bool) -> None:
        """Tell what the run waits for; where the caller wants to follow, each time that changes, until it has ended."""
        shown: object = None
        with self._node.visits.watching(self._run_id) as watch:
            while True:
                chain = await watch.look()
                standing = await self._node.visits.look(self._run_id, by=self._by)
                if standing.run.state not in ("running", "parked"):
                    await self._ended(standing)
                    return
                waits = await self._waits(chain.runs, standing)
                if not chain.active and waits["interaction_ids"] != shown:
                    shown = waits["interaction_ids"]
                    await self._tell("suspended", waits["body"])
                if not follow and shown is not None:
                    return
                await watch.wait(KEEP_ALIVE)
                await self._write(STILL_HERE)

    async def _waits(self, runs: list[UUID], standing: Standing) -> dict[str, Any]:
        questions: list[Question] = []
        for one in runs:
            questions += [q for q in await self._node.questions.of_run(one) if q.state == "pending"]
        people = [q for q in questions if q.to_kind == "user" and self._by.may_see(q.audience)]
        ids = [q.id for q in questions if q.run_id == self._run_id]
        body: dict[str, Any] = {}
        if ids:
            deadline = min(q.timeout_at for q in questions)
            asks = tuple(q.as_ask() for q in standing.questions)
            body = SuspendedInteraction(ids[0], deadline, standing.run.tool, tuple(ids), asks).as_json()
        body |= {"questions": [q.as_item() for q in people], "asks": standing.asks()}
        return {"interaction_ids": {q.id for q in questions}, "body": body}

    async def _ended(self, standing: Standing) -> None:
        run = standing.run
        if run.state == "succeeded":
            kind = "none" if run.result is None else "result"
            await self._tell("final", {"kind": kind, "result": run.result})
        else:
            told = run.error or {"code": "run-failed", "error": f"The run ended as {run.state}."}
            await self._tell("error", {"status": run.state, **told})

    async def _final(self, result: RunResult) -> None:
        await self._tell("final", {"kind": result.kind, "result": result.result})

    async def _tell(self, event: str, body: dict[str, Any]) -> None:
        await self._write(sse(event, {"run_id": str(self._run_id), **body}))

    async def _write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})


def router(node: Node) -> APIRouter:
    api = APIRouter(route_class=Door, tags=["agents"])

    @api.get("/api/agents", openapi_extra=needs("read", **gives("Agents")), summary="List the agents")
    async def agents() -> Response:
        """Each with its title, description, kind, model, tools and subagents."""
        return reply({"items": [_shown(one) for one in agents_of(node.registry)]})

    @api.get(
        "/api/agents/spec-runnable",
        openapi_extra=needs("read", **gives("RunnableAgents")),
        summary="Tell which agents can be run here",
    )
    async def runnable() -> Response:
        """As far as that is known before a model is asked: the packages are there, and the variables that the
        manifest names are set. ``lacking`` is the sentence that says what is not. ``authored``: it is built from its
        specification in the manifest, and not a graph of its own code."""
        found = [(one, why_not_run(one)) for one in agents_of(node.registry)]
        return reply(
            {
                "items": [
                    {
                        "name": one.name,
                        "runnable": lacking is None,
                        "lacking": lacking,
                        "authored": is_authored(one),
                    }
                    for one, lacking in found
                ]
            }
        )

    return api


def agents_of(registry: Registry) -> list[Agent]:
    return [one.tool for one in registry if isinstance(one.tool, Agent)]


def is_authored(agent: Agent) -> bool:
    return agent.graph is None


def agent_of(registry: Registry, name: str) -> Agent:
    """Raises AgentNotFoundError, also for a tool that is none."""
    found = registry.get(name) if name in registry else None
    if not isinstance(found, Agent):
        raise AgentNotFoundError()
    return found


def _shown(agent: Agent) -> dict[str, Any]:
    return {
        "name": agent.name,
        "title": agent.title,
        "description": agent.description,
        "kind": "graph" if agent.graph is not None else agent.kind,
        "model": _model(agent.model),
        "tools": [one.name for one in agent.tools],
        "subagents": [
            {
                "name": one.name,
                "description": one.description,
                "model": _model(one.model),
                "tools": [t.name for t in one.tools],
            }
            for one in agent.subagents
        ],
    }


def _model(spec: ModelSpec | None) -> str | None:
    return None if spec is None else spec.name
