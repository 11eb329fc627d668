"""An event that a topic accepted, as the tool that a hook runs on it may read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

#: The door that a run came through which a hook started.
DOOR = "hooks"


@dataclass(frozen=True, slots=True)
class Delivery:
    """``verifier`` names who vouched for the sender; where it is None anybody may have sent this. ``trigger`` names the
    trigger link that it came through. ``payload`` is the event as it was kept."""

    id: UUID
    topic: str
    verifier: str | None
    trigger: str | None
    payload: Any
