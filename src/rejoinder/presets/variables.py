"""References of fixed arguments to the environment: ``"!ENV ${PAYMENTS_URL}/return"``.

A preset is written by whoever has the write grant, and what it fixes reaches a tool that may show it. So a preset may
refer only to the variables that the deployment names for it (``REJOINDER_PRESET_VARIABLES``). What is stored and shown
is the reference; it is replaced on the way into a call and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

MARK = "!ENV "
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class VariableFault(Exception):
    """``path`` is where in the fixed arguments, such as ``headers.token``; ``reason`` is a sentence."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


def check(fixed: Mapping[str, Any], allowed: Collection[str], environment: Mapping[str, str]) -> None:
    """Raises VariableFault for the first reference that cannot be followed here."""
    resolved(fixed, allowed, environment)


def resolved(
    fixed: Mapping[str, Any], allowed: Collection[str], environment: Mapping[str, str]
) -> dict[str, Any]:
    """The fixed arguments with their references followed. Raises VariableFault."""

    def follow(path: str, text: str) -> str:
        rest = text.removeprefix(MARK).strip()
        if _REFERENCE.search(rest) is None:
            raise VariableFault(path, f"{MARK.strip()} needs a reference, such as {MARK}${{NAME}}")
        return _REFERENCE.sub(lambda found: _value(path, found[1], allowed, environment), rest)

    return {name: _walk(name, value, follow) for name, value in fixed.items()}


def _value(path: str, name: str, allowed: Collection[str], environment: Mapping[str, str]) -> str:
    if _VARIABLE.fullmatch(name) is None:
        raise VariableFault(path, "a reference must be the name of a variable, such as ${NAME}")
    if name not in allowed:
        raise VariableFault(
            path,
            f"the variable {name} is not among those that presets may refer to (REJOINDER_PRESET_VARIABLES)",
        )
    found = environment.get(name)
    if not found:
        raise VariableFault(path, f"the variable {name} is not set")
    return found


def _walk(path: str, value: Any, follow: Callable[[str, str], str]) -> Any:
    if isinstance(value, str):
        return follow(path, value) if value.startswith(MARK) else value
    if isinstance(value, dict):
        return {name: _walk(f"{path}.{name}", one, follow) for name, one in value.items()}
    if isinstance(value, list):
        return [_walk(f"{path}.{i}", one, follow) for i, one in enumerate(value)]
    return value
