"""Tickets: the last part of a callback URL, and the right to answer one question.

A ticket holds 256 random bits and a proof that a key of this deployment's database made it, so that junk is told apart
without a look at any question. That of a question with a verifier also says by itself which verifier that is, sealed:
whoever comes with one is verified before anything is looked up, and nobody without the secret learns whether its
question is open, answered, gone, or was never there.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass

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

# A version, the number of the key, and what the version says follows.
_PLAIN, _SEALED = b"\x01", b"\x02"
_HEAD, _NONCE, _MARK = 3, 12, 8
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

    async def load(self) -> None:
        """Read the keys, and make the first one where there is none."""
        await self._keys.current()

    async def make(self, binding: Binding | None) -> str:
        if binding is not None:
            return await self._seal(_BOUND, _json([binding.verifier, dict(binding.config)]))
        number, key = await self._keys.current()
        body = _PLAIN + number.to_bytes(2, "big") + os.urandom(RANDOM)
        return _text(body + _mark(key, body))

    async def make_canary(self) -> tuple[str, str]:
        """``(ticket, proof)``: a ticket of no question. Only a door with this deployment's key can tell its proof."""
        proof = secrets.token_hex(PROOF)
        return await self._seal(_CANARY, proof.encode()), proof

    async def open(self, ticket: str) -> Opened | None:
        """None for what no key of ours made. Otherwise it does not say that there is a question."""
        raw = _bytes(ticket)
        if raw is None:
            return None
        key = await self._keys.get(int.from_bytes(raw[1:_HEAD], "big"))
        return None if key is None else _opened(ticket, raw, key)

    def knows(self, ticket: str) -> bool:
        """Whether a key of ours made it, as far as this process has read the keys already."""
        raw = _bytes(ticket)
        if raw is None:
            return False
        key = self._keys.known(int.from_bytes(raw[1:_HEAD], "big"))
        return key is not None and _opened(ticket, raw, key) is not None

    async def _seal(self, kind: bytes, said: bytes) -> str:
        number, key = await self._keys.current()
        head = _SEALED + number.to_bytes(2, "big")
        nonce = os.urandom(_NONCE)
        box = ChaCha20Poly1305(key).encrypt(nonce, kind + os.urandom(RANDOM) + said, head)
        return _text(head + nonce + box)


def _opened(ticket: str, raw: bytes, key: bytes) -> Opened | None:
    if raw[:1] == _PLAIN:
        body, mark = raw[:-_MARK], raw[-_MARK:]
        good = len(body) == _HEAD + RANDOM and hmac.compare_digest(mark, _mark(key, body))
        return Opened(digest_of(ticket)) if good else None
    head, nonce, box = raw[:_HEAD], raw[_HEAD : _HEAD + _NONCE], raw[_HEAD + _NONCE :]
    try:
        content = ChaCha20Poly1305(key).decrypt(nonce, box, head)
    except (InvalidTag, ValueError):
        return None
    kind, said = content[:1], content[1 + RANDOM :]
    if kind == _CANARY:
        return Opened(digest_of(ticket), proof=said.decode())
    verifier, config = json.loads(said)
    return Opened(digest_of(ticket), Binding(verifier, config))


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _mark(key: bytes, body: bytes) -> bytes:
    return hmac.new(key, b"plain ticket" + body, hashlib.sha256).digest()[:_MARK]


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(ticket: str) -> bytes | None:
    """The bytes of what has the form of a ticket, in its one spelling."""
    if len(ticket) > LONGEST or not ticket.isascii():
        return None
    try:
        raw = base64.b64decode(ticket + "=" * (-len(ticket) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    shaped = len(raw) > _HEAD + RANDOM and raw[:1] in (_PLAIN, _SEALED)
    return raw if shaped and _text(raw) == ticket else None
