"""The pages behind a trigger link. They work without scripts, act on a button only, and hold nothing that came with the
request and nothing about the link."""

from __future__ import annotations

from starlette.responses import Response

from rejoinder.language.spoken import later, t
from rejoinder.web.callback import HEADERS, MARKER, plain
from rejoinder.web.drawing import environment

__all__ = ["AWAY", "asked", "done", "is_from_page", "needs_a_key", "plain"]

AWAY = "The service is away for a moment. Load this page again."
_FORM = "application/x-www-form-urlencoded"


def is_from_page(content_type: str, raw: bytes) -> bool:
    """Whether a person pressed the button of our page, and is to be answered with one."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == _FORM and "=".join(MARKER).encode() in raw.split(b"&")


def asked() -> Response:
    return _drawn(
        later("Start this?"),
        later("Whoever sent you this link lets you start something. Opening this page has started nothing."),
        button=True,
    )


def done() -> Response:
    return _drawn(later("Started"), later("It was taken on. You can close this page."))


def needs_a_key() -> Response:
    return _drawn(
        later("A link for programs"),
        later("This link counts together with an API key, so it cannot be used from a browser."),
        status=403,
    )


def _drawn(title: str, message: str, *, button: bool = False, status: int = 200) -> Response:
    text = (
        environment()
        .get_template("trigger.html")
        .render(title=t(title), message=t(message), button=button, marker=MARKER)
    )
    return Response(text, status_code=status, media_type="text/html", headers=HEADERS)
