"""A sensitive answer on its way to the blocked caller: sealed to a key that exists only in the caller's process.

The database never holds the answer in the clear, no backup of it can be read, and when the caller's process dies
nobody can open what was stored. X25519 with a fresh key a message, HKDF-SHA256, ChaCha20-Poly1305 with the question's
id as associated data (RFC 7748, RFC 5869, RFC 8439).
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE = bytes(12)  # each message has a key of its own, so a constant nonce is used once


class Opener:
    """The caller's half: ``public`` is stored with the question, ``open`` reads the sealed answer."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()

    def open(self, question_id: UUID, sealed: bytes) -> Any:
        sender, box = sealed[:32], sealed[32:]
        shared = self._private.exchange(X25519PublicKey.from_public_bytes(sender))
        return orjson.loads(_cipher(shared, sender, self.public).decrypt(_NONCE, box, question_id.bytes))


def seal(question_id: UUID, public: bytes, answer: Any) -> bytes:
    """The answerer's half."""
    private = X25519PrivateKey.generate()
    sender = private.public_key().public_bytes_raw()
    shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    return sender + _cipher(shared, sender, public).encrypt(_NONCE, orjson.dumps(answer), question_id.bytes)


def _cipher(shared: bytes, sender: bytes, receiver: bytes) -> ChaCha20Poly1305:
    derive = HKDF(
        algorithm=hashes.SHA256(), length=32, salt=None, info=b"rejoinder sealed answer" + sender + receiver
    )
    return ChaCha20Poly1305(derive.derive(shared))
