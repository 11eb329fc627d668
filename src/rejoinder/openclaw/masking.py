"""What a recording must not carry out of the house, and what stands there instead.

Masked: values of fields that hold a secret (tokens, passwords, keys, signatures, cookies), the secrets of this very
connection wherever they stand, texts that look like a well-known secret, capability addresses, and the name of the
user in paths of home folders. The same secret always gets the same mask, so that a reading can still tell two apart.
What people and agents wrote stays: it is what the report is about.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

_SECRET_FIELDS = frozenset(
    (
        "token",
        "devicetoken",
        "devicetokens",
        "bootstraptoken",
        "accesstoken",
        "refreshtoken",
        "idtoken",
        "sessiontoken",
        "approvalruntimetoken",
        "agentruntimeidentitytoken",
        "password",
        "passphrase",
        "secret",
        "clientsecret",
        "apikey",
        "authorization",
        "cookie",
        "setcookie",
        "signature",
        "publickey",
        "privatekey",
        "recoveryscope",
        "credential",
        "credentials",
    )
)
#: Home folders by their user, and the state folder of a system service.
_HOME = re.compile(r"(?P<root>/home/|/Users/|[A-Za-z]:(?:\\\\?|/)Users(?:\\\\?|/))[^/\\\s\"'<>:|]+")
_ROOT_HOME = re.compile(r"(?<![\w.~/-])/(?:var/)?root(?=/|$|[\s\"'])")
_CAPABILITY = re.compile(r"(?<=/__openclaw__/cap/)[\w-]+")
_LOOKS_SECRET = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|"
    r"AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}|(?<=Bearer )[\w.~+/-]{12,}=*"
    r")"
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_SHORTEST_KNOWN = 6
_PLURALS = {"capability address": "capability addresses"}


class Mask:
    """Masks frames and counts what it masked, by kind. `known`: secrets that are replaced wherever they stand."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        # A secret that is a common word would tear holes into every text.
        self._known = sorted({one for one in known if len(one) >= _SHORTEST_KNOWN}, key=len, reverse=True)
        self._names: dict[str, str] = {}
        self.counts: Counter[str] = Counter()

    def frame(self, frame: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of a frame that may leave the house."""
        copy = self._value(frame)
        assert isinstance(copy, dict)
        return copy

    def text(self, text: str) -> str:
        """A text that may leave the house."""
        for secret in self._known:
            if secret in text:
                text = text.replace(secret, self._name(secret, "secret"))
        # Cheap questions first: nearly every text of a recording holds none of these.
        if "-----BEGIN" in text:
            text = _PRIVATE_KEY.sub(lambda found: self._name(found[0], "key"), text)
        if "/__openclaw__/cap/" in text:
            text = _CAPABILITY.sub(lambda found: self._name(found[0], "capability address"), text)
        text = _LOOKS_SECRET.sub(lambda found: self._name(found[0], "secret"), text)
        if "ome/" in text or "sers" in text:
            text = _HOME.sub(lambda found: self._counted("home path", f"{found['root']}user"), text)
        if "root" in text:
            text = _ROOT_HOME.sub(lambda found: self._counted("home path", "/home/user"), text)
        return text

    def summary(self) -> list[str]:
        """What was masked, for people: `3 tokens`, ..."""
        return [
            f"{count} {kind if count == 1 else _PLURALS.get(kind, f'{kind}s')}"
            for kind, count in sorted(self.counts.items())
        ]

    def _value(self, value: Any, field: str = "") -> Any:
        if isinstance(value, str):
            return self._secret(value, field) if field else self.text(value)
        if isinstance(value, Mapping):
            return {
                # A map may have secrets or paths for its keys.
                self.text(key): self._value(item, field or _secret_field(key))
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._value(item, field) for item in value]
        return value

    def _secret(self, value: str, field: str) -> str:
        if not value or (value.startswith("<") and value.endswith(">")):
            return value
        return self._name(value, field)

    def _name(self, secret: str, kind: str) -> str:
        self.counts[kind] += 1
        if secret not in self._names:
            self._names[secret] = f"<{kind.replace(' ', '-')}-{len(self._names) + 1}>"
        return self._names[secret]

    def _counted(self, kind: str, text: str) -> str:
        self.counts[kind] += 1
        return text


def _secret_field(name: str) -> str:
    plain = name.lower().replace("_", "").replace("-", "")
    if plain not in _SECRET_FIELDS:
        return ""
    for kind in ("token", "key", "signature", "password"):
        if kind in plain:
            return kind
    return "secret"
