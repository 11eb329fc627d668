"""``github``: the header X-Hub-Signature-256, ``sha256=<hex>``, over the body.

config: ``secret_env``, ``replay_window_seconds`` (86400). The signature covers the body alone, so a delivery is known
again by its body: X-GitHub-Delivery is not signed and anybody could change it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from rejoinder.contract.verifiers import ReplayDefense, SeenSetClaim, VerificationFailedError, Verifier
from rejoinder.verifiers import config as settings
from rejoinder.verifiers.signatures import any_equal, mac

HEADER = "x-hub-signature-256"
KEYS = frozenset(("secret_env", "replay_window_seconds"))
DAY = 86_400
_SIGNATURE = re.compile(r"sha256=([0-9a-f]{64})", re.ASCII)


class GitHub(Verifier):
    name = "github"

    def check_config(self, config: Mapping[str, Any]) -> None:
        settings.check_keys(config, KEYS)
        settings.secret_names(config)
        settings.seconds(config, "replay_window_seconds", DAY)

    async def verify(self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]) -> None:
        self.check_config(config)
        secrets = settings.secrets_of(config)
        found = _SIGNATURE.fullmatch(headers.get(HEADER, ""))
        if found is None or not any_equal(
            (mac(secret, raw) for secret in secrets), [bytes.fromhex(found[1])]
        ):
            raise VerificationFailedError()

    def replay_defense(
        self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]
    ) -> ReplayDefense:
        window = settings.seconds(config, "replay_window_seconds", DAY)
        return SeenSetClaim(f"{self.name}:{hashlib.sha256(raw).hexdigest()}", window)
