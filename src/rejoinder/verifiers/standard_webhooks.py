"""``standard_webhooks``: the headers webhook-id, webhook-timestamp and webhook-signature, as standardwebhooks.com
describes them, with symmetric keys (v1).

config: ``secret_env``, ``tolerance_seconds`` (300), which counts into the past and into the future. A secret is
base64, with or without ``whsec_`` before it.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Mapping
from typing import Any

from rejoinder.contract.verifiers import (
    ReplayDefense,
    SeenSetClaim,
    VerificationFailedError,
    Verifier,
    VerifierConfigError,
)
from rejoinder.verifiers import config as settings
from rejoinder.verifiers.signatures import any_equal, mac, moment, on_the_wire, time_left

ID, TIME, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
KEYS = frozenset(("secret_env", "tolerance_seconds"))
TOLERANCE = 300
PREFIX = b"whsec_"
MAX_ID = 255


class StandardWebhooks(Verifier):
    name = "standard_webhooks"

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def check_config(self, config: Mapping[str, Any]) -> None:
        settings.check_keys(config, KEYS)
        settings.secret_names(config)
        settings.seconds(config, "tolerance_seconds", TOLERANCE)

    async def verify(self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]) -> None:
        self.check_config(config)
        keys = [_key(secret) for secret in settings.secrets_of(config)]
        identifier, at = _identifier(headers), moment(headers.get(TIME, ""))
        message = b"%b.%d.%b" % (on_the_wire(identifier), at, raw)
        if not any_equal((mac(key, message) for key in keys), _signatures(headers.get(SIGNATURE, ""))):
            raise VerificationFailedError()
        if abs(self._now() - at) > settings.seconds(config, "tolerance_seconds", TOLERANCE):
            raise VerificationFailedError()

    def replay_defense(
        self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]
    ) -> ReplayDefense:
        tolerance = settings.seconds(config, "tolerance_seconds", TOLERANCE)
        left = time_left(moment(headers.get(TIME, "")), tolerance, self._now())
        return SeenSetClaim(f"{self.name}:{_identifier(headers)}", left)


def _identifier(headers: Mapping[str, str]) -> str:
    identifier = headers.get(ID, "")
    if not 0 < len(identifier) <= MAX_ID:
        raise VerificationFailedError()
    return identifier


def _key(secret: bytes) -> bytes:
    try:
        return base64.b64decode(secret.strip().removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise VerifierConfigError("the secret is not base64, as standard webhooks have it") from None


def _signatures(header: str) -> list[bytes]:
    """Every well-formed signature of the scheme v1; those of other schemes are passed over."""
    found = []
    for entry in header.split(" "):
        scheme, _, value = entry.partition(",")
        if scheme != "v1":
            continue
        try:
            found.append(base64.b64decode(value, validate=True))
        except (binascii.Error, ValueError):
            continue
    return found
