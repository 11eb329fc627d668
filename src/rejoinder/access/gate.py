"""The gate that every edge passes: who calls, by what proof, and whether the call may have come from another site.

A caller proves itself by an API key (``Authorization: Bearer rjk_...``) or by the cookie of a browser session. Where
the gate is off everybody is the local owner, which is allowed on this machine only.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from rejoinder.access.keys import Access
from rejoinder.contract.errors import AuthenticationError, ConfigurationError, ForbiddenError
from rejoinder.contract.identity import LOCAL_OWNER, Identity
from rejoinder.contract.public import is_loopback as is_loopback
from rejoinder.contract.settings import Settings

#: The names of the session cookie. The first is bound by the browser to one https origin: no other host, port of a
#: subdomain or plain http page can set it. Plain http, on this machine only, cannot have that.
SECURE_COOKIE = "__Host-rejoinder"
LOCAL_COOKIE = "rejoinder"
#: A script sends the form token here; a form sends it as the field of this name.
FORM_HEADER = "x-rejoinder-form"
FORM_FIELD = "form_token"

#: Where ``authenticate`` leaves the Caller in a request's scope, for the request log.
CALLER = "rejoinder.caller"

SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))


class HostRefusedError(ForbiddenError):
    """This host name is not one that this server is known by; name it in REJOINDER_ALLOWED_HOSTS."""

    code = "host-refused"
    status = 421


class CrossSiteError(ForbiddenError):
    """The request came from another site, or without the page's own token. Reload the page and try again."""

    code = "cross-site"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. ``cookie`` is the session's, where ``via`` is ``session``."""

    identity: Identity
    via: Literal["key", "session", "no-auth"]
    cookie: str | None = None

    @property
    def form_token(self) -> str:
        """What a page of this caller puts into its forms."""
        return form_token(self.cookie)


async def authenticate(request: HTTPConnection, access: Access) -> Caller:
    """Raises AuthenticationError, the same for a proof that is missing, malformed, unknown, expired or revoked.

    A header that is sent is what counts: a wrong key is not made good by a cookie beside it.
    """
    caller = await _caller(request, access)
    request.scope[CALLER] = caller
    return caller


async def _caller(request: HTTPConnection, access: Access) -> Caller:
    header = request.headers.get("authorization")
    if header is not None:
        scheme, _, secret = header.partition(" ")
        if scheme.lower() != "bearer":
            raise AuthenticationError()
        return Caller(await access.identify(secret.strip()), "key")
    cookie = session_cookie(request)
    if cookie is not None:
        try:
            return Caller(await access.identify_session(cookie), "session", cookie)
        except AuthenticationError:
            if access.enabled:
                raise
    if access.enabled:
        raise AuthenticationError()
    client = request.client
    if client is not None and not is_loopback(client.host):
        raise AuthenticationError()
    return Caller(LOCAL_OWNER, "no-auth")


def check_origin(request: HTTPConnection, caller: Caller) -> None:
    """Refuse a changing request that a page of another site may have made a browser send. Raises CrossSiteError.

    A key is never sent by a browser on its own, so a caller with one passes. A session must show where it comes
    from; with the gate off, programs that are no browsers show nothing and pass.
    """
    if caller.via == "key" or request.scope.get("method") in SAFE_METHODS:
        return
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        raise CrossSiteError()
    if origin is not None:
        if not _is_own(origin, request):
            raise CrossSiteError()
    elif caller.via == "session" and site != "same-origin":
        raise CrossSiteError()


def check_session_request(request: HTTPConnection, caller: Caller) -> None:
    """For doors that scripts call: ``check_origin``, and a session's form token in the X-Rejoinder-Form header."""
    check_origin(request, caller)
    if caller.via == "session" and request.scope.get("method") not in SAFE_METHODS:
        check_form_token(caller, request.headers.get(FORM_HEADER))


def form_token(cookie: str | None) -> str:
    """The token of a session's forms. It is derived from the cookie, so every process knows it and none stores it."""
    mac = hmac.new((cookie or "").encode("utf-8", "surrogateescape"), b"rejoinder form", hashlib.sha256)
    return base64.urlsafe_b64encode(mac.digest()).decode().rstrip("=")


def check_form_token(caller: Caller, given: object) -> None:
    """Raises CrossSiteError unless ``given`` is the token of this caller's forms."""
    if caller.via == "key":
        return
    wanted = form_token(caller.cookie).encode()
    if not isinstance(given, str) or not hmac.compare_digest(given.encode("utf-8", "replace"), wanted):
        raise CrossSiteError()


# The session cookie


def session_cookie(request: HTTPConnection) -> str | None:
    """The session cookie that counts for the way this request came."""
    if "cookie" not in request.headers:
        return None
    return request.cookies.get(SECURE_COOKIE if is_secure(request) else LOCAL_COOKIE)


def may_hold_session(request: HTTPConnection) -> bool:
    """Whether a browser may be given a session over this connection: https, or plain http on this machine."""
    return is_secure(request) or is_loopback(request.url.hostname or "")


def set_cookie(request: HTTPConnection, cookie: str, seconds: int) -> str:
    """The value of a Set-Cookie header. ``seconds=0`` takes the cookie away.

    SameSite is Lax, not Strict: a person who follows a link from a mail or a chat to a question must arrive signed
    in. Lax sends the cookie with such a GET only, and a GET changes nothing.
    """
    secure = is_secure(request)
    name = SECURE_COOKIE if secure else LOCAL_COOKIE
    return f"{name}={cookie}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax" + (
        "; Secure" if secure else ""
    )


def is_secure(request: HTTPConnection) -> bool:
    return request.scope.get("scheme") in ("https", "wss")


# Where requests may come to


def refuse_open_gate(settings: Settings, host: str) -> None:
    """Raises ConfigurationError where the gate is off and ``host``, to be bound, is not this machine's own."""
    if not settings.access_control_enable and not is_loopback(host):
        raise ConfigurationError(
            f"ACCESS_CONTROL_ENABLE=false lets everybody in, so it is allowed on a loopback address only, and {host} "
            "is none; bind 127.0.0.1, or leave access control on"
        )


class Hosts:
    """Which Host headers are taken. It stops a page of another site whose name was made to point at this machine.

    With the gate off only this machine's own names, the public base URL's and REJOINDER_ALLOWED_HOSTS pass. With it
    on such a page has no key and no cookie, so everything passes unless REJOINDER_ALLOWED_HOSTS is set.
    """

    def __init__(self, settings: Settings) -> None:
        self._named = {name.lower().rstrip(".") for name in settings.rejoinder_allowed_hosts}
        self._checks = bool(self._named) or not settings.access_control_enable
        public = settings.interactions_public_base_url
        if public:
            self._named.add((urlsplit(public).hostname or "").lower())

    def check(self, host: str) -> None:
        """``host`` is the Host header. Raises HostRefusedError."""
        if not self._checks:
            return
        name = _hostname(host)
        if not name or not (name in self._named or is_loopback(name)):
            raise HostRefusedError()


def _hostname(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")


def _is_own(origin: str, request: HTTPConnection) -> bool:
    try:
        given = urlsplit(origin)
        given_port = given.port
    except ValueError:
        return False
    scheme = str(request.scope.get("scheme", "http"))
    if given.scheme != scheme or given.hostname is None:
        return False
    host = request.headers.get("host", "")
    try:
        own = urlsplit(f"{scheme}://{host}")
        own_port = own.port
    except ValueError:
        return False
    default = 443 if scheme == "https" else 80
    return given.hostname == own.hostname and (given_port or default) == (own_port or default)
