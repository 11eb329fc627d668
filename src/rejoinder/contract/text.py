"""What text and JSON may be stored: Postgres takes no NUL and no lone surrogate, and nesting is bounded."""

from __future__ import annotations

import math
from typing import Any

MAX_DEPTH = 64


def unstorable(value: Any) -> str | None:
    """Why this JSON value cannot be stored, or None.

    Walks without recursion, so that a value nested thousands deep is refused instead of overflowing the stack.
    """
    if type(value) is dict and _is_plain(value):
        return None
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_DEPTH:
            return f"it is nested more than {MAX_DEPTH} levels deep"
        if isinstance(item, str):
            if reason := unstorable_text(item):
                return reason
        elif isinstance(item, bool) or item is None:
            continue
        elif isinstance(item, float):
            if not math.isfinite(item):
                return "it holds a number that is not finite"
        elif isinstance(item, int):
            if abs(item) >= 10**400:
                return "it holds a number that is too large"
        elif isinstance(item, dict):
            for key, inner in item.items():
                if not isinstance(key, str):
                    return "it holds a key that is not text"
                if reason := unstorable_text(key):
                    return reason
                stack.append((inner, depth + 1))
        elif isinstance(item, list | tuple):
            stack.extend((inner, depth + 1) for inner in item)
        else:
            return "it holds a value that is not JSON"
    return None


def _is_plain(value: dict[Any, Any]) -> bool:
    """The quick answer for what most answers are: named ASCII texts, yes or no, small whole numbers, lists of texts."""
    for key, item in value.items():
        if type(key) is not str or not key.isascii() or "\x00" in key:
            return False
        kind = type(item)
        if kind is str:
            if not item.isascii() or "\x00" in item:
                return False
        elif kind is list:
            for one in item:
                if type(one) is not str or not one.isascii() or "\x00" in one:
                    return False
        elif kind is int:
            if not -(10**18) < item < 10**18:
                return False
        elif kind is not bool and item is not None:
            return False
    return True


def unstorable_text(text: str) -> str | None:
    if "\x00" in text:
        return "it holds a NUL character"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "it holds a lone surrogate"
    return None


def storable_text(text: str, cap: int) -> str:
    """Text made storable: NUL and lone surrogates are shown as U+FFFD, what is over ``cap`` characters is cut."""
    clean = text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return clean if len(clean) <= cap else clean[: cap - 1] + "…"
