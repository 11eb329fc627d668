"""What a webhook verifier is: it says whether a request really comes from the outside system that it claims to be of.

A binding ``{"verifier": name, "config": {...}}`` is chosen by the author of a tool or by an operator, never by a
model. A config names environment variables that hold secrets and never a secret itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rejoinder.contract.errors import RejoinderError

#: Bytes of a binding's config as JSON: it travels sealed inside the callback URL.
MAX_CONFIG = 1_024
MAX_NAME = 64


class VerificationFailedError(RejoinderError):
    """webhook verification failed"""

    code = "webhook-verification-failed"
    status = 401


class VerifierConfigError(RejoinderError, ValueError):
    """The verifier cannot run as it is configured: a key is wrong, or a secret is missing."""

    code = "verifier-config"


@dataclass(frozen=True, slots=True)
class Binding:
    """Which verifier guards a question or a topic, and with what config."""

    verifier: str
    config: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"verifier": self.verifier, "config": dict(self.config)}


@dataclass(frozen=True, slots=True)
class SeenSetClaim:
    """One delivery counts once: ``key`` is remembered for ``ttl`` seconds (a whole number, at least 1)."""

    key: str
    ttl: int

    def __post_init__(self) -> None:
        if not self.key or isinstance(self.ttl, bool) or not isinstance(self.ttl, int) or self.ttl < 1:
            raise VerifierConfigError("a claim needs a key and a whole number of seconds, at least 1")


@dataclass(frozen=True, slots=True)
class FreshnessWindow:
    """A delivery has no id to be remembered by: a copy of it is refused only once it is ``seconds`` old."""

    seconds: int


ReplayDefense = SeenSetClaim | FreshnessWindow


class Verifier(ABC):
    """One kind of verifier. Make an instance of yours in a module that the manifest names under
    ``webhook_verifier_modules``.

    ``raw`` is the body as it came, ``headers`` maps lower-case names to values. ``post_only``: the body is what is
    signed, so that neither a GET nor a query parameter proves anything.
    """

    name: str
    post_only: bool = True

    def check_config(self, config: Mapping[str, Any]) -> None:
        """Raise VerifierConfigError where ``config`` could never work. Secrets are not looked at here. One that takes
        a config says here which."""
        if config:
            raise VerifierConfigError("this verifier takes no config")

    @abstractmethod
    async def verify(self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]) -> None:
        """Return where the request is genuine. Raise VerificationFailedError where it is not, whatever junk it
        holds; any other exception says that this verifier could not run, and the request is refused too."""

    @abstractmethod
    def replay_defense(
        self, raw: bytes, headers: Mapping[str, str], config: Mapping[str, Any]
    ) -> ReplayDefense:
        """How a second copy of this genuine request is told from the first."""
