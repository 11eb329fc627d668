"""What a person in a browser reads where a request is turned away before any page could be drawn for it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import Scope

from rejoinder.contract.errors import TooLargeError
from rejoinder.doors.bodies import Headers
from rejoinder.doors.flood import FloodError
from rejoinder.language.spoken import language, speaking, t
from rejoinder.web.speech import language_of

_PAGE = (
    "<!doctype html>\n<html lang={language}><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    "<title>{title}</title>\n<p>{text}"
)


def page_of(error: BaseException, scope: Scope, fallback: str) -> tuple[int, Headers, bytes] | None:
    """Status, headers and body, in the reader's language or in ``fallback``; None where a program asks, or where the
    error is none of these."""
    if not _asks_for_a_page(scope):
        return None
    headers: Headers = []
    with speaking(language_of(Request(scope), fallback)):
        if isinstance(error, FloodError):
            headers.append((b"retry-after", str(error.retry_after).encode()))
            title = t("Too many requests")
            text = t(
                "Too many requests came from your network. Wait {seconds} seconds, then load this page again.",
                seconds=error.retry_after,
            )
        elif isinstance(error, TooLargeError):
            title = t("Too large")
            text = t("This is more than a form may send. Shorten it and try again.")
        else:
            return None
        content = _PAGE.format(language=language(), title=title, text=text).encode()
    headers += [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(len(content)).encode()),
        # The address may be the right to answer: it is told to nobody.
        (b"referrer-policy", b"no-referrer"),
    ]
    return error.status, headers, content


def _asks_for_a_page(scope: Scope) -> bool:
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])
