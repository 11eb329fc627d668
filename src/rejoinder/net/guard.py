"""Decides what may be called from here when somebody else chose the URL.

A name is resolved once and every address of it is looked at; what is then connected to is one of these addresses, not
the name again. Redirects are never followed. So neither a name that changes its mind nor an answer that points
elsewhere leads into the network that this process stands in.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from ipaddress import ip_network

from rejoinder.contract.errors import ConfigurationError
from rejoinder.contract.settings import Settings
from rejoinder.net.addresses import Address, Network, is_forbidden, is_worldwide, parse
from rejoinder.net.targets import AddressRefusedError, Target, target_of
from rejoinder.observe.logs import get_logger

log = get_logger("outbound")

#: The port that strangers' URLs may name. Others are named with their host in REJOINDER_OUTBOUND_ALLOW.
WORLD_PORT = 443
Resolve = Callable[[str, int], Awaitable[list[str]]]


@cache
def _resolvers() -> ThreadPoolExecutor:
    # Not the threads that tools run in: a name may be one whose servers take their time on purpose.
    return ThreadPoolExecutor(4, thread_name_prefix="resolve")


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system gives them, in the order to try them in."""
    found = await asyncio.get_running_loop().run_in_executor(
        _resolvers(), partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    )
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


@dataclass(frozen=True, slots=True)
class Allowed:
    """One entry of the list: a network, or a host, with its port where one is named."""

    network: Network | None
    host: str
    port: int | None

    @classmethod
    def of(cls, text: str) -> Allowed:
        """Raises ValueError for what is neither."""
        try:
            return cls(ip_network(text), "", None)
        except ValueError:
            if "/" in text:
                raise
        target = target_of(f"https://{text}")
        named = text.rstrip("0123456789").endswith(":") and not text.endswith("]")
        return cls(None, target.host, target.port if named else None)

    def names(self, target: Target) -> bool:
        return self.network is None and self.host == target.host and self.port in (None, target.port)

    def holds(self, address: Address) -> bool:
        return self.network is not None and address in self.network


class Guard:
    """``allowed`` are hosts, ``host:port`` and networks that may be called although they are not out in the world:
    ``REJOINDER_OUTBOUND_ALLOW``. Raises ConfigurationError for an entry that is none of them."""

    def __init__(self, allowed: Iterable[str] = (), *, resolve: Resolve = resolve) -> None:
        self._allowed = [_entry(text) for text in allowed]
        self._resolve = resolve

    @classmethod
    def of(cls, settings: Settings) -> Guard:
        """What an operator allows, and this deployment's own address."""
        own = settings.interactions_public_base_url
        return cls([*settings.rejoinder_outbound_allow, *([_own(own)] if own is not None else [])])

    def check(self, url: str) -> Target:
        """All that can be said without asking for the name. Raises AddressRefusedError."""
        target = target_of(url)
        if target.literal is not None:
            self._check_address(target, target.literal)
        if not self._named(target) and not self._may_name_a_network(target):
            if target.scheme != "https":
                raise AddressRefusedError("Only https URLs are called.", field="url")
            if target.port != WORLD_PORT:
                raise AddressRefusedError(f"Only port {WORLD_PORT} is called.", field="url")
        return target

    async def addresses(self, target: Target) -> list[Address]:
        """The addresses to connect to. Raises AddressRefusedError where one of them may not be, OSError where the name
        is not known."""
        if target.literal is not None:
            found: list[Address | None] = [target.literal]
        else:
            found = [parse(text) for text in await self._resolve(target.host, target.port)]
        if not found:
            raise OSError(f"{target.host} has no address")
        return [self._check_address(target, address) for address in found]

    def _check_address(self, target: Target, address: Address | None) -> Address:
        if address is not None and self._may_call(target, address):
            return address
        # Where a name points to inside is nothing that its caller should learn.
        log.warning("refused to call an address", host=target.host, port=target.port, address=str(address))
        raise AddressRefusedError(field="url")

    def _may_call(self, target: Target, address: Address) -> bool:
        if any(entry.holds(address) for entry in self._allowed):
            return True
        if is_forbidden(address):
            return False
        if self._named(target):
            return True
        return target.scheme == "https" and target.port == WORLD_PORT and is_worldwide(address)

    def _named(self, target: Target) -> bool:
        return any(entry.names(target) for entry in self._allowed)

    def _may_name_a_network(self, target: Target) -> bool:
        """Whether an allowed network may be behind this name: only its addresses will say so."""
        return any(entry.network is not None for entry in self._allowed)


def _entry(text: str) -> Allowed:
    try:
        return Allowed.of(text)
    except ValueError:
        raise ConfigurationError(
            f"REJOINDER_OUTBOUND_ALLOW takes hosts, host:port and networks such as 10.0.0.0/8; {text[:80]} is none"
        ) from None


def _own(url: str) -> str:
    try:
        target = target_of(url)
    except AddressRefusedError:
        raise ConfigurationError(
            "INTERACTIONS_PUBLIC_BASE_URL must be a URL such as https://ask.example.com"
        ) from None
    return f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"
