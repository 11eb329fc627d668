"""Reading what a hook, a binding or a link is written from. Every refusal names its field."""

from __future__ import annotations

import json
import re
from typing import Any

from rejoinder.contract.errors import BadInputError
from rejoinder.contract.text import unstorable

#: Names of topics, hooks and links.
MOST_NAME = 120
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*", re.ASCII)
#: Bytes of stored arguments, as JSON.
MOST_KWARGS = 32_768


def is_name(text: str) -> bool:
    return len(text) <= MOST_NAME and _NAME.fullmatch(text) is not None


def name_of(value: object, field: str, most: int = MOST_NAME) -> str:
    if not isinstance(value, str) or len(value) > most or not is_name(value):
        raise BadInputError(
            f"{field} must be 1 to {most} small letters, digits, _ and -, the first of them a letter or a digit",
            field=field,
        )
    return value


def kwargs_of(value: object, field: str = "tool_kwargs") -> dict[str, Any]:
    """Arguments that are stored. Left out, they are none."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadInputError(f"{field} must be an object", field=field)
    if reason := unstorable(value):
        raise BadInputError(f"{field} cannot be stored: {reason}", field=field)
    if len(json.dumps(value, separators=(",", ":")).encode()) > MOST_KWARGS:
        raise BadInputError(f"{field} is over {MOST_KWARGS} bytes", field=field)
    return value


def truth_of(value: object, field: str) -> bool:
    """Left out, it is false."""
    if value is None:
        return False
    if not isinstance(value, bool):
        raise BadInputError(f"{field} must be true or false", field=field)
    return value
