"""Which language a page speaks: the one that was asked for, the one chosen before, the browser's, the deployment's."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from rejoinder.language.spoken import LANGUAGES, preferred

#: ``?lang=de`` asks for a language; the cookie keeps the choice for the pages that follow.
QUERY = "lang"
COOKIE = "rejoinder_language"
YEAR = 365 * 86_400


def language_of(request: Request, fallback: str) -> str:
    """The code of a known language. ``fallback`` is for browsers that ask for none of them."""
    for wish in (request.query_params.get(QUERY), request.cookies.get(COOKIE)):
        if wish in LANGUAGES:
            return str(wish)
    return preferred(request.headers.get("accept-language", "")) or fallback


def keep_language(request: Request, response: Response) -> None:
    """Remember a language that was asked for. The cookie says nothing else, and nothing is decided by it."""
    wish = request.query_params.get(QUERY)
    if wish in LANGUAGES and request.cookies.get(COOKIE) != wish:
        response.set_cookie(COOKIE, str(wish), max_age=YEAR, httponly=True, samesite="lax")
