"""Reading a verifier's config, and the secrets that it names. Both fail closed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from rejoinder.contract.verifiers import VerifierConfigError

_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
MOST_SECRETS = 8
#: A year: longer windows would be kept for nobody.
MAX_SECONDS = 366 * 86_400


def check_keys(config: Mapping[str, Any], known: frozenset[str]) -> None:
    for key in config:
        if key not in known:
            raise VerifierConfigError(
                f"the verifier's config takes {', '.join(sorted(known))}, and no other key; a secret is named by the "
                "environment variable that holds it"
            )


def secret_names(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The environment variables that may hold a good secret: ``secret_env`` is one name or a list of them."""
    given = config.get("secret_env")
    names = [given] if isinstance(given, str) else given
    if (
        not isinstance(names, list | tuple)
        or not 1 <= len(names) <= MOST_SECRETS
        or not all(isinstance(name, str) and _ENV.fullmatch(name) for name in names)
    ):
        raise VerifierConfigError(
            "secret_env must be the name of an environment variable, or a list of such names"
        )
    return tuple(names)


def secrets_of(config: Mapping[str, Any]) -> list[bytes]:
    """Every secret that counts now, so that one can be changed without a moment in which neither is taken: each
    variable's value, and that of the same name with ``_PREVIOUS`` behind it. Raises where none is set."""
    names = secret_names(config)
    found = []
    for name in names:
        for variable in (name, f"{name}_PREVIOUS"):
            value = os.environ.get(variable, "")
            if value.strip():
                found.append(value.encode("utf-8", "surrogateescape"))
    if not found:
        raise VerifierConfigError(f"the environment variable {names[0]} is not set")
    return found


def seconds(config: Mapping[str, Any], key: str, default: int) -> int:
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_SECONDS:
        raise VerifierConfigError(f"{key} must be a whole number of seconds, more than 0")
    return value


def header_name(config: Mapping[str, Any], key: str) -> str:
    """A header's name in lower case."""
    value = config.get(key)
    if not isinstance(value, str) or not _HEADER.fullmatch(value):
        raise VerifierConfigError(f"{key} must be the name of a header")
    return value.lower()
