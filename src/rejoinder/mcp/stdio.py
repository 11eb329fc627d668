"""``rejoinder mcp``: the tools of a running server for a client that starts a program and talks over its pipes.

It passes every message on to the server's ``/mcp``: one place runs the tools, holds the calls and knows the keys, and
a client that is closed or restarted finds its runs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import ConfigDict

from rejoinder.access.gate import is_loopback
from rejoinder.contract.errors import AuthenticationError, NotReadyError, RejoinderError
from rejoinder.mcp.capabilities import TASKS, Context, TaskParams, UpdateParams, is_modern, knows_tasks
from rejoinder.mcp.server import PATH

#: The server holds a call for less and sends something every few seconds; longer silence is a broken connection.
SILENCE_SECONDS = 300.0
CONNECT_SECONDS = 5.0
#: What our own server speaks is known, so that it need not be asked before every message.
_OURS = types.DiscoverResult(
    supported_versions=[LATEST_MODERN_VERSION],
    capabilities=types.ServerCapabilities(),
    ttl_ms=0,
    cache_scope="private",
)


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
            async with _upstream(find()) as session:
                return await session.list_tools(params=params)
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

    def task(method: str) -> Callable[[Context, TaskParams], Awaitable[dict[str, Any]]]:
        async def passed_on(ctx: Context, params: TaskParams) -> dict[str, Any]:
            if not is_modern(ctx):
                raise MCPError(types.METHOD_NOT_FOUND, f"Method not found: {method}")
            given = params.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"meta"})
            try:
                async with _upstream(find(), _declared(ctx)) as session:
                    result = await session.send_request(AboutTask(method=method, params=given), Anything)
            except RejoinderError as error:
                raise MCPError(types.INTERNAL_ERROR, error.message) from error
            return _plain(result)

        return passed_on

    server = Server[Any](
        "rejoinder",
        version=version("rejoinder"),
        title="Rejoinder",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        # The server checks what it is sent; this end has nothing to check by.
        get_tool_input_schema=lambda _name: None,
    )
    server.extensions = {**server.extensions, TASKS: {}}
    for name, params in (("get", TaskParams), ("update", UpdateParams), ("cancel", TaskParams)):
        server.add_request_handler(f"tasks/{name}", params, task(f"tasks/{name}"))
    return server


class AboutTask(types.Request[dict[str, Any], str]):
    """One of the requests of the tasks extension; its header names the task."""

    name_param = "taskId"


class Anything(types.Result):
    """A result as the server sent it, of whatever kind."""

    model_config = ConfigDict(extra="allow")


class Declared(ClientSession):
    """A session that says of its client what is told here; the library's own says forms and pages, or neither."""

    def __init__(self, read: Any, write: Any, capabilities: types.ClientCapabilities) -> None:
        super().__init__(read, write)
        self._declares = capabilities

    def _build_capabilities(self, version: str) -> types.ClientCapabilities:
        return self._declares


def _declared(ctx: Context) -> types.ClientCapabilities:
    """What the server is told of the client at these pipes: whom it can ask and how, and whether it knows tasks."""
    found = ctx.session.client_capabilities
    extensions: dict[str, dict[str, Any]] | None = {TASKS: {}} if knows_tasks(ctx) else None
    return types.ClientCapabilities(
        elicitation=found.elicitation if found is not None else None, extensions=extensions
    )


class Passing:
    """One call on its way. The server is told how this client's person can be asked. A client of the newer
    generation asks by itself and calls again; one of the older generation is asked here, while a second request waits
    for the same run, in case somebody answers in the inbox first."""

    def __init__(self, ctx: Context, params: types.CallToolRequestParams, target: Target) -> None:
        self._ctx = ctx
        self._params = params
        self._target = target
        #: The questions whose pages the person was sent to.
        self._pages: set[str] = set()

    async def result(self) -> dict[str, Any]:
        result = await self._result()
        for identifier in self._pages:
            await self._ctx.session.send_elicit_complete(identifier, self._ctx.request_id)
        return result

    async def _result(self) -> dict[str, Any]:
        state, responses = self._params.request_state, self._params.input_responses
        while True:
            result = await self._send(state, responses, _declared(self._ctx))
            if result.get("resultType") != "input_required" or is_modern(self._ctx):
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
        waiting = asyncio.create_task(self._send(None, None, types.ClientCapabilities()))
        try:
            await asyncio.wait({asking, waiting}, return_when=asyncio.FIRST_COMPLETED)
            return (waiting.result(), {}) if waiting.done() else (None, asking.result())
        finally:
            asking.cancel()
            waiting.cancel()
            await asyncio.gather(asking, waiting, return_exceptions=True)

    async def _ask_all(self, requests: dict[str, Any]) -> types.InputResponses:
        session, request_id = self._ctx.session, self._ctx.request_id

        async def ask(key: str, params: dict[str, Any]) -> types.ElicitResult:
            if params["mode"] == "url":
                said = await session.elicit_url(params["message"], params["url"], key, request_id)
                if said.action == "accept":
                    self._pages.add(key)
                return said
            return await session.elicit_form(params["message"], params["requestedSchema"], request_id)

        answers = await asyncio.gather(*(ask(key, one["params"]) for key, one in requests.items()))
        return dict(zip(requests, answers, strict=True))

    async def _send(
        self,
        state: str | None,
        responses: types.InputResponses | None,
        capabilities: types.ClientCapabilities,
    ) -> dict[str, Any]:
        async def told(progress: float, total: float | None, message: str | None) -> None:
            await self._ctx.session.report_progress(progress, total, message)

        wants_progress = self._ctx.meta is not None and self._ctx.meta.get("progress_token") is not None
        async with _upstream(self._target, capabilities) as session:
            # Not call_tool: that would list the tools once more to check what our own server answered.
            result = await session.send_request(
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
        return _plain(result)


def _plain(result: Anything) -> dict[str, Any]:
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)


@asynccontextmanager
async def _upstream(
    target: Target, capabilities: types.ClientCapabilities | None = None
) -> AsyncIterator[ClientSession]:
    """A connection to the server for one message. Leaving it early lets go of the call, which goes on there.
    ``capabilities`` is what the server is told of the client. Raises NotReadyError, AuthenticationError, and MCPError as
    the server answered."""
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
            streamable_http_client(url, http_client=http) as (read, write),
            Declared(read, write, capabilities or types.ClientCapabilities()) as session,
        ):
            session.adopt(_OURS)
            yield session
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
