"""The HTTP application: every door, behind one gate and one middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rejoinder.access.declared import keeps_own_gate
from rejoinder.doors import (
    access,
    callback,
    hooks,
    interactions,
    media,
    operations,
    presets,
    schedules,
    tool_runs,
)
from rejoinder.doors.admission import Door, grant_of, templates
from rejoinder.doors.agents import RunAgent
from rejoinder.doors.agents import router as agents_router
from rejoinder.doors.answer import Answer
from rejoinder.doors.flood import Flood
from rejoinder.doors.hook_runs import router as hook_runs_router
from rejoinder.doors.openapi import document
from rejoinder.doors.openapi import router as openapi_router
from rejoinder.doors.requests import Requests
from rejoinder.doors.run_tool import RunTool
from rejoinder.doors.stream import Stream
from rejoinder.doors.trigger import router as trigger_router
from rejoinder.doors.webhooks import router as webhooks_router
from rejoinder.mcp.server import Door as McpDoor
from rejoinder.mcp.server import route as mcp_route
from rejoinder.node import Node
from rejoinder.web.pages import routes as pages

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


class Application(FastAPI):
    """FastAPI's routes and document inside our own layer, which words every error in one place."""

    _outer: Requests | None = None

    def surround(self, plain: Sequence[Route], node: Node) -> None:
        self._outer = Requests(super().__call__, plain, node)

    def build_middleware_stack(self) -> ASGIApp:
        # The framework's own layers answer errors and limit bodies, which ours does.
        return AsyncExitStackMiddleware(self.router)

    # Servers look whether this is a coroutine function, to know which generation of the interface it is.
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._outer is not None
        scope["app"] = self
        await self._outer(scope, receive, send)


def create_app(node: Node, *, lifespan: Lifespan | None = None) -> FastAPI:
    """The application of a node that somebody else starts and stops (``lifespan`` may be that somebody).
    Raises ConfigurationError where a route does not say which grant it takes, or two public ones of one family bring
    different budgets.
    """
    mcp = mcp_route(node)
    assert isinstance(mcp.endpoint, McpDoor)
    app = Application(
        title="Rejoinder",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(mcp.endpoint, lifespan),
        redirect_slashes=False,
    )
    app.state.node = node
    app.router.route_class = Door
    own = [*pages(node), keeps_own_gate(mcp)]
    plain = [
        Route("/api/interactions/{interaction_id}/answer", Answer(node), methods=["POST"]),
        Route("/api/run-tool", RunTool(node), methods=["POST"]),
        Route("/api/interactions/stream", Stream(node), methods=["GET"]),
        *(
            Route(f"/api/agents/{{name}}/{word}", RunAgent(node), methods=["POST"])
            for word in ("run", "runs")
        ),
        Route("/api/agents/authored/{name}/runs", RunAgent(node, authored=True), methods=["POST"]),
    ]
    # The first that matches is taken: /api/interactions/stream comes before /api/interactions/{interaction_id}.
    app.router.routes[:] = [
        *plain,
        *callback.router(node).routes,
        *hooks.router(node).routes,
        *trigger_router(node).routes,
        *webhooks_router(node).routes,
        *hook_runs_router(node).routes,
        *media.router(node).routes,
        *interactions.router(node).routes,
        *tool_runs.router(node).routes,
        *agents_router(node).routes,
        *schedules.router(node).routes,
        *presets.router(node).routes,
        *operations.router(node).routes,
        *access.router(node).routes,
        *openapi_router(app).routes,
        *own,
    ]
    app.state.templates = templates(app.router.routes)
    check_grants(app.router.routes)
    app.state.flood = Flood(node.hits, node.settings)
    app.state.flood.protect(app.router.routes)
    app.surround(plain, node)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    return app


def check_grants(routes: list[BaseRoute]) -> None:
    """Raises ConfigurationError for the first route that does not say which grant it takes."""
    for route in routes:
        grant_of(route)


def _lifespan(mcp: McpDoor, given: Lifespan | None) -> Lifespan:
    @asynccontextmanager
    async def combined(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if given is not None:
                await stack.enter_async_context(given(app))
            await stack.enter_async_context(mcp.run())
            yield

    return combined
