"""Signing in and out. The one-time link opens a page; only its button uses the link up."""

from __future__ import annotations

from contextlib import AbstractContextManager

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from rejoinder.access import gate
from rejoinder.access.keys import KEY_PREFIX, SIGN_IN_PREFIX
from rejoinder.contract.errors import AuthenticationError, RejoinderError
from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.language.spoken import later, speaking, t
from rejoinder.web.site import HEADERS, Site, Visit, read_pairs, redirect, safe_next
from rejoinder.web.speech import keep_language, language_of

#: No path leaves this page, not even to ourselves: it may hold a one-time token.
_QUIET = {"referrer-policy": "strict-origin"}

_USED = later(
    "This sign-in link was used already, or is older than an hour. Make a new one, or sign in with an API key."
)
_UNKNOWN = later("That key is not known here, or it was revoked.")
_EMPTY = later("Paste an API key, or open a sign-in link.")
_ELSEWHERE = later(
    "This request came from another site, so it was not taken. Open this page directly and try again."
)
_PLAIN_HTTP = later("Signing in needs https here. Open this page by its https address.")


class Session:
    def __init__(self, site: Site) -> None:
        self._site = site

    async def page(self, request: Request) -> Response:
        with self._speaking(request):
            response = self._draw(request)
        keep_language(request, response)
        return response

    async def sign_in(self, request: Request) -> Response:
        with self._speaking(request):
            return await self._signed_in(request)

    def _speaking(self, request: Request) -> AbstractContextManager[None]:
        return speaking(language_of(request, self._site.node.settings.rejoinder_language))

    async def _signed_in(self, request: Request) -> Response:
        try:
            return await self._sign_in(request)
        except AuthenticationError:
            by_link = request.query_params.get("token") is not None
            return self._draw(request, _USED if by_link else _UNKNOWN, status=401, spent=by_link)
        except gate.CrossSiteError:
            return self._draw(request, _ELSEWHERE, status=403)
        except RejoinderError as error:
            return self._site.problem(error, None)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception as error:
            return self._site.fault(error, request, None)

    async def _sign_in(self, request: Request) -> Response:
        # There is no session yet to guard, but a foreign page must not sign somebody in under a name of its choice.
        gate.check_origin(request, gate.Caller(LOCAL_OWNER, "session"))
        pairs = dict(await read_pairs(request))
        typed = pairs.get("key", "").strip()
        token = typed or request.query_params.get("token", "")
        if not token:
            return self._draw(request, _EMPTY, status=422)
        if not gate.may_hold_session(request):
            return self._draw(request, _PLAIN_HTTP, status=403)
        if typed and not typed.startswith((KEY_PREFIX, SIGN_IN_PREFIX)):
            raise AuthenticationError()
        cookie, _ = await self._site.node.access.sign_in(token)
        response = redirect(safe_next(request.query_params.get("next")))
        seconds = int(self._site.node.settings.rejoinder_session_seconds)
        response.headers["set-cookie"] = gate.set_cookie(request, cookie, seconds)
        return response

    async def sign_out(self, visit: Visit) -> Response:
        if visit.caller.cookie is not None:
            await visit.node.access.sign_out(visit.caller.cookie)
        response = redirect("/sign-in")
        response.headers["set-cookie"] = gate.set_cookie(visit.request, "", 0)
        response.headers["clear-site-data"] = '"storage"'
        return response

    def _draw(
        self, request: Request, message: str | None = None, *, status: int = 200, spent: bool = False
    ) -> Response:
        # Nothing of the request is written into the page: the form posts to the address it was opened by.
        by_link = bool(request.query_params.get("token")) and not spent
        return self._site.draw(
            "sign_in.html",
            status=status,
            headers=HEADERS | _QUIET,
            by_link=by_link,
            spent=spent,
            message=None if message is None else t(message),
            visit=None,
            open_count=None,
        )
