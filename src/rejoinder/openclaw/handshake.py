"""The handshake: what is said to the Gateway, and what it says of itself.

The Gateway speaks first (`connect.challenge`), the client sends `connect`, the Gateway answers `hello-ok` or an error
and closes. On the machine of the Gateway itself the client `gateway-client`/`backend` with the shared token needs no
device; from elsewhere the Gateway wants a device that somebody approved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rejoinder.openclaw.device import Device
from rejoinder.openclaw.errors import GatewayError, Refused
from rejoinder.openclaw.frames import PROTOCOL, Payload, mapping

READ, WRITE, ADMIN = "operator.read", "operator.write", "operator.admin"
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


@dataclass(frozen=True, slots=True)
class Access:
    """Where the Gateway is and who calls.

    url: `ws://` or `wss://`; see `gateway_url`. token, password: the Gateway's shared secret, whichever it uses.
    scopes: what is asked for. needed: without these the connection is of no use and counts as refused.
    device: an identity, or None (enough on the Gateway's own machine). origin: sent by clients that are web pages.
    """

    url: str
    token: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    scopes: tuple[str, ...] = (READ, WRITE, ADMIN)
    needed: tuple[str, ...] = (READ,)
    device: Device | None = None
    client_id: str = "gateway-client"
    mode: str = "backend"
    version: str = "0.1.0"
    platform: str = "linux"
    role: str = "operator"
    origin: str | None = None

    @property
    def loopback(self) -> bool:
        """Whether the Gateway is on this machine."""
        return (urlsplit(self.url).hostname or "") in LOOPBACK


@dataclass(frozen=True, slots=True)
class Hello:
    """What the Gateway said of itself: `boot_id` is new whenever it started anew, also within one process."""

    version: str
    boot_id: str
    connection_id: str
    scopes: tuple[str, ...]
    device_token: str | None
    max_payload: int
    payload: Payload = field(repr=False)

    @classmethod
    def read(cls, payload: Payload) -> Hello:
        """From the payload of a `hello-ok`."""
        server, auth = mapping(payload.get("server")), mapping(payload.get("auth"))
        scopes, token = auth.get("scopes"), auth.get("deviceToken")
        limit = mapping(payload.get("policy")).get("maxPayload")
        return cls(
            version=str(server.get("version") or ""),
            boot_id=str(server.get("bootId") or ""),
            connection_id=str(server.get("connId") or ""),
            scopes=tuple(str(scope) for scope in scopes) if isinstance(scopes, list) else (),
            device_token=token if isinstance(token, str) and token else None,
            max_payload=limit if isinstance(limit, int) else 25 * 1024 * 1024,
            payload=payload,
        )


def gateway_url(text: str) -> str:
    """The WebSocket address in what a person typed: `host:port`, `ws://`, `wss://`, `http://` or `https://`.
    Raises GatewayError (code BAD_URL) for anything else.
    """
    typed = text.strip()
    if not typed:
        raise GatewayError(
            "The address of the Gateway is empty. It looks like ws://127.0.0.1:18789.", code="BAD_URL"
        )
    full = typed if "://" in typed else f"ws://{typed}"
    wrong = GatewayError(
        f"“{typed}” is not the address of a Gateway. It looks like ws://127.0.0.1:18789 or wss://host.",
        code="BAD_URL",
    )
    try:
        parts = urlsplit(full)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise wrong from error
    scheme = {"ws": "ws", "http": "ws", "wss": "wss", "https": "wss"}.get(parts.scheme.lower())
    if scheme is None or not host or parts.username is not None or any(c.isspace() for c in full):
        raise wrong
    shown = f"[{host}]" if ":" in host else host
    query = f"?{parts.query}" if parts.query else ""
    return f"{scheme}://{shown}{f':{port}' if port else ''}{parts.path.rstrip('/')}{query}"


def connect_params(access: Access, challenge: Payload) -> dict[str, Any]:
    """The params of `connect`. The shared token goes first; a device's own token serves where there is none."""
    client = {
        "id": access.client_id,
        "version": access.version,
        "platform": access.platform,
        "mode": access.mode,
    }
    token = access.token or ((access.device.token or "") if access.device and not access.password else "")
    auth = {name: value for name, value in (("token", token), ("password", access.password)) if value}
    params: dict[str, Any] = {
        "minProtocol": PROTOCOL,
        "maxProtocol": PROTOCOL,
        "client": client,
        "role": access.role,
        "scopes": list(access.scopes),
        "caps": ["tool-events"],
        "auth": auth,
    }
    if access.device is not None:
        signed_at = challenge.get("ts")
        params["device"] = access.device.sign(
            client,
            role=access.role,
            scopes=access.scopes,
            token=token,
            nonce=str(challenge.get("nonce") or ""),
            signed_at=signed_at if isinstance(signed_at, int) else 0,
        )
    return params


def check_scopes(access: Access, hello: Hello) -> None:
    """Raises Refused if the Gateway did not grant what the connection is for: it clears scopes without a word."""
    missing = [scope for scope in access.needed if scope not in hello.scopes]
    if missing:
        raise Refused(
            "scopes",
            f"The Gateway took the connection but did not grant {', '.join(missing)}.",
            "Connect with the Gateway's shared token from the machine it runs on, or approve this device with "
            "these scopes: run `openclaw devices list`, then `openclaw devices approve <request>`.",
            code="MISSING_SCOPE",
            device_id=access.device.id if access.device else None,
        )
