"""The pages behind a callback URL, for the person who was sent there. They work without scripts, act on a button only,
and hold nothing that came with the request."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from rejoinder.asks.callback import Standing
from rejoinder.contract.questions import Question
from rejoinder.forms.wording import word
from rejoinder.language.spoken import t
from rejoinder.web import form, moments
from rejoinder.web.drawing import environment
from rejoinder.web.form import FormState

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # The address is the right to answer: it is told to nobody, not even to our own style sheet.
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
    "x-robots-tag": "noindex",
}
#: What the page's own form sends beside its fields. Without it a body is a program's, whatever its type says: curl calls
#: everything a form.
MARKER = ("sent_by", "page")
_NOTHING: dict[str, str] = {"heading": "", "text": ""}


def takes_a_form(question: Question) -> bool:
    """Whether the person fills in a form: never would one have to send JSON."""
    if question.answer_format == "form":
        return True
    return question.answer_format == "external" and "schema" in (question.format_payload or {})


def asked(
    standing: Standing, state: FormState | None = None, *, notice: str | None = None, status: int = 200
) -> Response:
    """The question with its controls; for a text or a choice, that it is answered in the channel it came through."""
    question = standing.question
    if question.answer_format in ("text", "select"):
        return _drawn(
            question,
            "awaiting",
            status=status,
            title=t("Answer in the chat"),
            message=t("Reply to the message that brought you here. This page takes no answer."),
            said=_said(question, "awaiting"),
        )
    drawn: Markup | None = None
    if takes_a_form(question):
        payload = question.format_payload
        drawn = form.render(payload, state or form.blank(payload), sensitive=question.sensitive)
    return _drawn(
        question,
        "asked",
        status=status,
        title=t("A question for you"),
        notice=None if notice is None else t(notice),
        form=drawn,
        yes=_word(question, "answer", "confirm"),
        no=_word(question, "answer", "decline"),
        deadline=moments.written(question.timeout_at, question.created_at),
        lapse=t("If nobody answers, no answer is assumed."),
        said=_said(question, "confirm"),
    )


def done(question: Question) -> Response:
    """It is answered, now or before."""
    submitted = _said(question, "submitted") if takes_a_form(question) else _NOTHING
    return _drawn(
        question,
        "done",
        title=t("Done"),
        message=t("The answer was recorded. You can close this page."),
        said=submitted if submitted != _NOTHING else _said(question, "done"),
    )


def _drawn(question: Question, kind: str, *, status: int = 200, **values: Any) -> Response:
    given = {"notice": None, "form": None, "yes": None, "no": None, "message": ""} | values
    text = (
        environment()
        .get_template("callback.html")
        .render(question=question, kind=kind, marker=MARKER, **given)
    )
    return Response(text, status_code=status, media_type="text/html", headers=HEADERS)


def plain(text: str, status: int) -> Response:
    """A page of one line, the same for everybody."""
    return Response(text, status_code=status, media_type="text/plain", headers=HEADERS)


def _said(question: Question, page: str) -> dict[str, str]:
    return {part: _word(question, "answer_page", page, part) or "" for part in ("heading", "text")}


def _word(question: Question, *path: str) -> str | None:
    """What the sender of the question says in a place of the catalogue."""
    return word((question.format_payload or {}).get("wording"), *path)
