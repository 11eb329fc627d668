"""What the verifiers share whose signature covers the moment at which it was made."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rejoinder.contract.verifiers import Verifier
from rejoinder.verifiers import config as settings
from rejoinder.verifiers.signatures import time_left

KEYS = frozenset(("secret_env", "tolerance_seconds"))
TOLERANCE = 300


class TimedVerifier(Verifier):
    """config: ``secret_env``, ``tolerance_seconds`` (300). ``now`` is seconds since 1970."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def check_config(self, config: Mapping[str, Any]) -> None:
        settings.check_keys(config, KEYS)
        settings.secret_names(config)
        self._tolerance(config)

    def _tolerance(self, config: Mapping[str, Any]) -> int:
        return settings.seconds(config, "tolerance_seconds", TOLERANCE)

    def _left(self, at: int, config: Mapping[str, Any]) -> int:
        """Whole seconds until what was signed at ``at`` is stale, at least 1."""
        return time_left(at, self._tolerance(config), self._now())
