"""What a client carries for us from one request to the next: sealed, so that it can neither be read nor changed, bound
to the caller and the call that it was made for, and good until a moment.

Any process opens what another one sealed: the keys are in the database. A key is changed by adding one there with the
next number; see ``rejoinder.store.sealing``.
"""

from __future__ import annotations

import base64
import binascii
import os
import time
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from rejoinder.store.sealing import SealingKeys

PURPOSE = "mcp"
_NONCE = 12
_NUMBER = 4
#: Characters. What we make is far shorter; longer texts are not looked at.
MAX_TEXT = 4_096


class Sealer:
    def __init__(self, keys: SealingKeys) -> None:
        self._keys = keys

    async def seal(self, kind: str, content: dict[str, Any], bound: list[Any], seconds: float) -> str:
        """``content`` as text of URL characters. ``kind`` and ``bound`` are not in it: whoever opens it must know them."""
        number, key = await self._keys.current()
        body = orjson.dumps([int(time.time() + seconds), content])
        nonce = os.urandom(_NONCE)
        sealed = AESGCM(key).encrypt(nonce, body, _context(kind, bound))
        return base64.urlsafe_b64encode(number.to_bytes(_NUMBER) + nonce + sealed).decode().rstrip("=")

    async def open(self, kind: str, text: str, bound: list[Any]) -> dict[str, Any] | None:
        """None where it was changed, is of another kind, caller or call, was sealed with a key that is gone, or is old."""
        if len(text) > MAX_TEXT:
            return None
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        if len(raw) <= _NUMBER + _NONCE:
            return None
        key = await self._keys.get(int.from_bytes(raw[:_NUMBER]))
        if key is None:
            return None
        nonce, sealed = raw[_NUMBER : _NUMBER + _NONCE], raw[_NUMBER + _NONCE :]
        try:
            until, content = orjson.loads(AESGCM(key).decrypt(nonce, sealed, _context(kind, bound)))
        except InvalidTag:
            return None
        return content if until > time.time() else None


def _context(kind: str, bound: list[Any]) -> bytes:
    return orjson.dumps([kind, *bound])
