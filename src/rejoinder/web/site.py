"""What every page shares: who calls, where a request came from, how a page is drawn, and how a refusal looks."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import UUID, uuid4

from markupsafe import Markup
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from rejoinder.access import gate
from rejoinder.access.declared import keeps_own_gate
from rejoinder.access.gate import Caller
from rejoinder.contract.errors import (
    AuthenticationError,
    BadInputError,
    ForbiddenError,
    RejoinderError,
    TooLargeError,
)
from rejoinder.contract.identity import NO_AUTH, Grant, Identity
from rejoinder.language.spoken import later, speaking, t
from rejoinder.node import Node
from rejoinder.observe.logs import get_logger
from rejoinder.store.inbox import Inbox
from rejoinder.web import moments
from rejoinder.web.drawing import environment
from rejoinder.web.speech import keep_language, language_of

log = get_logger("web")

#: A form's body, percent-encoded: an answer of 64 KiB may take three times as much.
MAX_BODY = 256 * 1024
MAX_PAIRS = 5_100

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: with that a browser sends "Origin: null" with our own forms, and they could not be told
    # from a foreign page's. To other sites nothing is sent either way.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}

#: Where a sign-in may lead: our own pages, by their shape.
_NEXT = re.compile(r"/(?:inbox|runs)(?:/[0-9a-f-]{36})?|/hooks|/presets|/schedules|/audit|/keys")

Pairs = list[tuple[str, str]]
Page = Callable[["Visit"], Awaitable[Response]]


class Site:
    """The pages of one node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.inbox = Inbox(node.database)
        self.templates = environment()

    def draw(
        self, template: str, *, status: int = 200, headers: dict[str, str] | None = None, **values: Any
    ) -> Response:
        text = self.templates.get_template(template).render(**values)
        return Response(text, status_code=status, media_type="text/html", headers=HEADERS | (headers or {}))

    def route(
        self, path: str, page: Page, *, method: str = "GET", grant: Grant = "read", name: str | None = None
    ) -> Route:
        """A page for callers with this grant. Everybody else is sent to the sign-in page, or told why not."""

        async def endpoint(request: Request) -> Response:
            request.scope["route"] = route  # what the request log names it by
            with speaking(language_of(request, self.node.settings.rejoinder_language)):
                response = await answered(request)
            keep_language(request, response)
            return response

        async def answered(request: Request) -> Response:
            visit: Visit | None = None
            try:
                caller = await gate.authenticate(request, self.node.access)
                gate.check_origin(request, caller)
                visit = Visit(self, request, caller, await self.inbox.now())
                if method != "GET":
                    visit.pairs = await read_pairs(request)
                    gate.check_form_token(caller, visit.field(gate.FORM_FIELD))
                if not caller.identity.may(grant):
                    raise ForbiddenError(_LACKS[grant])
                return await page(visit)
            except AuthenticationError:
                return self._to_sign_in(request)
            except RejoinderError as error:
                return self.problem(error, visit)
            except ClientDisconnect:
                return Response(status_code=400)  # nobody reads it
            except Exception as error:
                return self.fault(error, request, visit)

        route = keeps_own_gate(Route(path, endpoint, methods=[method], name=name))
        return route

    def problem(self, error: RejoinderError, visit: Visit | None) -> Response:
        if error.status >= 500:
            log.warning("a page could not be shown", code=error.code)
        title = _TITLES.get(error.status, later("Not available"))
        message = _NOT_FOUND.get(error.code, error.message)
        return self._error_page(title, message, error.status, visit)

    def fault(self, error: Exception, request: Request, visit: Visit | None) -> Response:
        identifier = request.scope.get("rejoinder.request_id") or uuid4().hex[:16]
        log.error("a page failed", request_id=identifier, exc_info=error)
        message = t(
            "Something failed on this server; it is in the log as {id}. Look at where things stand before you repeat "
            "what you did.",
            id=identifier,
        )
        return self._error_page(later("This page failed"), message, 500, visit)

    def _error_page(self, title: str, message: str, status: int, visit: Visit | None) -> Response:
        frame = visit.frame() if visit is not None else {"visit": None, "open_count": None}
        return self.draw("error.html", status=status, title=t(title), message=t(message), **frame)

    def _to_sign_in(self, request: Request) -> Response:
        path = request.url.path
        query = "?" + urlencode({"next": path}) if request.method == "GET" and _NEXT.fullmatch(path) else ""
        if request.headers.get("x-fragment"):
            return Response(t("Sign in again."), status_code=401, media_type="text/plain", headers=HEADERS)
        return redirect("/sign-in" + query)


#: The pages of the navigation, and who may go there.
_PAGES: tuple[tuple[str, str, Callable[[Identity], bool]], ...] = (
    ("/inbox", later("Inbox"), lambda _: True),
    ("/runs", later("Runs"), lambda _: True),
    ("/hooks", later("Hooks"), lambda who: not who.restricted),
    ("/presets", later("Presets"), lambda who: not who.restricted),
    ("/schedules", later("Schedules"), lambda who: not who.restricted),
    ("/audit", later("Audit"), lambda _: True),
    ("/keys", later("Keys"), lambda who: who.may("admin") and not who.restricted),
)
_TITLES = {
    400: later("That did not work"),
    403: later("Not allowed"),
    404: later("Not here"),
    409: later("Too late"),
    410: later("Too late"),
    413: later("Too large"),
}
_LACKS: dict[Grant, str] = {
    "read": later("Your key may not read here."),
    "write": later("Your key may read, but not answer or change anything."),
    "admin": later("Only an admin may see this page."),
}
_NOT_FOUND = {
    "interaction-not-found": later(
        "There is no such question, it was forgotten some time after it ended, or it is not addressed to you."
    ),
    "run-not-found": later("There is no such run, or it was forgotten some time after it ended."),
}


class Visit:
    """One request to a page: who came, when by the database's clock, and what the form held."""

    def __init__(self, site: Site, request: Request, caller: Caller, now: datetime) -> None:
        self.site = site
        self.node = site.node
        self.request = request
        self.caller = caller
        self.identity = caller.identity
        self.now = now
        self.pairs: Pairs = []

    @property
    def name(self) -> str:
        """The caller's name for people."""
        return t("this computer") if self.identity.name == NO_AUTH else self.identity.name

    def field(self, name: str) -> str | None:
        return next((value for key, value in self.pairs if key == name), None)

    def query(self, name: str) -> str | None:
        """A query parameter, or None where it is missing or blank. NUL and lone surrogates match nothing."""
        value = self.request.query_params.get(name, "").strip()
        return value[:500].replace("\x00", "\ufffd").encode("utf-8", "replace").decode() or None

    def identifier(self) -> UUID | None:
        try:
            return UUID(self.request.path_params["id"])
        except ValueError:
            return None

    def frame(self) -> dict[str, Any]:
        """What the frame around every page needs."""
        return {"visit": self, "open_count": None}

    def pages(self) -> list[tuple[str, str, bool]]:
        """The pages that the caller may go to: path, title, and whether this page is that one or below it."""
        here = self.request.url.path
        shown = [one for one in _PAGES if one[2](self.identity)]
        return [(path, title, here == path or here.startswith(f"{path}/")) for path, title, _ in shown]

    def draw(self, template: str, *, status: int = 200, **values: Any) -> Response:
        return self.site.draw(template, status=status, **(self.frame() | values))

    # For templates

    def when(self, moment: datetime, style: moments.Style = "absolute") -> Markup:
        """A moment as the page shows it."""
        return moments.written(moment, self.now, style)


async def read_pairs(request: Request) -> Pairs:
    """The pairs of a form that a browser sent. Raises BadInputError, TooLargeError."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise BadInputError(later("This page takes what its own form sends, and nothing else."))
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise TooLargeError(later("This is more than a form may send. Shorten it and try again."))
    try:
        return parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_PAIRS, errors="strict"
        )
    except ValueError:
        raise BadInputError(later("This page could not read what was sent.")) from None


def redirect(path: str) -> Response:
    return RedirectResponse(path, status_code=303, headers=HEADERS)


def safe_next(path: str | None) -> str:
    return path if path is not None and _NEXT.fullmatch(path) else "/inbox"
