"""Flood control: every route that declares itself public takes so many requests of one client and no more.

Doors of one path stem are one family and have one budget: requests a minute, and in ten seconds. A client is an address.
Where a door can tell genuine tickets apart without looking anything up, each of them has a budget of its own beside its
client's: who holds one is not locked out by what a neighbour behind the same address does.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b

from limits import RateLimitItem, RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.aio.strategies import FixedWindowRateLimiter
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rejoinder.access.declared import Budget
from rejoinder.contract.errors import ConfigurationError, RejoinderError
from rejoinder.contract.settings import FamilyBudget, Settings
from rejoinder.doors.admission import budget_of, grant_of
from rejoinder.doors.clients import Clients
from rejoinder.doors.windows import Windows
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics
from rejoinder.store.flood import Hits

log = get_logger("flood")

#: The attribute of a public route's endpoint that finds the genuine ticket in a request, or None: ``(scope) -> str | None``.
TICKET = "genuine_ticket"
HOME = "home"
SLOT_SECONDS = 10


class FloodError(RejoinderError):
    """rate limit exceeded"""

    code = "rate-limited"
    status = 429

    def __init__(self, retry_after: int) -> None:
        super().__init__()
        self.retry_after = retry_after


class Flood:
    """The counters of one process' public doors. ``now`` is seconds since 1970."""

    def __init__(self, hits: Hits, settings: Settings, *, now: Callable[[], float] = time.time) -> None:
        self.windows = Windows(hits, now=now)
        self._limiter = FixedWindowRateLimiter(self.windows)
        self._clients = Clients(settings.trusted_proxies, settings.trusted_hops)
        self._settings = settings
        self._now = now

    def protect(self, routes: Iterable[BaseRoute]) -> dict[str, Budget]:
        """Put a limit before each public route. Returns the budget of each family. Raises ConfigurationError where two
        doors of one family bring different ones."""
        public = [route for route in routes if isinstance(route, Route) and grant_of(route) == "public"]
        budgets = self._budgets(public)
        for route in public:
            family = family_of(route.path)
            find = getattr(route.endpoint, TICKET, None)
            route.app = _Limited(route.app, self, family, _items(family, budgets[family]), find)
        return budgets

    async def take(self, items: tuple[RateLimitItem, ...], family: str, bucket: str) -> None:
        """Count one request. Raises FloodError, and counts nothing, where one of the windows is full."""
        # Nothing here gives way to another task between looking and counting: the counters are this process' own.
        full = [item for item in items if not await self._limiter.test(item, bucket)]
        if full:
            ends = [(await self._limiter.get_window_stats(item, bucket)).reset_time for item in full]
            metrics.flooded.labels(family).inc()
            raise FloodError(max(1, math.ceil(max(ends) - self._now())))
        for item in items:
            await self._limiter.hit(item, bucket)

    def client(self, scope: Scope) -> str:
        return self._clients.bucket(scope)

    def _budgets(self, public: list[Route]) -> dict[str, Budget]:
        settings = self._settings
        default = (settings.tai_rate_limit_default_limit, settings.tai_rate_limit_default_burst)
        shipped: dict[str, tuple[Budget, str]] = {}
        for route in public:
            budget = budget_of(route)
            if budget is None:
                continue
            known, other = shipped.setdefault(family_of(route.path), (budget, route.path))
            if known != budget:
                raise ConfigurationError(
                    f"{route.path} and {other} are one family of public doors and bring different budgets"
                )
        budgets = {family_of(route.path): default for route in public}
        budgets |= {family: budget for family, (budget, _) in shipped.items()}
        return _overridden(budgets, settings.tai_rate_limit_families or {})


class _Limited:
    """A public route behind its limit."""

    __slots__ = ("_app", "_family", "_find", "_flood", "_items")

    def __init__(
        self,
        app: ASGIApp,
        flood: Flood,
        family: str,
        items: tuple[RateLimitItem, ...],
        find: Callable[[Scope], str | None] | None,
    ) -> None:
        self._app = app
        self._flood = flood
        self._family = family
        self._items = items
        self._find = find

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        bucket = self._flood.client(scope)
        ticket = self._find(scope) if self._find is not None else None
        if ticket is not None:
            bucket = f"{bucket} {blake2b(ticket.encode(), digest_size=16).hexdigest()}"
        await self._flood.take(self._items, self._family, bucket)
        await self._app(scope, receive, send)


def family_of(path: str) -> str:
    """The stem of a path: its first two fixed parts, without ``api``. ``/api/interactions/callback/{ticket}`` belongs
    to ``interactions_callback``."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"]:
        parts = parts[1:]
    stem = []
    for part in parts[:2]:
        if part.startswith("{"):
            break
        stem.append(re.sub(r"\W", "_", part, flags=re.ASCII).lower())
    return "_".join(stem) or HOME


def _items(family: str, budget: Budget) -> tuple[RateLimitItem, ...]:
    return (
        RateLimitItemPerMinute(budget[0], namespace=family),
        RateLimitItemPerSecond(budget[1], SLOT_SECONDS, namespace=family),
    )


def _overridden(budgets: dict[str, Budget], given: Mapping[str, FamilyBudget]) -> dict[str, Budget]:
    for family, override in given.items():
        if family not in budgets:
            log.warning(
                "TAI_RATE_LIMIT_FAMILIES names a family that no public door here belongs to; it changes nothing",
                family=family[:80],
                families=sorted(budgets),
            )
            continue
        limit, burst = budgets[family]
        budgets[family] = (override.limit or limit, override.burst or burst)
    return budgets
