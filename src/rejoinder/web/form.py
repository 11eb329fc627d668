"""The form of a question, for every page that shows one: the inbox, and the page behind a link of its own.

A page puts ``render(...)`` inside a ``<form method="post">`` of its own, with whatever hidden inputs it needs beside it
(a form's names are ``step``, ``go``, ``f`` and what begins with ``f.`` or ``f!``), and gives what comes back to
``read``. It works without scripts; with ``form.js`` loaded, what is wrong is told before anything is sent.

    state = blank(payload)                       # GET: defaults and prefilled values
    state = read(payload, pairs)                 # POST: .ready and .value, or drawn again with .errors
    html = render(payload, state)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from rejoinder.forms.draft import defaults_of
from rejoinder.forms.submit import read_submission
from rejoinder.web.controls import Draft, Drawn, draw
from rejoinder.web.drawing import environment

Pairs = list[tuple[str, str]]


@dataclass(slots=True)
class FormState:
    """What a person has typed so far. Where ``ready`` is true, ``value`` is an answer to try; otherwise the page is
    drawn again: with ``errors`` (sentences by dotted path, the whole form as the empty path), or, where ``edit`` is
    true, because a button of the form's own was pressed and nothing was sent yet."""

    value: Any = None
    ready: bool = False
    draft: Draft = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    added: str | None = None
    edit: bool = False


def blank(payload: dict[str, Any] | None) -> FormState:
    """Before anybody typed: a form shows its defaults. ``payload`` is the question's ``format_payload``."""
    state = FormState()
    for name, text in defaults_of(_schema(payload)):
        state.draft.setdefault(name, []).append(text)
    return state


def read(payload: dict[str, Any] | None, pairs: Pairs) -> FormState:
    """One submission. Raises TooLargeError for too many values, AnswerMismatchError where the schema cannot be
    processed."""
    found = read_submission(payload or {}, pairs)
    return FormState(
        found.value,
        ready=not found.edit and not found.errors,
        draft=found.draft,
        errors=found.errors,
        added=found.added,
        edit=found.edit,
    )


def render(payload: dict[str, Any] | None, state: FormState, *, sensitive: bool = False) -> Markup:
    """The summary of faults, the controls and the button that sends, as HTML. Of a ``sensitive`` question nothing
    that was refused is written into the page again."""
    drawn = drawn_of(payload, state, sensitive=sensitive)
    page = environment().get_template("_form.html")
    return Markup(page.render(drawn=drawn, sensitive=sensitive))  # noqa: S704 - the template escapes


def drawn_of(payload: dict[str, Any] | None, state: FormState, *, sensitive: bool = False) -> Drawn:
    keep_back = sensitive and not state.edit and state.errors
    return draw(_schema(payload), {} if keep_back else state.draft, state.errors, state.added)


def _schema(payload: dict[str, Any] | None) -> dict[str, Any]:
    return (payload or {}).get("schema") or {}
