"""The protocol's tasks: a run under another name, for clients that ask for its state by themselves.

Nothing is kept for a task that is not in the run's own rows, so that any server answers for any task.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from rejoinder.contract.errors import InteractionClosedError, InteractionNotFoundError
from rejoinder.contract.identity import Identity
from rejoinder.mcp.answering import ACTIONS, take
from rejoinder.mcp.calls import DOOR, Calls
from rejoinder.mcp.capabilities import TASKS, TaskParams, UpdateParams, is_modern, knows_tasks, shows_of
from rejoinder.mcp.ends import ended
from rejoinder.mcp.offers import Shows, offer_of, site_of
from rejoinder.mcp.results import complete, elicitation, waiting_text
from rejoinder.mcp.server import identity_of
from rejoinder.node import Node
from rejoinder.store.runs import Run

Context = ServerRequestContext[Any, Any]

#: How often a client shall look, in milliseconds.
POLL_MILLISECONDS = 1_000
#: Ends that mean that somebody wanted no result any more.
_WITHDRAWN = ("interaction-cancelled",)


async def task_of(node: Node, run_id: UUID) -> dict[str, Any]:
    """What a call answers where it became a task; its row is there already."""
    run = await node.runs.by_id(run_id)
    assert run is not None
    return {"resultType": "task", "status": "working", **_common(node, run)}


def _common(node: Node, run: Run) -> dict[str, Any]:
    changed = run.finished_at or run.entered_at or run.created_at
    return {
        "taskId": str(run.id),
        "createdAt": run.created_at.isoformat(),
        "lastUpdatedAt": changed.isoformat(),
        "ttlMs": int(node.settings.tai_tool_runs_result_ttl_seconds * 1000),
        "pollIntervalMs": POLL_MILLISECONDS,
    }


class Tasks:
    """``tasks/get``, ``tasks/update`` and ``tasks/cancel``."""

    def __init__(self, node: Node, calls: Calls) -> None:
        self._node = node
        self._calls = calls

    def serve(self, server: Server[Any]) -> None:
        server.extensions = {**server.extensions, TASKS: {}}
        server.add_request_handler("tasks/get", TaskParams, self._get)
        server.add_request_handler("tasks/update", UpdateParams, self._update)
        server.add_request_handler("tasks/cancel", TaskParams, self._cancel)

    async def _get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        by, run = await self._task(ctx, params, "tasks/get")
        task = _common(self._node, run)
        if run.state in ("running", "parked"):
            questions = await self._calls.open_questions(run.id)
            shows = self._shows(ctx)
            offers = [o for q in questions if (o := offer_of(q, by, shows)) is not None]
            task["statusMessage"] = waiting_text(questions)
            if not offers:
                return {**task, "status": "working"}
            requests = {str(o.question.id): elicitation(o.params()) for o in offers}
            return {**task, "status": "input_required", "inputRequests": requests}
        if run.state == "cancelled" or (run.error or {}).get("code") in _WITHDRAWN:
            return {**task, "status": "cancelled", "statusMessage": str((run.error or {}).get("error", ""))}
        if run.state == "lost":
            # Ours, and no result of the tool's.
            lost = {
                "code": types.INTERNAL_ERROR,
                "message": str((run.error or {}).get("error", "The run was lost.")),
            }
            return {**task, "status": "failed", "error": lost}
        end = ended(run.id, run, self._node.settings.tai_tool_runs_result_ttl_seconds)
        await self._node.runs.told(run.id)
        result = complete(end).model_dump(by_alias=True, exclude_none=True, mode="json")
        return {**task, "status": "completed", "result": result}

    async def _update(self, ctx: Context, params: UpdateParams) -> dict[str, Any]:
        by, run = await self._task(ctx, params, "tasks/update")
        refused: list[str] = []
        shows = self._shows(ctx)
        for question in await self._calls.open_questions(run.id):
            response = params.input_responses.get(str(question.id))
            offer = offer_of(question, by, shows)
            if response is None or offer is None:
                continue
            if not isinstance(response, dict) or response.get("action") not in ACTIONS:
                raise MCPError(
                    types.INVALID_PARAMS,
                    f"inputResponses.{question.id}.action must be accept, decline or cancel",
                )
            taken = await take(self._node.asks, offer, response["action"], response.get("content"), by=by)
            if taken.refused is not None:
                refused.append(f"inputResponses.{question.id}: {taken.refused}")
        if refused:
            raise MCPError(types.INVALID_PARAMS, "; ".join(refused))
        return {}

    async def _cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        by, run = await self._task(ctx, params, "tasks/cancel")
        if run.state in ("running", "parked"):
            for question in await self._calls.open_questions(run.id):
                try:
                    await self._node.asks.cancel(question.id, by=by, via=DOOR)
                except (InteractionClosedError, InteractionNotFoundError):
                    pass
            self._calls.cancel(run.id)
        return {}

    def _shows(self, ctx: Context) -> Shows:
        return shows_of(ctx, site_of(self._node.settings))

    async def _task(self, ctx: Context, params: TaskParams, method: str) -> tuple[Identity, Run]:
        """The caller and its task. Raises MCPError where there is none of this id that this caller began."""
        if not is_modern(ctx):
            raise MCPError(types.METHOD_NOT_FOUND, f"Method not found: {method}")
        if not knows_tasks(ctx):
            required: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise MCPError(
                types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This method needs the tasks extension", required
            )
        if ctx.request is not None and ctx.request.headers.get("mcp-name") != params.task_id:
            raise MCPError(types.HEADER_MISMATCH, "The Mcp-Name header must be the task's id")
        by = identity_of(ctx.request.scope if ctx.request is not None else {})
        try:
            run = await self._node.runs.by_id(UUID(params.task_id))
        except ValueError:
            run = None
        if (
            run is None
            or (run.door, run.identity, run.key_id) != (DOOR, by.name, by.key_id)
            or not by.may("write")
        ):
            raise MCPError(types.INVALID_PARAMS, "There is no task of this id")
        return by, run
