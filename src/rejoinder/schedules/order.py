"""What a caller orders: which tool, with what, and when."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rejoinder.contract.errors import BadInputError
from rejoinder.contract.text import unstorable, unstorable_text
from rejoinder.schedules.cadence import Cadence, cadence_of
from rejoinder.schedules.missed import POLICIES, Missed

#: What an order is read from.
KEYS = frozenset(
    (
        "tool_name",
        "tool_kwargs",
        "cadence",
        "schedule_name",
        "execution_key",
        "missed",
        "start_expr",
        "subject",
    )
)
#: Keys of the same interface that this version does not serve. Passing over one silently would drop what it is for.
NOT_SERVED = ("state_binding", "cancel_expr", "resume_expr", "extras_expr")
MAX_NAME = 160
MAX_SUBJECT = 200


@dataclass(frozen=True, slots=True)
class Order:
    """``given_cadence`` is the cadence as JSON, ``name`` None where the order brings none."""

    tool_name: str
    tool_kwargs: dict[str, Any]
    given_cadence: dict[str, Any] | None
    cadence: Cadence
    name: str | None
    missed: Missed
    start_expr: object
    subject: str | None
    execution_key: object

    def default_name(self) -> str:
        """The tool's name and the first 12 digits of the MD5 of what is run when: of ``{"cadence", "tool_kwargs",
        "tool_name"}`` as JSON with sorted keys and no spaces."""
        told = {
            "cadence": self.given_cadence,
            "tool_kwargs": self.tool_kwargs,
            "tool_name": self.tool_name,
        }
        digest = hashlib.md5(_canonical(told), usedforsecurity=False).hexdigest()
        return f"{self.tool_name}_{digest[:12]}"

    def digest(self, identity: str, key_id: UUID | None) -> bytes:
        """What the whole order comes to, run under this key."""
        told = [
            self.tool_name,
            self.tool_kwargs,
            self.given_cadence,
            self.missed,
            self.start_expr,
            self.subject,
            identity,
            str(key_id),
        ]
        return hashlib.sha256(_canonical(told)).digest()


def order_of(body: Mapping[str, Any]) -> Order:
    """Raises BadInputError naming the part that is wrong. The tool, the key and the expression are not looked at."""
    for key in NOT_SERVED:
        if body.get(key) is not None:
            raise BadInputError(f"{key} is not served by this version; leave it out", field=key)
    tool_name = body.get("tool_name")
    if not isinstance(tool_name, str) or not tool_name or unstorable_text(tool_name):
        raise BadInputError("tool_name must be the name of a tool", field="tool_name")
    kwargs = body.get("tool_kwargs")
    kwargs = {} if kwargs is None else kwargs
    if not isinstance(kwargs, dict):
        raise BadInputError("tool_kwargs must be an object", field="tool_kwargs")
    if reason := unstorable(kwargs):
        raise BadInputError(f"tool_kwargs cannot be stored: {reason}", field="tool_kwargs")
    given = body.get("cadence")
    missed = body.get("missed", "once")
    if missed not in POLICIES:
        raise BadInputError(f"missed must be one of {', '.join(POLICIES)}", field="missed")
    return Order(
        tool_name=tool_name,
        tool_kwargs=kwargs,
        given_cadence=given,
        cadence=cadence_of(given),
        name=_words(body.get("schedule_name"), "schedule_name", MAX_NAME),
        missed=missed,
        start_expr=body.get("start_expr"),
        subject=subject_of(body.get("subject")),
        execution_key=body.get("execution_key"),
    )


def subject_of(value: object) -> str | None:
    """What a run is about, in its starter's words. Raises BadInputError naming ``subject``."""
    return _words(value, "subject", MAX_SUBJECT)


def _words(value: object, field: str, most: int) -> str | None:
    if value is None:
        return None
    if (
        not isinstance(value, str)
        or value != value.strip()
        or not 1 <= len(value) <= most
        or not value.isprintable()
        or unstorable_text(value)
        or (field == "schedule_name" and "/" in value)
    ):
        slash = ", none of them /" if field == "schedule_name" else ""
        raise BadInputError(
            f"{field} must be text of 1 to {most} printable characters{slash}, without space around it",
            field=field,
        )
    return value


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
