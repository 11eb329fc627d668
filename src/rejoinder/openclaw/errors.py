"""What can go wrong with a Gateway, each with a text for the person who can mend it.

No message holds a token, a key or a signature.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Kind = Literal[
    "token",
    "pairing",
    "device",
    "origin",
    "client",
    "scopes",
    "protocol",
    "rate",
    "starting",
    "draining",
    "unreachable",
    "timeout",
    "other",
]
"""Why a connection was refused. `starting`, `draining`, `unreachable`, `timeout` and `rate` pass by themselves;
the others need a person."""

PASSING = frozenset(("starting", "draining", "unreachable", "timeout", "rate"))


class GatewayError(Exception):
    """Any fault of the connection or of a call. `message` is a full sentence, `code` the Gateway's or ours."""

    def __init__(self, message: str, *, code: str = "GATEWAY_ERROR") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Refused(GatewayError):
    """The Gateway did not take the connection.

    kind: why; see `Kind`.
    advice: what to do about it, in full sentences.
    retry_after: seconds the Gateway asks to wait, or None.
    device_id, request_id: of the pairing that waits for an approval, where there is one.
    drop_device_token: the stored device token is of no use any more.
    """

    def __init__(
        self,
        kind: Kind,
        message: str,
        advice: str,
        *,
        code: str = "REFUSED",
        retry_after: float | None = None,
        device_id: str | None = None,
        request_id: str | None = None,
        drop_device_token: bool = False,
    ) -> None:
        super().__init__(message, code=code)
        self.kind = kind
        self.advice = advice
        self.retry_after = retry_after
        self.device_id = device_id
        self.request_id = request_id
        self.drop_device_token = drop_device_token

    @property
    def passing(self) -> bool:
        """Whether trying again may help without anybody doing anything."""
        return self.kind in PASSING

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".strip()


class NotConnected(GatewayError):
    """There is no connection at the moment; nothing was sent."""

    def __init__(self) -> None:
        super().__init__("There is no connection to the Gateway at the moment.", code="NOT_CONNECTED")


class Dropped(GatewayError):
    """The connection broke while a call waited: whether the Gateway did it is unknown."""

    def __init__(self, method: str) -> None:
        super().__init__(f"The connection to the Gateway broke while {method} waited.", code="DROPPED")
        self.method = method


class TimedOut(GatewayError):
    """The Gateway did not answer a call in time: whether it did it is unknown."""

    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(f"The Gateway did not answer {method} within {seconds:g} seconds.", code="TIMED_OUT")
        self.method = method


class CallFailed(GatewayError):
    """The Gateway answered a call with an error.

    code, message: the Gateway's. details: its further words. retryable, retry_after (seconds): its advice.
    """

    def __init__(self, method: str, error: Mapping[str, Any]) -> None:
        message = str(error.get("message") or "The Gateway gave no reason.")
        super().__init__(message, code=str(error.get("code") or "UNKNOWN"))
        self.method = method
        details = error.get("details")
        self.details: Mapping[str, Any] = details if isinstance(details, Mapping) else {}
        self.retryable = error.get("retryable") is True
        self.retry_after = seconds_of(error.get("retryAfterMs"))

    @property
    def restarting(self) -> bool:
        """Whether the Gateway refuses every call because it is about to end; its events still flow."""
        return self.details.get("reason") == "gateway-restarting"


def seconds_of(milliseconds: object) -> float | None:
    """Milliseconds of a frame as seconds, or None if the frame has none."""
    if isinstance(milliseconds, (int, float)) and not isinstance(milliseconds, bool) and milliseconds >= 0:
        return milliseconds / 1000
    return None
