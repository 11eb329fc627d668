"""Which public doors outside ``/api`` stand open: those that an operator pinned.

Doors that anybody may call and that start something are closed on a new deployment. Where access control is off
everything that is public is open, as everything else is.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rejoinder.access.keys import CACHE_SECONDS
from rejoinder.contract.errors import BadInputError, ForbiddenError, RejoinderError
from rejoinder.contract.identity import Identity
from rejoinder.contract.settings import Settings
from rejoinder.store import signals as s
from rejoinder.store.database import Database
from rejoinder.store.events import Events
from rejoinder.store.signals import Signals
from rejoinder.store.sql import sql

_sql = sql("public_routes")

#: The stems of the doors that need a row.
STEMS = ("/universal_webhook", "/trigger")
#: A door of one topic may be opened by itself. A trigger's path ends in a secret, which belongs into no table.
_PATTERN = re.compile(r"/universal_webhook/(\*|[a-z0-9][a-z0-9_-]{0,119})|/trigger/\*")
#: One refusal in so many seconds is noted for each door: whoever knocks at a closed one must not fill the audit trail.
NOTED_SECONDS = 60.0


class NotPublicError(ForbiddenError):
    """This door is not open on this deployment."""

    code = "not-public"


class PublicRouteNotFoundError(RejoinderError):
    """No public route of this pattern is pinned."""

    code = "public-route-not-found"
    status = 404


@dataclass(frozen=True, slots=True)
class PublicRoute:
    pattern: str
    created_at: datetime
    created_by: str

    def as_json(self) -> dict[str, Any]:
        return {
            "pattern": self.pattern,
            "created_at": self.created_at.isoformat(),
            "created_by": self.created_by,
        }


class PublicRoutes:
    def __init__(self, database: Database, events: Events, signals: Signals, settings: Settings) -> None:
        self._db = database
        self._events = events
        self._signals = signals
        self._settings = settings
        self._cached: frozenset[str] = frozenset()
        self._until = 0.0
        self._version = 0
        self._noted: dict[str, float] = {}
        signals.hear(s.PUBLIC, lambda _id: self._forget())

    async def allows(self, path: str) -> bool:
        """Whether a request to this path may come in."""
        if not self._settings.access_control_enable:
            return True
        stem, _, rest = path.lstrip("/").partition("/")
        pinned = await self._pinned()
        return f"/{stem}/*" in pinned or (rest != "" and f"/{stem}/{rest}" in pinned)

    async def check(self, path: str) -> None:
        """Raises NotPublicError, whose body is always the same, where ``path`` is not open. The audit trail names the
        door and never the path, which may hold a secret."""
        if await self.allows(path):
            return
        door = next((stem for stem in STEMS if path.startswith(f"{stem}/")), "other")
        now = time.monotonic()
        if self._noted.get(door, 0.0) <= now:
            self._noted[door] = now + NOTED_SECONDS
            await self._events.add(
                "access.refused", via="http", reason="not public", detail={"route": f"{door}/*"}
            )
        raise NotPublicError()

    async def all(self) -> list[PublicRoute]:
        return [PublicRoute(*row) for row in await self._db.rows(_sql.all)]

    async def pin(self, pattern: object, *, by: Identity) -> PublicRoute:
        """Open what ``pattern`` names; pinned twice is pinned. Raises BadInputError naming ``pattern``, and
        PublicRouteNotFoundError where somebody else unpins it at this moment."""
        chosen = _pattern(pattern)
        await self._db.value(_sql.pin, chosen, by.name)
        self._changed()
        for route in await self.all():
            if route.pattern == chosen:
                return route
        raise PublicRouteNotFoundError(field="pattern")

    async def unpin(self, pattern: object, *, by: Identity) -> None:
        """Raises BadInputError, and PublicRouteNotFoundError where it is not pinned."""
        if await self._db.value(_sql.unpin, _pattern(pattern), by.name) is None:
            raise PublicRouteNotFoundError(field="pattern")
        self._changed()

    async def _pinned(self) -> frozenset[str]:
        # Without the notification connection a change could not reach us: ask every time.
        if self._until > time.monotonic() and self._signals.connected:
            return self._cached
        version = self._version
        found = frozenset(row["pattern"] for row in await self._db.rows(_sql.all))
        # Forgotten meanwhile: what was read may be from before the change.
        if version == self._version:
            self._cached, self._until = found, time.monotonic() + CACHE_SECONDS
        return found

    def _changed(self) -> None:
        self._signals.tell(s.PUBLIC, s.EVENTS)

    def _forget(self) -> None:
        self._version += 1
        self._until = 0.0


def _pattern(value: object) -> str:
    if not isinstance(value, str) or not _PATTERN.fullmatch(value):
        raise BadInputError(
            "pattern must be /universal_webhook/*, /universal_webhook/ and one topic, or /trigger/*",
            field="pattern",
        )
    return value
