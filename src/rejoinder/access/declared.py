"""How a plain route says who may come in, where FastAPI's own routes say it in their OpenAPI entry.

A route that says nothing is refused when the application is built.
"""

from __future__ import annotations

from typing import Any, Literal

from starlette.routing import Route

#: The attribute of a route that holds its word.
GRANT = "rejoinder_grant"
#: The attribute of a public route that holds its Budget, where it has one of its own.
BUDGET = "rejoinder_budget"

#: ``(requests a minute, requests in ten seconds)`` of one client.
Budget = tuple[int, int]


def keeps_own_gate(route: Route) -> Route:
    """A route whose own code lets callers in or not: a page behind the sign-in, the MCP door."""
    return _said(route, "own", None)


def open_to_all(route: Route, budget: Budget | None = None) -> Route:
    """A route that anybody may call, as often as ``budget`` says, or the one that all public doors have."""
    return _said(route, "public", budget)


def _said(route: Route, grant: Literal["own", "public"], budget: Budget | None) -> Route:
    marks: dict[str, Any] = {GRANT: grant, BUDGET: budget}
    for name, value in marks.items():
        setattr(route, name, value)
    return route
