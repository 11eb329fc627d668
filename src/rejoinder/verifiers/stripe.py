"""``stripe``: the header Stripe-Signature, ``t=<seconds>,v1=<hex>``, over the time and the body.

A request from the future is taken, as Stripe's own library takes it: only its signer can have dated it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rejoinder.contract.verifiers import ReplayDefense, SeenSetClaim, VerificationFailedError
from rejoinder.verifiers import config as settings
from rejoinder.verifiers.signatures import any_equal, mac, moment
from rejoinder.verifiers.timed import TimedVerifier

HEADER = "stripe-signature"
MAX_ID = 255


class Stripe(TimedVerifier):
    name = "stripe"

    async def verify(self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]) -> None:
        self.check_config(config)
        secrets = settings.secrets_of(config)
        at, signatures = _parts(headers.get(HEADER, ""))
        message = b"%d.%b" % (at, raw)
        if not any_equal((mac(secret, message) for secret in secrets), signatures):
            raise VerificationFailedError()
        if at < self._now() - self._tolerance(config):
            raise VerificationFailedError()

    def replay_defense(
        self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]
    ) -> ReplayDefense:
        at, _ = _parts(headers.get(HEADER, ""))
        try:
            event = json.loads(raw)
        except (ValueError, RecursionError):
            raise VerificationFailedError() from None
        identifier = event.get("id") if isinstance(event, dict) else None
        if not isinstance(identifier, str) or not 0 < len(identifier) <= MAX_ID:
            raise VerificationFailedError()
        return SeenSetClaim(f"{self.name}:{identifier}", self._left(at, config))


def _parts(header: str) -> tuple[int, list[bytes]]:
    """The one time and every well-formed signature of the scheme v1; entries of other schemes are passed over."""
    times: list[str] = []
    signatures: list[bytes] = []
    for entry in header.split(","):
        key, _, value = entry.strip(" ").partition("=")
        if key == "t":
            times.append(value)
        elif key == "v1" and len(value) == 64:
            try:
                signatures.append(bytes.fromhex(value))
            except ValueError:
                continue
    if len(times) != 1:
        raise VerificationFailedError()
    return moment(times[0]), signatures
