"""What the signing verifiers share: MACs compared in constant time, over bytes."""

from __future__ import annotations

import hashlib
import hmac
import math
import re
from collections.abc import Iterable

from rejoinder.contract.verifiers import VerificationFailedError

_MOMENT = re.compile(r"0|[1-9][0-9]{0,10}", re.ASCII)


def mac(secret: bytes, message: bytes) -> bytes:
    return hmac.new(secret, message, hashlib.sha256).digest()


def any_equal(wanted: Iterable[bytes], given: Iterable[bytes]) -> bool:
    """Whether one of ``given`` is one of ``wanted``. Every pair is compared, so that the time tells nothing."""
    candidates = list(given)
    found = False
    for one in wanted:
        for other in candidates:
            found |= hmac.compare_digest(one, other)
    return found


def on_the_wire(value: str) -> bytes:
    """A header's value as the bytes that came. Servers read them as Latin-1, so nothing else can have come."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        raise VerificationFailedError() from None


def moment(text: str) -> int:
    """Seconds since 1970 as the signer wrote them: one spelling only, because the text is what is signed."""
    if not _MOMENT.fullmatch(text):
        raise VerificationFailedError()
    return int(text)


def time_left(at: int, tolerance: int, now: float) -> int:
    """Whole seconds until a request signed at ``at`` is stale, at least 1."""
    return max(1, math.ceil(at + tolerance - now))
