"""A device identity: an Ed25519 key by which the Gateway knows a client again, and signs of it (version 3).

id         sha256 of the raw public key, hex
publicKey  the raw key, base64url without padding; the signature likewise
signed     v3|id|client id|client mode|role|scopes,|ms of the challenge|token|nonce|platform|device family
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from rejoinder.openclaw.errors import GatewayError


class Device:
    """A device's key. `token` is what the Gateway issued to it, or None."""

    def __init__(self, key: Ed25519PrivateKey, *, token: str | None = None, path: Path | None = None) -> None:
        self._key = key
        self._path = path
        self._public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.id = hashlib.sha256(self._public).hexdigest()
        self.token = token

    @classmethod
    def new(cls) -> Device:
        """A new identity that is kept nowhere."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> Device:
        """The identity kept in a file; a new one is made and written (readable by its owner only) if there is none.
        Raises GatewayError if the file cannot be read or written or is no identity.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            device = cls(Ed25519PrivateKey.generate(), path=path)
            device._save()
            return device
        except (OSError, UnicodeDecodeError) as error:
            raise GatewayError(
                f"The device identity in {path} cannot be read.", code="DEVICE_FILE"
            ) from error
        return cls.parse(text, path=path)

    @classmethod
    def parse(cls, text: str, *, path: Path | None = None) -> Device:
        """An identity from its JSON, `{"privateKey": base64url, "deviceToken"?: text}`. Raises GatewayError."""
        try:
            kept = json.loads(text)
            key = Ed25519PrivateKey.from_private_bytes(_decode(kept["privateKey"]))
        except (ValueError, TypeError, KeyError, UnsupportedAlgorithm) as error:
            where = f" in {path}" if path else ""
            raise GatewayError(
                f"The device identity{where} is not one that this program wrote.", code="DEVICE_FILE"
            ) from error
        token = kept.get("deviceToken")
        return cls(key, token=token if isinstance(token, str) and token else None, path=path)

    def dump(self) -> str:
        """The identity as JSON. It is a secret."""
        raw = self._key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        kept = {"deviceId": self.id, "privateKey": _encode(raw)}
        if self.token:
            kept["deviceToken"] = self.token
        return json.dumps(kept)

    def keep_token(self, token: str | None) -> None:
        """Remember the token the Gateway issued, or forget it. The identity itself never changes."""
        if token != self.token:
            self.token = token
            self._save()

    def sign(
        self,
        client: Mapping[str, str],
        *,
        role: str,
        scopes: Sequence[str],
        token: str,
        nonce: str,
        signed_at: int,
    ) -> dict[str, Any]:
        """The block `device` of a connect request. `signed_at`: the challenge's time in ms."""
        text = "|".join(
            (
                "v3",
                self.id,
                client["id"],
                client["mode"],
                role,
                ",".join(scopes),
                str(signed_at),
                token,
                nonce,
                client.get("platform", "").lower(),
                client.get("deviceFamily", "").lower(),
            )
        )
        return {
            "id": self.id,
            "publicKey": _encode(self._public),
            "signature": _encode(self._key.sign(text.encode())),
            "signedAt": signed_at,
            "nonce": nonce,
        }

    def _save(self) -> None:
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Beside the file and then in its place: a crash leaves the old identity or the new one, never half of one.
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(self.dump())
                os.replace(name, self._path)
            except BaseException:
                os.unlink(name)
                raise
        except OSError as error:
            raise GatewayError(
                f"The device identity cannot be written to {self._path}.", code="DEVICE_FILE"
            ) from error


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
