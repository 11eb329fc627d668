"""The verifiers that a deployment knows, by name, and the one routine that every door verifies with."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from rejoinder.contract.errors import AskArgumentError, ConfigurationError, RejoinderError
from rejoinder.contract.text import unstorable
from rejoinder.contract.verifiers import (
    MAX_CONFIG,
    MAX_NAME,
    Binding,
    FreshnessWindow,
    SeenSetClaim,
    VerificationFailedError,
    Verifier,
    VerifierConfigError,
)
from rejoinder.observe.logs import get_logger
from rejoinder.verifiers.github import GitHub
from rejoinder.verifiers.shared_secret import SharedSecret
from rejoinder.verifiers.standard_webhooks import StandardWebhooks
from rejoinder.verifiers.stripe import Stripe

log = get_logger("verifiers")

#: Seconds. A verifier that takes longer could not run.
PATIENCE = 10.0
#: What ends the request or the process, and says nothing of the verifier. Not SystemExit: nobody who posts to a door may
#: end the server by way of a library that exits.
ENDS = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)
_NAME = re.compile(r"[a-z][a-z0-9_-]*", re.ASCII)
_BINDING_KEYS = frozenset(("verifier", "config"))


class VerificationError(RejoinderError):
    """webhook verification error"""

    code = "webhook-verification-error"


class Verifiers:
    """The built-in ones, and those of the manifest's modules."""

    def __init__(self, more: Iterable[Verifier] = ()) -> None:
        self._by_name: dict[str, Verifier] = {}
        for one in (SharedSecret(), Stripe(), GitHub(), StandardWebhooks(), *more):
            self.add(one)

    def add(self, verifier: Verifier) -> None:
        """Raises ConfigurationError for a name that is taken or cannot be one."""
        name = getattr(verifier, "name", None)
        if not isinstance(name, str) or len(name) > MAX_NAME or not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"a webhook verifier needs a name of small letters, digits, _ and -, at most {MAX_NAME}"
            )
        known = self._by_name.get(name)
        if known is not None and known is not verifier:
            raise ConfigurationError(f"there are two webhook verifiers named {name}")
        self._by_name[name] = verifier

    def names(self) -> list[str]:
        return sorted(self._by_name)

    def get(self, name: str) -> Verifier | None:
        return self._by_name.get(name)

    def bind(self, value: object, *, field: str = "verifier") -> Binding:
        """The binding that ``value`` describes. Raises AskArgumentError naming ``field``."""
        binding = binding_of(value, field=field)
        verifier = self._by_name.get(binding.verifier)
        if verifier is None:
            raise AskArgumentError(
                f"no webhook verifier of this name is known; known are {', '.join(self.names())}", field=field
            )
        try:
            verifier.check_config(binding.config)
        except VerifierConfigError as error:
            raise AskArgumentError(error.message, field=field) from None
        except SystemExit as error:
            raise _broken(binding, error) from None
        return binding

    async def verify(self, binding: Binding, raw: bytes, headers: Mapping[str, str]) -> None:
        """Raises VerificationFailedError (the request is not genuine) or VerificationError (nothing could be
        decided; the log has why). What came is in neither, nor in the log."""
        verifier = self._known(binding)
        try:
            async with asyncio.timeout(PATIENCE):
                verdict: object = await verifier.verify(raw, headers, binding.config)  # type: ignore[func-returns-value]
        except VerificationFailedError:
            raise VerificationFailedError() from None
        except ENDS:
            raise
        except BaseException as error:
            # Also what is no Exception, such as the panic of a library that is written in Rust.
            raise _broken(binding, error) from None
        if verdict is False:
            raise VerificationFailedError()
        if verdict is not None and verdict is not True:
            raise _broken(binding, TypeError("verify returned a value"))

    def claim(self, binding: Binding, raw: bytes, headers: Mapping[str, str]) -> SeenSetClaim | None:
        """What makes this genuine request count once, or None where only its age does. Raises as ``verify``."""
        verifier = self._known(binding)
        try:
            defense: object = verifier.replay_defense(raw, headers, binding.config)
        except VerificationFailedError:
            raise VerificationFailedError() from None
        except ENDS:
            raise
        except BaseException as error:
            # Also what is no Exception, such as the panic of a library that is written in Rust.
            raise _broken(binding, error) from None
        if isinstance(defense, SeenSetClaim):
            return defense
        if not isinstance(defense, FreshnessWindow):
            # Such as what an async function returns. Taken for no claim, it would let every copy count.
            raise _broken(
                binding,
                VerifierConfigError("replay_defense must return a SeenSetClaim or a FreshnessWindow"),
            )
        return None

    def _known(self, binding: Binding) -> Verifier:
        verifier = self._by_name.get(binding.verifier)
        if verifier is None:
            raise _broken(binding, VerifierConfigError("no verifier of this name is known to this process"))
        return verifier


def binding_of(value: object, *, field: str = "verifier") -> Binding:
    """A binding by its form alone. Raises AskArgumentError naming ``field``."""
    if isinstance(value, Binding):
        value = value.as_json()
    if not isinstance(value, Mapping) or set(value) - _BINDING_KEYS:
        raise AskArgumentError(f"{field} must be an object with the keys verifier and config", field=field)
    name, config = value.get("verifier"), value.get("config", {})
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME:
        raise AskArgumentError(f"{field}.verifier must be the name of a webhook verifier", field=field)
    if not isinstance(config, Mapping) or unstorable(dict(config)):
        raise AskArgumentError(f"{field}.config must be an object of JSON values", field=field)
    plain: dict[str, Any] = dict(config)
    if len(json.dumps(plain, separators=(",", ":")).encode()) > MAX_CONFIG:
        raise AskArgumentError(f"{field}.config is over {MAX_CONFIG} bytes", field=field)
    return Binding(name, plain)


def _broken(binding: Binding, error: BaseException) -> VerificationError:
    # The text of another's exception may hold what came; that of ours says which variable is missing.
    reason = error.message if isinstance(error, VerifierConfigError) else type(error).__name__
    log.error("a webhook verifier could not run", verifier=binding.verifier, reason=reason)
    return VerificationError()
