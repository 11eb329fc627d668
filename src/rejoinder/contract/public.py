"""Addresses that go out to others: where this deployment is reached, and where people are sent."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from rejoinder.contract.errors import RejoinderError

MAX_URL = 8_192
_BAD_CHARACTER = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029\\]")


class PublicUrlError(RejoinderError, RuntimeError):
    """INTERACTIONS_PUBLIC_BASE_URL is not set, so no outside system could answer. Nothing was stored."""

    code = "public-url-not-configured"
    status = 501


def public_base(url: str | None) -> str:
    """The address that callback URLs begin with, without a slash at its end. Raises PublicUrlError."""
    if url is None:
        raise PublicUrlError()
    wrong = wrong_with(url)
    if wrong is not None:
        raise PublicUrlError(
            f"INTERACTIONS_PUBLIC_BASE_URL cannot be used for callbacks: {wrong}. Nothing was stored."
        )
    return url.rstrip("/")


def wrong_with(url: str) -> str | None:
    """What is wrong with a public address, or None. A callback URL is a bearer's right, so it travels encrypted."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it is no address"
    if _BAD_CHARACTER.search(url):
        return "it holds a space or a control character"
    if parts.scheme not in ("http", "https") or not host:
        return "it must begin with https:// and name a host"
    if "?" in url or "#" in url or parts.username is not None or parts.password is not None:
        return "it must hold no user, query or fragment"
    if parts.scheme == "http" and not is_loopback(host):
        return "http is allowed for this machine only"
    return None


def wrong_with_link(url: object) -> str | None:
    """Why nobody can be sent to this address, or None."""
    if not isinstance(url, str):
        return "it is no text"
    if len(url) > MAX_URL:
        return f"it is longer than {MAX_URL} characters"
    if _BAD_CHARACTER.search(url):
        return "it holds a space or a control character"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        url.encode("utf-8")
    except ValueError:
        return "it is no address"
    if parts.scheme not in ("http", "https") or not host:
        return "it must begin with https:// or http:// and name a host"
    if not host.isascii():
        return "the name of its host must be spelled in ASCII, as in xn--..."
    if parts.username is not None or parts.password is not None:
        return "it must hold no user and no password"
    return None


def is_loopback(host: str) -> bool:
    """Whether this name or address is this machine's own."""
    name = host.strip("[]").lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
