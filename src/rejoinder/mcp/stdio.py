"""``rejoinder mcp``: the tools of a running server for a client that starts a program and talks over its pipes.

It passes every message on to the server's ``/mcp``: one place runs the tools, holds the calls and knows the keys, and
a client that is closed or restarted finds its runs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION

from rejoinder.access.gate import is_loopback
from rejoinder.contract.errors import AuthenticationError, NotReadyError, RejoinderError
from rejoinder.mcp.server import PATH

Context = ServerRequestContext[Any, Any]
#: The server holds a call for less and sends something every few seconds; longer silence is a broken connection.
SILENCE_SECONDS = 300.0
CONNECT_SECONDS = 5.0


class Target(NamedTuple):
    """The server to pass on to: its URL without a path, and the API key, or None where its gate is off."""

    url: str
    key: str | None


def main(find: Callable[[], Target]) -> None:
    """Serve this process' pipes until the client closes them. ``find`` is asked at every message, so that a server
    may be started, or restarted elsewhere, later; it may raise a RejoinderError, which the client is told."""
    asyncio.run(serve(find))


async def serve(find: Callable[[], Target]) -> None:
    # Nothing of ours may reach standard output: while this block runs, what is printed goes to standard error.
    async with stdio_server() as (read, write):
        server = proxy(find)
        await server.run(read, write, server.create_initialization_options())


def proxy(find: Callable[[], Target]) -> Server[Any]:
    async def list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        try:
            async with _upstream(find()) as client:
                return await client.list_tools(cursor=params.cursor if params is not None else None)
        except RejoinderError as error:
            raise MCPError(types.INTERNAL_ERROR, error.message) from error

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        async def told(progress: float, total: float | None, message: str | None) -> None:
            await ctx.session.report_progress(progress, total, message)

        wants_progress = ctx.meta is not None and ctx.meta.get("progress_token") is not None
        try:
            async with _upstream(find()) as client:
                # Not client.call_tool: that would list the tools once more to check what our own server answered.
                return await client.session.send_request(
                    types.CallToolRequest(
                        params=types.CallToolRequestParams(name=params.name, arguments=params.arguments)
                    ),
                    types.CallToolResult,
                    progress_callback=told if wants_progress else None,
                )
        except RejoinderError as error:
            return types.CallToolResult(
                content=[types.TextContent(text=error.message)],
                structured_content=error.as_problem(),
                is_error=True,
            )

    return Server(
        "rejoinder",
        version=version("rejoinder"),
        title="Rejoinder",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        # The server checks what it is sent; this end has nothing to check by.
        get_tool_input_schema=lambda _name: None,
    )


@asynccontextmanager
async def _upstream(target: Target) -> AsyncIterator[Client]:
    """A connection to the server for one message. Leaving it early lets go of the call, which goes on there.
    Raises NotReadyError, AuthenticationError, and MCPError as the server answered."""
    refused: list[int] = []

    async def note(response: httpx2.Response) -> None:
        if response.status_code in (401, 403, 421, 503):
            refused.append(response.status_code)

    url = target.url.rstrip("/") + PATH
    http = httpx2.AsyncClient(
        headers={"Authorization": f"Bearer {target.key}"} if target.key else {},
        timeout=httpx2.Timeout(30, connect=CONNECT_SECONDS, read=SILENCE_SECONDS),
        event_hooks={"response": [note]},
        # A proxy of the environment does not know what runs on this machine.
        trust_env=not is_loopback(urlsplit(url).hostname or ""),
    )
    try:
        async with (
            http,
            Client(
                streamable_http_client(url, http_client=http), mode=LATEST_MODERN_VERSION, cache=None
            ) as client,
        ):
            yield client
    except BaseException as error:
        if (explained := _explained(error, refused, target.url)) is None:
            raise
        raise explained from error


def _explained(error: BaseException, refused: list[int], url: str) -> BaseException | None:
    """A fault of the connection as a sentence for whoever reads the client; None where it is none."""
    causes = list(_leaves(error))
    if any(isinstance(cause, asyncio.CancelledError | KeyboardInterrupt | SystemExit) for cause in causes):
        return None
    if 401 in refused:
        return AuthenticationError(f"The server at {url} does not take this API key.")
    if any(isinstance(cause, httpx2.TransportError) for cause in causes):
        return NotReadyError(f"No server answers at {url}. Start one with: rejoinder up")
    if refused:
        return NotReadyError(f"The server at {url} refuses this program (status {refused[-1]}).")
    known = [cause for cause in causes if isinstance(cause, RejoinderError | MCPError)]
    return known[0] if known else NotReadyError(f"The connection to the server at {url} broke; call again.")


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
