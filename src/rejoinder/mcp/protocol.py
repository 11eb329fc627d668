"""The exposed tools as an MCP server, both protocol generations: what is listed, and what a call does.

Imported when the first client comes: the protocol's library costs half a second and 25 MB.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, cast
from uuid import UUID, uuid4

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from rejoinder.contract.errors import (
    BadInputError,
    ForbiddenError,
    RejoinderError,
    ToolNotFoundError,
)
from rejoinder.contract.identity import Grant, Identity
from rejoinder.mcp.calls import DOOR, Calls, Tell
from rejoinder.mcp.ends import Progress, internal_problem
from rejoinder.mcp.handover import GivenUpError
from rejoinder.mcp.manners import Manners, Result, handover
from rejoinder.mcp.results import ASK_OUTPUT, CHECK_RUN, complete, pending, problem, waiting_text
from rejoinder.mcp.sealed import Sealer
from rejoinder.mcp.server import PATH, identity_of
from rejoinder.mcp.tasks import Tasks
from rejoinder.node import Node
from rejoinder.observe.logs import get_logger
from rejoinder.runs.tools import Tool
from rejoinder.tools.interactions import ask_tool

log = get_logger("mcp")
Context = ServerRequestContext[Any, Any]

#: How often a client that wants to know hears that its call goes on.
PROGRESS_SECONDS = 5.0
#: A call that takes longer than this becomes a task, for clients that know tasks.
TASK_AFTER_SECONDS = 0.5
INSTRUCTIONS = (
    "Some of these tools ask a person and wait for the answer. A call that takes long says that it is not finished "
    f"yet and names its run: call {CHECK_RUN} with that run_id to wait for the result. Nothing is lost meanwhile."
)

_CHECK_RUN_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "run_id": {
            "type": "string",
            "format": "uuid",
            "description": "The run, as an earlier call named it.",
        },
        "wait_seconds": {
            "type": "number",
            "minimum": 0,
            "description": "How long to wait for its end; left out: as long as this server holds a call.",
        },
    },
    "required": ["run_id"],
    "additionalProperties": False,
}


def manager_of(
    node: Node, calls: Calls, sealer: Sealer, *, progress_seconds: float = PROGRESS_SECONDS
) -> StreamableHTTPSessionManager:
    # Stateless: a session of the library's lives in one process and breaks on a deployment of several; the older
    # generation's clients are asked by ours (wire.py). Always SSE: a person takes longer than the silence that clients
    # and proxies bear on a plain response.
    return StreamableHTTPSessionManager(
        Edge(node, calls, sealer, progress_seconds).server(), stateless=True, json_response=False
    )


class Edge:
    """The adapter between the protocol's handlers and runs."""

    def __init__(self, node: Node, calls: Calls, sealer: Sealer, progress_seconds: float) -> None:
        self._node = node
        self._calls = calls
        self._progress = progress_seconds
        # A tool of that name wins: the caller asked for it. What is pending is then fetched by the same call.
        self._checkable = CHECK_RUN not in node.registry
        self._manners = Manners(
            node,
            calls,
            sealer,
            every=progress_seconds,
            task_after=TASK_AFTER_SECONDS,
            checkable=self._checkable,
        )

    def server(self) -> Server[Any]:
        server = self._server()
        Tasks(self._node, self._calls).serve(server)
        return server

    def _server(self) -> Server[Any]:
        return Server(
            "rejoinder",
            version=version("rejoinder"),
            title="Rejoinder",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list,
            # A task is a result of a kind that the library does not know, and passes on.
            on_call_tool=cast(Any, self._call),
            get_tool_input_schema=self._input_schema,
        )

    async def _list(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        try:
            await self._needs(_identity(ctx), "read", "list tools")
        except RejoinderError as error:
            raise MCPError(types.INVALID_REQUEST, error.message) from error
        if params is not None and params.cursor is not None:
            raise MCPError(types.INVALID_PARAMS, "The list has one page; this cursor is not from it.")
        tools = [_described(one.tool) for one in self._node.registry if not one.tool.internal]
        if self._checkable:
            tools.append(_CHECK_RUN_TOOL)
        return types.ListToolsResult(tools=tools)

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> Result:
        arguments = params.arguments or {}
        by = _identity(ctx)
        try:
            if params.name == CHECK_RUN and self._checkable:
                return await self._check(ctx, arguments, by)
            await self._needs(by, "write", "call tools")
            leg = await self._manners.leg(
                ctx,
                params,
                arguments,
                by,
                lambda: self._calls.begin(params.name, arguments, by=by, traceparent=_traceparent(ctx)),
            )
            try:
                tell = self._teller(ctx, leg.call.run_id)
                return await self._manners.wait(ctx, params, leg, by, tell)
            finally:
                self._calls.release(leg.call)
        except ToolNotFoundError as error:
            raise MCPError(types.INVALID_PARAMS, "No tool of this name is exposed.") from error
        except RejoinderError as error:
            return problem(error.as_problem())
        except GivenUpError as error:
            raise MCPError(REQUEST_CANCELLED, "Request cancelled") from error
        except MCPError:
            raise
        except Exception:
            # The older generation would be told the exception's own text.
            reference = uuid4()
            log.exception("a call failed at the door", id=str(reference))
            return problem(internal_problem(reference))

    async def _needs(self, by: Identity, grant: Grant, what: str) -> None:
        if by.may(grant):
            return
        await self._node.events.add(
            "access.refused", actor=by.name, via=DOOR, reason=f"no {grant} grant", detail={"route": PATH}
        )
        raise ForbiddenError(f"This key may not {what}: it lacks the {grant} grant.")

    async def _check(self, ctx: Context, arguments: dict[str, Any], by: Identity) -> types.CallToolResult:
        await self._needs(by, "read", "read runs")
        run_id, seconds = self._check_arguments(arguments)
        tell = self._teller(ctx, run_id)
        ended = await self._calls.asks(run_id, by=by)
        ended = ended or await self._calls.check(
            run_id, seconds, tell, self._progress, by=by, request=handover(ctx)
        )
        ended = ended or await self._calls.asks(run_id, by=by)
        if ended is not None:
            return complete(ended)
        return pending(run_id, None, await self._calls.open_questions(run_id), checkable=True)

    def _check_arguments(self, arguments: dict[str, Any]) -> tuple[UUID, float]:
        for name in arguments:
            if name not in ("run_id", "wait_seconds"):
                raise BadInputError(f"{CHECK_RUN} takes run_id and wait_seconds only", field="arguments")
        if "run_id" not in arguments:
            raise BadInputError("argument run_id: it is required", field="run_id")
        try:
            run_id = UUID(arguments["run_id"])
        except (ValueError, TypeError, AttributeError):
            raise BadInputError("argument run_id: it is not the id of a run", field="run_id") from None
        seconds = arguments.get("wait_seconds", self._hold_seconds)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
            raise BadInputError(
                "argument wait_seconds: it must be a number of seconds, 0 or more", field="wait_seconds"
            )
        return run_id, min(seconds, self._hold_seconds)

    @property
    def _hold_seconds(self) -> float:
        return self._node.settings.rejoinder_mcp_hold_seconds

    def _teller(self, ctx: Context, run_id: UUID) -> Tell:
        """Progress for a client that asked for it: what the tool reports; else seconds so far, and whom or what the run
        waits for. The protocol wants every number to be higher than the one before."""
        began = time.monotonic()
        last = -1.0
        heard = 0
        total: float | None = None

        async def tell(report: Progress | None) -> None:
            nonlocal last, heard, total
            if ctx.meta is None or ctx.meta.get("progress_token") is None:
                return
            if report is not None:
                if report.number <= heard:
                    return
                heard = report.number
                done, total, message = report.done, report.total, report.message
            else:
                done = last if total is not None else round(time.monotonic() - began, 3)
                message = waiting_text(await self._calls.open_questions(run_id))
            last = done if done > last else last + 0.001
            await ctx.session.report_progress(last, total, message)

        return tell

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        if name in self._node.registry:
            found = self._node.registry.get(name)
            return None if found.internal else found.input_schema
        return _CHECK_RUN_SCHEMA if name == CHECK_RUN else None


def _identity(ctx: Context) -> Identity:
    return identity_of(ctx.request.scope if ctx.request is not None else {})


def _traceparent(ctx: Context) -> str | None:
    found = ctx.request.headers.get("traceparent") if ctx.request is not None else None
    return found if isinstance(found, str) else None


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description or None,
        input_schema=tool.input_schema,
        # Of other tools we know only what a run returned, not what the next one will.
        output_schema=ASK_OUTPUT if tool is ask_tool else None,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
        ),
    )


_CHECK_RUN_TOOL = types.Tool(
    name=CHECK_RUN,
    title="Wait for a run",
    description=(
        "The result of a call that was not finished in time, or of a parked run: waits for a while, and says so "
        "where it is still not finished."
    ),
    input_schema=_CHECK_RUN_SCHEMA,
    annotations=types.ToolAnnotations(
        title="Wait for a run", read_only_hint=True, idempotent_hint=True, open_world_hint=False
    ),
)
