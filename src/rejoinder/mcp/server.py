"""The MCP door: ``/mcp`` on the server, for both protocol generations, behind our own API keys.

Importing this costs nothing; the protocol itself is loaded when the first client with a valid key comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from rejoinder.access.gate import CrossSiteError, Hosts, authenticate, check_origin, is_loopback
from rejoinder.contract.errors import AuthenticationError, NotReadyError, RejoinderError
from rejoinder.contract.identity import Identity
from rejoinder.mcp.calls import Calls
from rejoinder.mcp.handover import HANDOVER, Handover
from rejoinder.mcp.sealed import PURPOSE, Sealer
from rejoinder.mcp.wire import Handshake, is_handshake
from rejoinder.node import Node
from rejoinder.store.sealing import SealingKeys

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"
#: Under which the caller's identity travels in the request's scope.
IDENTITY = "rejoinder.identity"
#: How long a server that stops waits for the last responses to go out.
LAST_WORDS_SECONDS = 2.0


class Door:
    """An ASGI application for one path. Enter ``run()`` where the application starts; leaving it ends what is going."""

    def __init__(self, node: Node, *, progress_seconds: float = 5.0) -> None:
        self._node = node
        self._hosts = Hosts(node.settings)
        self._progress_seconds = progress_seconds
        self._sealer = Sealer(SealingKeys(node.database, PURPOSE))
        self._handshake = Handshake(node, self._sealer)
        self._calls: Calls | None = None
        self._closing = False
        self._stop = asyncio.Event()
        self._going: set[asyncio.Task[Any]] = set()
        self._loading: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._serving: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self.close()

    async def close(self) -> None:
        """End what is going here, tell those who hold on to it, and take nothing new."""
        self._closing = True
        if self._calls is not None:
            await self._calls.stop()
        if self._going:
            await asyncio.wait(set(self._going), timeout=LAST_WORDS_SECONDS)
        if self._calls is not None:
            await self._calls.settle()
        self._stop.set()
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        # No stream outside a call and no session to delete: every message is a POST of its own.
        if request.method != "POST":
            body = {"error": "Only POST is served here.", "code": "method-not-allowed"}
            await JSONResponse(body, 405, headers={"Allow": "POST"})(scope, receive, send)
            return
        try:
            identity = await self._admit(request)
            manager = await self._manager()
        except RejoinderError as error:
            await _refusal(error)(scope, receive, send)
            return
        scope[IDENTITY] = identity
        handover = scope[HANDOVER] = Handover()
        receive, send = handover.hearing(receive), handover.sending(send)
        task = asyncio.current_task()
        assert task is not None
        self._going.add(task)
        try:
            if is_handshake(scope):
                await self._handshake.pass_on(manager.handle_request, scope, receive, send, identity)
            else:
                await manager.handle_request(scope, receive, send)
        except NotReadyError as error:
            await _refusal(error)(scope, receive, send)
        finally:
            self._going.discard(task)
            handover.close()
            if handover.failed and self._calls is not None:
                self._calls.take_back(handover)

    async def _admit(self, request: Request) -> Identity:
        self._hosts.check(request.headers.get("host", ""))
        # A key in the header and nothing else: a cookie would let any page a browser visits call tools.
        if self._node.access.enabled and "authorization" not in request.headers:
            raise AuthenticationError()
        caller = await authenticate(request, self._node.access)
        check_origin(request, caller)
        self._check_foreign_page(request)
        return caller.identity

    def _check_foreign_page(self, request: Request) -> None:
        """The protocol wants a page's origin looked at even where a key came with it."""
        origin = request.headers.get("origin")
        if origin is None:
            return
        host = _host_of(origin)
        own = {
            _host_of(f"//{request.headers.get('host', '')}"),
            *(name.lower() for name in self._node.settings.rejoinder_allowed_hosts),
        }
        if host is None or not (host in own or is_loopback(host)):
            raise CrossSiteError()

    async def _manager(self) -> StreamableHTTPSessionManager:
        if self._closing:
            raise NotReadyError("This server is stopping; call again.")
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(self._loading), name="mcp")
        return await asyncio.shield(self._loading)

    async def _serve(self, loading: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        try:
            # In a thread: half a second on the event loop would hold up every answer.
            protocol: Any = await asyncio.to_thread(import_module, "rejoinder.mcp.protocol")
            self._calls = Calls(self._node)
            manager = protocol.manager_of(
                self._node, self._calls, self._sealer, progress_seconds=self._progress_seconds
            )
        except Exception as error:
            self._loading = None
            loading.set_exception(error)
            return
        # Entered and left in this one task, as its task group demands.
        async with manager.run():
            loading.set_result(manager)
            await self._stop.wait()


def identity_of(scope: Mapping[str, Any]) -> Identity:
    """Who calls, as this door admitted them."""
    identity = scope.get(IDENTITY)
    assert isinstance(identity, Identity)
    return identity


def route(node: Node) -> Route:
    """The route of ``/mcp``. Its ``endpoint`` is the Door: enter ``endpoint.run()`` in the application's lifespan."""
    return Route(PATH, endpoint=Door(node))


def _host_of(url: str) -> str | None:
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return None
    return host.lower() if host else None


def _refusal(error: RejoinderError) -> JSONResponse:
    headers = {"Cache-Control": "no-store"}
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="rejoinder"'
    return JSONResponse(error.as_problem(), error.status, headers=headers)
