"""``stripe``: the header Stripe-Signature, ``t=<seconds>,v1=<hex>``, over the time and the body.

config: ``secret_env``, ``tolerance_seconds`` (300). A request from the future is taken, as Stripe's own library takes
it: only its signer can have dated it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from rejoinder.contract.verifiers import ReplayDefense, SeenSetClaim, VerificationFailedError, Verifier
from rejoinder.verifiers import config as settings
from rejoinder.verifiers.signatures import any_equal, mac, moment, time_left

HEADER = "stripe-signature"
KEYS = frozenset(("secret_env", "tolerance_seconds"))
TOLERANCE = 300
MAX_ID = 255


class Stripe(Verifier):
    name = "stripe"

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def check_config(self, config: Mapping[str, Any]) -> None:
        settings.check_keys(config, KEYS)
        settings.secret_names(config)
        settings.seconds(config, "tolerance_seconds", TOLERANCE)

    async def verify(self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]) -> None:
        self.check_config(config)
        secrets = settings.secrets_of(config)
        at, signatures = _parts(headers.get(HEADER, ""))
        message = b"%d.%b" % (at, raw)
        if not any_equal((mac(secret, message) for secret in secrets), signatures):
            raise VerificationFailedError()
        if at < self._now() - settings.seconds(config, "tolerance_seconds", TOLERANCE):
            raise VerificationFailedError()

    def replay_defense(
        self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]
    ) -> ReplayDefense:
        at, _ = _parts(headers.get(HEADER, ""))
        tolerance = settings.seconds(config, "tolerance_seconds", TOLERANCE)
        try:
            event = json.loads(raw)
        except (ValueError, RecursionError):
            raise VerificationFailedError() from None
        identifier = event.get("id") if isinstance(event, dict) else None
        if not isinstance(identifier, str) or not 0 < len(identifier) <= MAX_ID:
            raise VerificationFailedError()
        return SeenSetClaim(f"{self.name}:{identifier}", time_left(at, tolerance, self._now()))


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
