"""Who knocks: the address that a request came from, through the proxies that are known, and nothing it says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.types import Scope

Address = IPv4Address | IPv6Address
UNKNOWN = "unknown"
_FORWARDED = b"x-forwarded-for"
#: One customer has at least so much of IPv6, and may take any address in it.
_SUBNET = 64


class Clients:
    """``proxies`` are the networks of proxies (TRUSTED_PROXIES), ``hops`` how many stand in front (TRUSTED_HOPS).

    With ``proxies`` the X-Forwarded-For header is read from its end for as long as the address that wrote an entry is a
    proxy. With ``hops`` alone so many entries of its end are believed, whoever wrote them. With neither it is not read.
    """

    def __init__(self, proxies: Sequence[IPv4Network | IPv6Network] = (), hops: int = 0) -> None:
        self._proxies = tuple(proxies)
        self._hops = hops

    def bucket(self, scope: Scope) -> str:
        """What one client's requests have in common: its IPv4 address, or its /64 of IPv6."""
        peer = scope.get("client")
        address = _address(peer[0]) if peer else None
        believed = 0
        for entry in reversed(_entries(scope) if self._proxies or self._hops else []):
            if self._proxies and (
                address is None or not any(address in network for network in self._proxies)
            ):
                break
            if (self._hops or not self._proxies) and believed >= self._hops:
                break
            written = _address(entry)
            if written is None:
                break
            address, believed = written, believed + 1
        return _bucket(address)


def _entries(scope: Scope) -> list[str]:
    joined = b",".join(value for name, value in scope["headers"] if name == _FORWARDED)
    return [part.strip() for part in joined[-4_096:].decode("latin-1").split(",")] if joined else []


def _address(text: str) -> Address | None:
    try:
        address = ip_address(text.partition("%")[0].removeprefix("[").partition("]")[0])
    except ValueError:
        host, _, port = text.rpartition(":")
        if not port.isdecimal() or ":" in host:
            return None
        try:
            address = ip_address(host)
        except ValueError:
            return None
    return getattr(address, "ipv4_mapped", None) or address


def _bucket(address: Address | None) -> str:
    if address is None:
        return UNKNOWN
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address) >> (128 - _SUBNET) << (128 - _SUBNET), _SUBNET)))
    return str(address)
