"""Where a URL leads: one host in its one spelling, or a refusal. Readers of URLs disagree about the odd ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

from rejoinder.contract.errors import BadInputError
from rejoinder.net.addresses import Address, parse

Scheme = Literal["http", "https"]
PORTS: dict[Scheme, int] = {"http": 80, "https": 443}
MAX_URL = 8_192

_URL = re.compile(r"(https?)://([^/?#]*)([/?#].*)?", re.ASCII | re.DOTALL | re.IGNORECASE)
#: What no URL holds, and readers drop, take for a slash, or end the host at.
_ODD = re.compile(r"[^\x21-\x7e]|[\\^`{|}<>\"]")
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?", re.ASCII)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
#: A last label by which readers take the whole for a number of an address, in some base.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)


class AddressRefusedError(BadInputError):
    """This URL leads to an address that may not be called from here."""

    code = "address-refused"


@dataclass(frozen=True, slots=True)
class Target:
    """``host`` is in lower case, without a trailing dot, an IPv6 address without its brackets. ``literal`` is the
    address, where the host is written as one."""

    scheme: Scheme
    host: str
    port: int
    literal: Address | None


def target_of(url: str) -> Target:
    """Raises AddressRefusedError for everything but an absolute http or https URL of a plainly written host: no user
    name, no number in place of an address, no name that a reader would rewrite first."""
    if len(url) > MAX_URL or _ODD.search(url):
        raise _refused("it is too long, or holds a character that no URL holds")
    found = _URL.fullmatch(url)
    if found is None:
        raise _refused("it is not an absolute http or https URL")
    if "@" in found[2]:
        raise _refused("it carries a user name")
    authority = _AUTHORITY.fullmatch(found[2].lower())
    if authority is None:
        raise _refused("it does not name a host and a port")
    scheme = cast(Scheme, found[1].lower())
    port = int(authority[2]) if authority[2] else PORTS[scheme]
    if not 0 < port < 65_536:
        raise _refused("its port is none")
    host, literal = _host(authority[1])
    return Target(scheme, host, port, literal)


def _host(text: str) -> tuple[str, Address | None]:
    if text.startswith("["):
        literal = parse(text[1:-1])
        if literal is None or literal.version != 6:
            raise _refused("its IPv6 address is none")
        return str(literal), literal
    name = text.removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        literal = parse(name)
        if literal is None or text != name:
            raise _refused("its host is a number that could be read as several addresses")
        return name, literal
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _refused("its host is no name")
    return name, None


def _refused(why: str) -> AddressRefusedError:
    return AddressRefusedError(f"This URL is not called: {why}.", field="url")
