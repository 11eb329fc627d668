"""A call of a tool that a person is to approve: what they are shown, and the digest that binds their word to it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, Literal, TypedDict

#: The ``answer_format`` of these questions. ``ask`` does not take it: only a call of a tool is approved.
APPROVAL: Final = "approval"
Decision = Literal["approve", "deny"]

#: Characters of the arguments as they are shown. More nobody reads, so more is not asked for.
MAX_SHOWN = 200_000
#: More than this is folded at first: it must be opened whole before it can be approved.
READABLE = 4_000
MAX_REASON = 2_000
#: The door of MCP clients and that of a run's own tools: a model's way in, where nobody approves its own calls.
MODEL_DOORS = frozenset(("mcp", "tool"))


class ApprovalPayload(TypedDict):
    """The question's ``format_payload``. ``arguments`` are whole, with the defaults of those left out; ``schema`` is what
    edited ones must fit; ``digest`` covers ``tool``, ``arguments`` and the question's media, in hexadecimal."""

    tool: str
    title: str | None
    description: str
    destructive: bool
    arguments: dict[str, Any]
    schema: dict[str, Any]
    digest: str


def call_digest(tool: str, arguments: dict[str, Any], media: list[dict[str, Any]] | None = None) -> str:
    """SHA-256 of the canonical JSON of a call. What it says about itself (title, description) is not in it."""
    text = json.dumps(
        [tool, arguments, media or []],
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )
    return hashlib.sha256(text.encode()).hexdigest()


def as_shown(arguments: dict[str, Any]) -> str:
    """The arguments as every surface shows them: JSON, in the order given."""
    return json.dumps(arguments, ensure_ascii=False, indent=2)
