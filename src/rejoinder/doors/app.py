"""The HTTP application: every door, behind one gate and one middleware."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, NoReturn

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from rejoinder.doors import access, interactions, operations, tool_runs
from rejoinder.doors.admission import Door, grant_of
from rejoinder.doors.answer import Answer
from rejoinder.doors.blocking import Blocking
from rejoinder.doors.openapi import document
from rejoinder.doors.openapi import router as openapi_router
from rejoinder.doors.requests import Requests
from rejoinder.doors.run_tool import RunTool
from rejoinder.doors.stream import Stream
from rejoinder.node import Node

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(node: Node, *, lifespan: Lifespan | None = None) -> FastAPI:
    """The application of a node that somebody else starts and stops (``lifespan`` may be that somebody).

    ``app.state.blocking.stop()`` ends the requests that wait, so that a server may stop without waiting for people:
    blocked callers get 503, streams end.
    """
    blocking = Blocking()
    app = FastAPI(
        title="Rejoinder",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(node, lifespan),
        redirect_slashes=False,
    )
    app.state.node = node
    app.state.blocking = blocking
    app.router.route_class = Door
    # What a door raises is worded in one place, which stands around the routes.
    for kind in (HTTPException, RequestValidationError):
        app.exception_handlers[kind] = _raise
    app.add_middleware(Requests, node=node)
    routes: list[BaseRoute] = [
        # The order is the order of looking: the doors that are called most come first.
        Route("/api/interactions/{interaction_id}/answer", Answer(node), methods=["POST"]),
        Route("/api/run-tool", RunTool(node, blocking), methods=["POST"]),
        Route("/api/interactions/stream", Stream(node, blocking), methods=["GET"]),
        *interactions.router(node).routes,
        *tool_runs.router(node, blocking).routes,
        *operations.router(node).routes,
        *access.router(node).routes,
        *openapi_router(app).routes,
        *_others(node),
    ]
    app.router.routes.extend(routes)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    for route in app.router.routes:
        grant_of(route)
    return app


async def _raise(_request: Request, error: Exception) -> NoReturn:
    raise error


def _others(node: Node) -> list[BaseRoute]:
    """The pages and the MCP door, whose own code keeps the gate."""
    found: list[BaseRoute] = []
    if importlib.util.find_spec("rejoinder.web.pages") is not None:
        found += importlib.import_module("rejoinder.web.pages").routes(node)
    if importlib.util.find_spec("rejoinder.mcp.server") is not None:
        found.append(importlib.import_module("rejoinder.mcp.server").route(node))
    for one in found:
        one.rejoinder_grant = "own"  # type: ignore[attr-defined]
    return found


def _lifespan(node: Node, given: Lifespan | None) -> Lifespan:
    @asynccontextmanager
    async def combined(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if given is not None:
                await stack.enter_async_context(given(app))
            stack.callback(app.state.blocking.stop)
            yield

    return combined


def waiting(app: Any) -> int:
    """How many requests wait in this app; for tests and for those who stop a server."""
    return len(app.state.blocking)
