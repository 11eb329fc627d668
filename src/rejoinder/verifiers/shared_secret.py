"""``shared_secret``: a header holds the secret itself. Whoever reads one request can make others; use it only
between parties that trust the wire and each other.

config: ``header``, ``secret_env``; ``id_header`` names the header that tells one delivery from the next, and
``replay_window_seconds`` how long such an id is remembered (86400).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rejoinder.contract.verifiers import (
    FreshnessWindow,
    ReplayDefense,
    SeenSetClaim,
    VerificationFailedError,
    Verifier,
)
from rejoinder.verifiers import config as settings
from rejoinder.verifiers.signatures import any_equal, on_the_wire

KEYS = frozenset(("header", "secret_env", "id_header", "replay_window_seconds"))
DAY = 86_400
MAX_ID = 200


class SharedSecret(Verifier):
    name = "shared_secret"
    post_only = False

    def check_config(self, config: Mapping[str, Any]) -> None:
        settings.check_keys(config, KEYS)
        settings.header_name(config, "header")
        settings.secret_names(config)
        settings.seconds(config, "replay_window_seconds", DAY)
        if "id_header" in config:
            settings.header_name(config, "id_header")

    async def verify(self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]) -> None:
        self.check_config(config)
        wanted = settings.secrets_of(config)
        given = headers.get(settings.header_name(config, "header"), "")
        if not any_equal(wanted, [on_the_wire(given)]):
            raise VerificationFailedError()

    def replay_defense(
        self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]
    ) -> ReplayDefense:
        window = settings.seconds(config, "replay_window_seconds", DAY)
        if "id_header" not in config:
            return FreshnessWindow(window)
        name = settings.header_name(config, "id_header")
        identifier = headers.get(name, "").strip()
        if not identifier or len(identifier) > MAX_ID:
            raise VerificationFailedError()
        return SeenSetClaim(f"{self.name}:{name}:{identifier}", window)
