"""Tickets: the last part of a callback URL, and the right to answer one question.

A ticket is 256 random bits. That of a question with a verifier also says by itself which verifier that is, sealed with
a key of the database: whoever comes with one is verified before anything is looked up, so that nobody without the
secret learns whether its question is open, answered, gone, or was never there.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from dataclasses import dataclass

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from rejoinder.contract.verifiers import Binding
from rejoinder.store.sealing import SealingKeys

PURPOSE = "ticket"
PATH = "/api/interactions/callback"
#: No ticket of ours is longer, and nothing longer is looked at.
LONGEST = 2_400
RANDOM = 32
PROOF = 16

_PLAIN = 43  # characters of a ticket that says nothing by itself
_VERSION = b"\x01"
_HEAD, _NONCE = 3, 12
_BOUND, _CANARY = b"v", b"c"


@dataclass(frozen=True, slots=True)
class Opened:
    """What a ticket says by itself. ``digest`` is what the store knows it by; ``proof`` is a canary's."""

    digest: bytes
    binding: Binding | None = None
    proof: str | None = None


def digest_of(ticket: str) -> bytes:
    return hashlib.sha256(ticket.encode("utf-8", "surrogatepass")).digest()


class TicketOffice:
    """Makes tickets and opens them."""

    def __init__(self, keys: SealingKeys) -> None:
        self._keys = keys

    async def make(self, binding: Binding | None) -> str:
        if binding is None:
            return secrets.token_urlsafe(RANDOM)
        return await self._seal(_BOUND, orjson.dumps([binding.verifier, dict(binding.config)]))

    async def make_canary(self) -> tuple[str, str]:
        """``(ticket, proof)``: a ticket of no question. Only a door with this deployment's key can tell its proof."""
        proof = secrets.token_hex(PROOF)
        return await self._seal(_CANARY, proof.encode()), proof

    async def open(self, ticket: str) -> Opened | None:
        """None for what cannot be a ticket of ours. It does not say that there is a question."""
        if len(ticket) == _PLAIN:
            return Opened(digest_of(ticket))
        if not _PLAIN < len(ticket) <= LONGEST:
            return None
        content = await self._unseal(ticket)
        if content is None:
            return None
        kind, said = content[:1], content[1 + RANDOM :]
        if kind == _CANARY:
            return Opened(digest_of(ticket), proof=said.decode())
        verifier, config = orjson.loads(said)
        return Opened(digest_of(ticket), Binding(verifier, config))

    async def _seal(self, kind: bytes, said: bytes) -> str:
        number, key = await self._keys.current()
        head = _VERSION + number.to_bytes(2, "big")
        nonce = os.urandom(_NONCE)
        box = ChaCha20Poly1305(key).encrypt(nonce, kind + os.urandom(RANDOM) + said, head)
        return base64.urlsafe_b64encode(head + nonce + box).decode().rstrip("=")

    async def _unseal(self, ticket: str) -> bytes | None:
        try:
            raw = base64.b64decode(ticket + "=" * (-len(ticket) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        head, nonce, box = raw[:_HEAD], raw[_HEAD : _HEAD + _NONCE], raw[_HEAD + _NONCE :]
        if head[:1] != _VERSION or len(box) < RANDOM:
            return None
        key = await self._keys.get(int.from_bytes(head[1:], "big"))
        if key is None:
            return None
        try:
            return ChaCha20Poly1305(key).decrypt(nonce, box, head)
        except InvalidTag:
            return None
