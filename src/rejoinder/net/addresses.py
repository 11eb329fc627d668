"""Which addresses are out in the world, and which lead back into a network that strangers have no business in."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

#: IANA's special-purpose registry, and what is no host of the world beside it. Listed here rather than asked of the
#: standard library, whose answers differ from version to version.
_INSIDE_4 = [
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
        "168.63.129.16/32",  # a cloud's own services, on an address that looks like any other
    )
]
_WORLD_6 = IPv6Network("2000::/3")
_INSIDE_6 = [
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo tunnels among them
        "2001:db8::/32",
        "2002::/16",  # 6to4 tunnels
        "3fff::/20",
    )
]
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)

#: Never called, not even for a host that an operator allows by name: a cloud machine's own credentials are here.
_METADATA: list[Network] = [
    IPv4Network("169.254.0.0/16"),
    IPv4Network("168.63.129.16/32"),
    IPv4Network("100.100.100.200/32"),
    IPv4Network("192.0.0.192/32"),
    IPv4Network("0.0.0.0/8"),
    IPv4Network("224.0.0.0/3"),
    IPv6Network("fd00:ec2::254/128"),
    IPv6Network("fe80::/10"),
    IPv6Network("ff00::/8"),
]


def parse(text: str) -> Address | None:
    """An address in its one usual spelling, an IPv6 one without a zone; None for everything else."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return None if getattr(address, "scope_id", None) else address


def is_worldwide(address: Address) -> bool:
    """Whether this is one host out in the world, also where an IPv6 address only carries an IPv4 one."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _INSIDE_4)
    inner = carried(address)
    if inner is not None and not is_worldwide(inner):
        return False
    if address.ipv4_mapped is not None or address in _NAT64:
        return True
    return address in _WORLD_6 and not any(address in network for network in _INSIDE_6)


def is_forbidden(address: Address) -> bool:
    """Whether nobody may ever call this: a cloud's metadata, link-local addresses, groups of hosts."""
    inner = carried(address) if isinstance(address, IPv6Address) else None
    return any(one in network for one in (address, inner) if one is not None for network in _METADATA)


def carried(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that a packet to this one ends at, by any of the ways to write one inside the other."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    low = int(address)
    if address in _NAT64 or (low >> 32 & 0xFFFFFFFF) in _ISATAP or (low >> 32 == 0 and low > 1):
        return IPv4Address(low & 0xFFFFFFFF)
    return None
