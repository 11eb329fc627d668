"""``standard_webhooks``: the headers webhook-id, webhook-timestamp and webhook-signature, as standardwebhooks.com
describes them, with symmetric keys (v1).

The tolerance counts into the past and into the future. A secret is base64, with or without ``whsec_`` before it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from rejoinder.contract.verifiers import (
    ReplayDefense,
    SeenSetClaim,
    VerificationFailedError,
    VerifierConfigError,
)
from rejoinder.verifiers import config as settings
from rejoinder.verifiers.signatures import any_equal, mac, moment, on_the_wire
from rejoinder.verifiers.timed import TimedVerifier

ID, TIME, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
PREFIX = b"whsec_"
MAX_ID = 255


class StandardWebhooks(TimedVerifier):
    name = "standard_webhooks"

    async def verify(self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]) -> None:
        self.check_config(config)
        keys = [_key(secret) for secret in settings.secrets_of(config)]
        identifier, at = _identifier(headers), moment(headers.get(TIME, ""))
        message = b"%b.%d.%b" % (on_the_wire(identifier), at, raw)
        if not any_equal((mac(key, message) for key in keys), _signatures(headers.get(SIGNATURE, ""))):
            raise VerificationFailedError()
        if abs(self._now() - at) > self._tolerance(config):
            raise VerificationFailedError()

    def replay_defense(
        self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]
    ) -> ReplayDefense:
        left = self._left(moment(headers.get(TIME, "")), config)
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
