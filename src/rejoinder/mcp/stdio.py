"""``rejoinder mcp``: the tools of a running server for a client that starts a program and talks over its pipes.

It passes every message on to the server's ``/mcp``: one place runs the tools, holds the calls and knows the keys, and
a client that is closed or restarted finds its runs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict

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

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Any:
        try:
            return await Passing(ctx, params, find()).result()
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


class Anything(types.Result):
    """A result as the server sent it, of whatever kind."""

    model_config = ConfigDict(extra="allow")


class Passing:
    """One call on its way. The server is told whether this client's person can be asked. A client of the newer
    generation asks by itself and calls again; one of the older generation is asked here, while a second request waits
    for the same run, in case somebody answers in the inbox first."""

    def __init__(self, ctx: Context, params: types.CallToolRequestParams, target: Target) -> None:
        self._ctx = ctx
        self._params = params
        self._target = target
        capabilities = ctx.session.client_capabilities
        elicitation = capabilities.elicitation if capabilities is not None else None
        self._asks = elicitation is not None and (elicitation.form is not None or elicitation.url is None)

    async def result(self) -> dict[str, Any]:
        state, responses = self._params.request_state, self._params.input_responses
        while True:
            result = await self._send(state, responses, asks=self._asks)
            modern = self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            if result.get("resultType") != "input_required" or modern:
                return result
            state, responses = result.get("requestState"), None
            requests = result.get("inputRequests") or {}
            if requests:
                ended, responses = await self._ask(requests)
                if ended is not None:
                    return ended

    async def _ask(self, requests: dict[str, Any]) -> tuple[dict[str, Any] | None, types.InputResponses]:
        """What the client's person said; or the call's result, where it came first."""
        asking = asyncio.create_task(self._ask_all(requests))
        waiting = asyncio.create_task(self._send(None, None, asks=False))
        try:
            await asyncio.wait({asking, waiting}, return_when=asyncio.FIRST_COMPLETED)
            return (waiting.result(), {}) if waiting.done() else (None, asking.result())
        finally:
            asking.cancel()
            waiting.cancel()
            await asyncio.gather(asking, waiting, return_exceptions=True)

    async def _ask_all(self, requests: dict[str, Any]) -> types.InputResponses:
        async def ask(params: dict[str, Any]) -> types.ElicitResult:
            return await self._ctx.session.elicit_form(
                params["message"], params["requestedSchema"], related_request_id=self._ctx.request_id
            )

        said = await asyncio.gather(*(ask(one["params"]) for one in requests.values()))
        return dict(zip(requests, said, strict=True))

    async def _send(
        self, state: str | None, responses: types.InputResponses | None, *, asks: bool
    ) -> dict[str, Any]:
        async def told(progress: float, total: float | None, message: str | None) -> None:
            await self._ctx.session.report_progress(progress, total, message)

        wants_progress = self._ctx.meta is not None and self._ctx.meta.get("progress_token") is not None
        async with _upstream(self._target, asks=asks) as client:
            # Not client.call_tool: that would list the tools once more to check what our own server answered.
            result = await client.session.send_request(
                types.CallToolRequest(
                    params=types.CallToolRequestParams(
                        name=self._params.name,
                        arguments=self._params.arguments,
                        request_state=state,
                        input_responses=responses,
                    )
                ),
                Anything,
                progress_callback=told if wants_progress else None,
            )
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)


async def _never(_context: Any, _params: Any) -> types.ElicitResult | types.ErrorData:
    """Says by being there that a person can be asked; who is asked is asked by ``Passing``."""
    return types.ElicitResult(action="cancel")


@asynccontextmanager
async def _upstream(target: Target, *, asks: bool = False) -> AsyncIterator[Client]:
    """A connection to the server for one message. Leaving it early lets go of the call, which goes on there.
    ``asks``: the server is told that this client shows forms. Raises NotReadyError, AuthenticationError, and MCPError as the server answered."""
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
                streamable_http_client(url, http_client=http),
                mode=LATEST_MODERN_VERSION,
                cache=None,
                elicitation_callback=cast(Any, _never) if asks else None,
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
