"""What a Gateway's refusals mean, for the person who set it up and can mend it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rejoinder.openclaw.errors import Kind, Refused, seconds_of
from rejoinder.openclaw.frames import PROTOCOL, Payload, mapping
from rejoinder.openclaw.handshake import Access


def refusal(error: Payload, access: Access) -> Refused:
    """What an error response to `connect` means."""
    code = str(error.get("code") or "UNKNOWN")
    details = mapping(error.get("details"))
    detail = str(details.get("code") or "")
    said = str(error.get("message") or "").strip()
    lower = said.lower()
    after = seconds_of(error.get("retryAfterMs"))
    if code == "UNAVAILABLE":
        if details.get("reason") == "gateway-restarting":
            return _draining(after)
        return Refused(
            "starting",
            "The Gateway is still starting.",
            "It is tried again by itself.",
            code=code,
            retry_after=after if after is not None else 0.5,
        )
    if code == "NOT_PAIRED" or detail == "PAIRING_REQUIRED" or "pairing required" in lower:
        return _pairing(details, access)
    if detail == "AUTH_RATE_LIMITED":
        return Refused(
            "rate",
            "The Gateway refuses this address for a while, after too many wrong tokens.",
            "Correct the token; it is tried again by itself.",
            code=detail,
            retry_after=after,
        )
    if detail.startswith("AUTH_DEVICE_TOKEN"):
        return Refused(
            "token",
            "The Gateway does not accept this device's own token any more.",
            "It is dropped and the device stays known: give the Gateway's shared token, or approve the device anew "
            "with `openclaw devices list` and `openclaw devices approve <request>`.",
            code=detail,
            device_id=access.device.id if access.device else None,
            drop_device_token=True,
        )
    if detail.startswith("AUTH_") or code == "UNAUTHORIZED" or lower.startswith("unauthorized"):
        return _token(detail or code, access)
    if "DEVICE_IDENTITY_REQUIRED" in detail:
        return Refused(
            "device",
            "The Gateway wants a device identity from clients that do not run on its own machine.",
            "Set a folder for the device identity, or connect over the machine's own address (127.0.0.1).",
            code=detail,
        )
    if detail.startswith("DEVICE_AUTH"):
        return Refused(
            "device",
            "The Gateway does not accept the signature of this device.",
            "Compare the clocks of the two machines; if they agree, remove the device identity's file and approve "
            "the new device.",
            code=detail,
            device_id=access.device.id if access.device else None,
        )
    return _rest(code, detail, said, lower, access, after)


def _rest(code: str, detail: str, said: str, lower: str, access: Access, after: float | None) -> Refused:
    if "ORIGIN_NOT_ALLOWED" in detail or "origin not allowed" in lower:
        return Refused(
            "origin",
            "The Gateway does not serve this origin.",
            "Add it to gateway.controlUi.allowedOrigins in the Gateway's configuration.",
            code=detail or code,
        )
    if "/client/id" in lower or "/client/mode" in lower:
        return Refused(
            "client",
            f"The Gateway does not know a client named {access.client_id}/{access.mode}.",
            "Connect as gateway-client/backend, which every supported Gateway knows.",
            code=code,
        )
    if "protocol" in lower:
        return Refused(
            "protocol",
            f"The Gateway does not speak protocol {PROTOCOL}.",
            "Update OpenClaw to 2026.9.3 or newer.",
            code=code,
        )
    if "scope" in lower:
        return Refused(
            "scopes",
            "The Gateway does not grant the scopes that are asked for.",
            "Approve this device with them: run `openclaw devices list`, then `openclaw devices approve <request>`.",
            code=detail or code,
        )
    return Refused(
        "other",
        f"The Gateway refused the connection: {said or code}.".replace("..", "."),
        "Its log says more.",
        code=detail or code,
        retry_after=after,
    )


def _token(code: str, access: Access) -> Refused:
    if code.startswith("AUTH_PASSWORD") or (access.password and not access.token):
        secret, key = "password", "gateway.auth.password"
    else:
        secret, key = "token", "gateway.auth.token"
    # A device's own token was what was sent; it is of no use, while the device itself stays known.
    own = not access.token and not access.password and access.device is not None and bool(access.device.token)
    if code.endswith("_NOT_CONFIGURED"):
        text = f"The Gateway has no {secret} set, so nobody can connect with one."
        advice = f"Set {key} in the Gateway's configuration and give the same value here."
    elif code.endswith("_MISSING") or (not access.token and not access.password and not own):
        text = f"The Gateway wants a {secret} and none was given."
        advice = f"Give the value of {key} from the Gateway's configuration."
    elif own:
        text = "The Gateway does not accept this device's own token any more."
        advice = f"It is dropped and the device stays known: give the value of {key} from the Gateway's configuration."
    else:
        text = f"The Gateway does not accept this {secret}."
        advice = f"Compare it with {key} in the Gateway's configuration."
    return Refused(
        "token",
        text,
        advice,
        code=code,
        device_id=access.device.id if access.device else None,
        drop_device_token=own,
    )


_PAIRING = {
    "scope-upgrade": "The Gateway knows this device, but with fewer scopes than are asked for now.",
    "role-upgrade": "The Gateway knows this device, but in another role.",
    "metadata-upgrade": "The Gateway knows this device, but something about it changed.",
}


def _pairing(details: Mapping[str, Any], access: Access) -> Refused:
    device = access.device.id if access.device else str(details.get("deviceId") or "") or None
    request = details.get("requestId")
    request_id = request if isinstance(request, str) and request else None
    what = _PAIRING.get(str(details.get("reason")), "The Gateway does not know this device yet.")
    return Refused(
        "pairing",
        what,
        "On the Gateway's machine run `openclaw devices list`, find the device "
        f"{device or 'in the list'}, and run `openclaw devices approve {request_id or '<request>'}`.",
        code="PAIRING_REQUIRED",
        device_id=device,
        request_id=request_id,
    )


def _draining(after: float | None) -> Refused:
    return Refused(
        "draining",
        "The Gateway finishes its running turns and then restarts.",
        "It is tried again by itself.",
        code="UNAVAILABLE",
        retry_after=after,
    )


def refused_status(status: int, access: Access) -> Refused:
    """What an HTTP answer means where a WebSocket was expected. 503: the Gateway drains."""
    if status == 503:
        return _draining(None)
    if status in (401, 403):
        kind: Kind = "token"
        advice = "Something in front of the Gateway asks for a login of its own."
    else:
        kind = "other"
        advice = "Compare the address with the Gateway's own (gateway.port in its configuration)."
    return Refused(kind, f"{access.url} answered with HTTP {status}.", advice, code=f"HTTP_{status}")


def unreachable(access: Access, reason: str) -> Refused:
    """Nobody answers at the address."""
    return Refused(
        "unreachable",
        f"No Gateway answers at {access.url} ({reason}).",
        "See that it runs (`openclaw gateway status`) and that the address is right. It is tried again by itself.",
        code="UNREACHABLE",
    )
