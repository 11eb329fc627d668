"""Frames as the rules expect them: a field whose value is of another kind than the protocol says is left out.

The Gateway keeps to its protocol; a recording that somebody edited, or a release that changes a field, may not. A
field that is not understood is then as good as missing, and everything else of the frame still counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXTS = (
    "delta deltaText errorMessage idempotencyKey id itemId key kind lastRunError lastRunId name phase progressText "
    "reason role runId sessionId sessionKey sourceTool state status steerTargetRunId stopReason stream text thinking "
    "toolCallId toolName type"
)
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(_TEXTS.split(), str),
    **dict.fromkeys(("data", "list", "message", "__openclaw", "provenance", "openclawAutomation"), Mapping),
    **dict.fromkeys(("activeRunIds", "events", "messages", "sessions"), list),
    "content": (str, list),
    "seq": (int, float),
}
#: Where fields of the protocol are found again. What tools were given and returned is theirs.
_WITHIN = frozenset(("data", "list", "message", "__openclaw", "provenance", "openclawAutomation"))
_LISTS = frozenset(("content", "events", "messages", "sessions"))


def conformed(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload without what the protocol does not allow. The very same object if there is nothing of that kind."""
    changed: dict[str, Any] | None = None
    for field, value in payload.items():
        if value is None:
            continue
        kept = _kept(field, value)
        if kept is not value:
            changed = dict(payload) if changed is None else changed
            if kept is None:
                del changed[field]
            else:
                changed[field] = kept
    return payload if changed is None else changed


def _kept(field: str, value: Any) -> Any:
    if not _fits(field, value):
        return None
    if field in _WITHIN:
        return conformed(value)
    if field in _LISTS and isinstance(value, list):
        items = [conformed(item) for item in value if isinstance(item, Mapping)]
        same = len(items) == len(value) and all(map(_is, items, value))
        return value if same else items
    if field == "activeRunIds":
        return (
            value
            if all(isinstance(one, str) for one in value)
            else [one for one in value if isinstance(one, str)]
        )
    return value


def _fits(field: str, value: object) -> bool:
    expected = _KINDS.get(field)
    return expected is None or isinstance(value, expected)


def _is(one: object, other: object) -> bool:
    return one is other
