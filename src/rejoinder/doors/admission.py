"""Every door says which grant it takes; one that does not is not built.

``public`` is open, ``any`` takes every caller with a valid key or session, ``read``, ``write`` and ``admin`` take
those with that grant. ``own`` marks routes whose own code keeps the gate: the pages and the MCP door. Public doors are
limited: see ``flood``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from rejoinder.access.declared import BUDGET, GRANT, Budget
from rejoinder.access.gate import CALLER, Caller, authenticate, check_session_request
from rejoinder.contract.errors import (
    AuthenticationError,
    ConfigurationError,
    ForbiddenError,
    NotReadyError,
)
from rejoinder.contract.identity import Grant, Identity

if TYPE_CHECKING:
    from rejoinder.node import Node

DoorGrant = Literal["public", "any", "read", "write", "admin", "own"]
GRANT_KEY = "x-rejoinder-grant"
REFUSES_KEY = "x-rejoinder-refuses"
BUDGET_KEY = "x-rejoinder-budget"
NODE = "rejoinder.node"
VIA = "http"


def needs(
    grant: DoorGrant, *, refuses: tuple[int, ...] = (), budget: Budget | None = None, **openapi: Any
) -> dict[str, Any]:
    """The ``openapi_extra`` of a route: its grant, the statuses that it may refuse with beside those that every door
    has, a public one's budget where it has its own, and what else its entry in the OpenAPI document says."""
    told: dict[str, Any] = {GRANT_KEY: grant, REFUSES_KEY: list(refuses)}
    if budget is not None:
        told[BUDGET_KEY] = {"minute": budget[0], "ten_seconds": budget[1]}
    return told | openapi


async def admit(connection: HTTPConnection, grant: DoorGrant) -> Caller | None:
    """Who calls, once the grant is checked. None at a public door. Raises AuthenticationError, ForbiddenError."""
    if grant == "public":
        return None
    node: Node = connection.scope[NODE]
    caller = await authenticate(connection, node.access)
    check_session_request(connection, caller)
    identity = caller.identity
    if grant == "any":
        return caller
    if grant == "own" or not identity.may(grant) or (grant == "admin" and identity.restricted):
        await _note(connection, node, identity, grant)
        raise ForbiddenError(f"This needs a key with the {grant} grant.")
    return caller


def still_admitted(connection: HTTPConnection, grant: Grant) -> Callable[[], Awaitable[bool]]:
    """For requests that wait: whether their caller would be let in now, with this grant."""
    node: Node = connection.scope[NODE]

    async def admitted() -> bool:
        try:
            caller = await authenticate(connection, node.access)
        except AuthenticationError:
            return False
        except NotReadyError:
            # The database is away: it shows nothing new either.
            return True
        return caller.identity.may(grant)

    return admitted


async def _note(connection: HTTPConnection, node: Node, identity: Identity, grant: str) -> None:
    identifier = connection.scope.get("path_params", {}).get("interaction_id")
    if identifier is not None:
        from rejoinder.doors.parameters import maybe_uuid

        if (found := maybe_uuid(identifier)) is not None:
            await node.asks.note_refusal(found, by=identity, via=VIA, reason=f"no {grant} grant")
            return
    await node.events.add(
        "access.refused",
        actor=identity.name,
        via=VIA,
        reason=f"no {grant} grant",
        detail={"route": route_template(connection.scope)},
    )


def caller_of(connection: HTTPConnection) -> Caller:
    caller: Caller = connection.scope[CALLER]
    return caller


def identity_of(connection: HTTPConnection) -> Identity:
    return caller_of(connection).identity


def unrestricted(connection: HTTPConnection) -> Identity:
    """For doors that show the whole deployment. Raises ForbiddenError for a restricted identity."""
    identity = identity_of(connection)
    if identity.restricted:
        raise ForbiddenError("A restricted key sees only what is addressed to it.")
    return identity


def route_template(scope: Scope) -> str:
    """The path as it is declared, such as ``/api/tool-runs/{run_id}``: never the values in it."""
    path = getattr(scope.get("route"), "path", None)
    if path is None and "endpoint" in scope:
        path = scope["app"].state.templates.get(scope["endpoint"])
    return path if isinstance(path, str) else "unmatched"


def templates(routes: list[BaseRoute]) -> dict[Any, str]:
    """The path of each plain route by its endpoint: FastAPI notes the route in the scope only for its own."""
    return {route.endpoint: route.path for route in routes if isinstance(route, Route)}


class Door(APIRoute):
    """A FastAPI route that lets nobody in before it has looked at anything else of the request."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        _declared((options.get("openapi_extra") or {}).get(GRANT_KEY), path)
        super().__init__(path, endpoint, **options)

    @property
    def grant(self) -> DoorGrant:
        grant: DoorGrant = (self.openapi_extra or {})[GRANT_KEY]
        return grant

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        grant = self.grant

        async def admitted(request: Request) -> Response:
            await admit(request, grant)
            return await handle(request)

        return admitted


class PlainDoor(ABC):
    """A door without FastAPI's cost: for the ones that are called most, and the ones that block."""

    grant: ClassVar[DoorGrant]

    def __init__(self, node: Node) -> None:
        self.node = node

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        caller = await admit(connection, self.grant)
        assert caller is not None
        await self.serve(connection, caller, receive, send)

    @abstractmethod
    async def serve(
        self, connection: HTTPConnection, caller: Caller, receive: Receive, send: Send
    ) -> None: ...


def grant_of(route: BaseRoute) -> DoorGrant:
    """Raises ConfigurationError where the route declares none."""
    path = str(getattr(route, "path", route))
    if isinstance(route, Door):
        return route.grant
    endpoint = getattr(route, "endpoint", None)
    if isinstance(endpoint, PlainDoor):
        return _declared(getattr(endpoint, "grant", None), path)
    return _declared(getattr(route, GRANT, None), path)


def budget_of(route: Route) -> Budget | None:
    """The budget that a public route brings itself."""
    if isinstance(route, Door):
        told = (route.openapi_extra or {}).get(BUDGET_KEY)
        return None if told is None else (told["minute"], told["ten_seconds"])
    budget: Budget | None = getattr(route.endpoint, "budget", None) or getattr(route, BUDGET, None)
    return budget


def _declared(grant: object, path: str) -> DoorGrant:
    if grant not in get_args(DoorGrant):
        raise ConfigurationError(f"the route {path} does not say which grant it takes")
    return grant  # type: ignore[return-value]
