"""Who acts: an identity with grants, taken from an API key, a browser session or a gate that is off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

Grant = Literal["read", "write", "admin"]
GRANTS: tuple[Grant, ...] = ("read", "write", "admin")

#: Who acts on a deployment whose gate is off (loopback only).
NO_AUTH = "system:no-auth"
#: Who answers with a ticket.
OUTSIDE = "external-callback"
#: Who ends a question whose deadline passed.
EXPIRY = "system:expiry"
#: Who withdraws the questions of a process that died, or of a run that ended.
SYSTEM = "system:rejoinder"


@dataclass(frozen=True, slots=True)
class Identity:
    """``name`` is what audience and answered_by hold. A ``restricted`` identity (an owned key) sees and answers
    only what is addressed to it. ``key_id`` is the key that a parked run is later resumed under; it is None
    only where the gate is off."""

    name: str
    grants: frozenset[Grant] = field(default_factory=frozenset)
    key_id: UUID | None = None
    restricted: bool = False

    def may(self, grant: Grant) -> bool:
        return grant in self.grants or "admin" in self.grants

    def may_see(self, audience: str | None) -> bool:
        """Reading: an unrestricted identity sees every question, a restricted one those addressed to it."""
        return not self.restricted or audience == self.name


LOCAL_OWNER = Identity(name=NO_AUTH, grants=frozenset(GRANTS))
