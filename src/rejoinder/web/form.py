"""The form of a question, for every page that shows one: the inbox, and the page behind a link of its own.

A page puts ``render(...)`` inside a ``<form method="post">`` of its own, with whatever hidden inputs it needs beside it
(a form's names are ``step``, ``go``, ``f`` and what begins with ``f.`` or ``f!``), and gives what comes back to
``read``. It works without scripts; with ``form.js`` loaded, what is wrong is told before anything is sent, and fields
that do not count are hidden at once.

    state = blank(payload)                       # GET: defaults and prefilled values
    state = read(payload, pairs)                 # POST: .ready and .value, or drawn again with .errors
    html = render(payload, state)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from rejoinder.forms.coerce import read_places
from rejoinder.forms.draft import defaults_of
from rejoinder.forms.submit import read_submission
from rejoinder.language.spoken import t
from rejoinder.web.controls import Artist, Control, Draft, Fault
from rejoinder.web.drawing import environment
from rejoinder.web.reading import Line, lines_of
from rejoinder.web.steps import Step, Steps

Pairs = list[tuple[str, str]]
#: The button that takes one entry of a list away.
_REMOVED = re.compile(r"(f\..+)\.\[(\d{1,5})\]~")


@dataclass(slots=True)
class FormState:
    """What a person has typed so far. Where ``ready`` is true, ``value`` is an answer to try; otherwise the page is
    drawn again: with ``errors`` (sentences by dotted path, the whole form as the empty path), or, where ``edit`` is
    true, because a button of the form's own was pressed and nothing was sent yet. ``step`` is the page of the form."""

    value: Any = None
    ready: bool = False
    draft: Draft = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    added: str | None = None
    edit: bool = False
    step: int = 0


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """One page of the form as it is drawn; all are, and all but the current one are hidden."""

    step: Step
    current: bool
    controls: list[Control]
    #: For a review: what was entered.
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Drawn:
    steps: list[DrawnStep]
    at: int
    #: The pages that count: which of them this is, and how many there are.
    number: int
    total: int
    last: bool
    faults: list[Fault]
    #: Whether the controls hold what somebody typed, rather than defaults.
    typed: bool
    #: A page that was reached by a button, whose heading is read out.
    turned: bool
    words: dict[str, Any]

    @property
    def forward(self) -> str:
        """What the button says that leads on."""
        button = self.steps[self.at].step.button
        if self.last:
            own: str | None = self.words.get("submit")
            return button or own or t("Send the answer")
        return button or t("Next")


def blank(payload: dict[str, Any] | None) -> FormState:
    """Before anybody typed: defaults and prefilled values. ``payload`` is the question's ``format_payload``."""
    given = payload or {}
    schema = given.get("schema") or {}
    state = FormState()
    for name, text in defaults_of(schema, (given.get("data") or {}).get("values")):
        state.draft.setdefault(name, []).append(text)
    pairs = [(name, text) for name, texts in state.draft.items() for text in texts]
    state.value = read_places(schema, pairs)[0]
    return state


def read(payload: dict[str, Any] | None, pairs: Pairs) -> FormState:
    """One submission. Raises TooLargeError for too many values, AnswerMismatchError where the schema cannot be
    processed."""
    given = payload or {}
    kept, removed = _without_removed(pairs)
    found = read_submission(given, kept)
    state = FormState(
        found.value, draft=found.draft, errors=found.errors, added=found.added, edit=found.edit or removed
    )
    steps = Steps(given, found.value)
    names = dict(pairs)
    state.step = steps.known(names.get("step"))
    if state.edit:
        state.errors = {}
        return state
    if names.get("go") == "back":
        return _turned(state, steps.before(state.step))
    if not steps.is_last(state.step):
        here = steps.of(state.errors, state.step)
        if not here:
            return _turned(state, steps.after(state.step))
        state.errors = here
    elif state.errors:
        state.step = steps.first_with(state.errors)
        state.errors = steps.of(state.errors, state.step) or state.errors
    state.ready = not state.errors
    return state


def refused(payload: dict[str, Any] | None, state: FormState, errors: dict[str, str]) -> None:
    """Put faults into the form that were found only when the answer was tried."""
    state.ready = False
    state.errors = errors
    state.step = Steps(payload or {}, state.value).first_with(errors)


def render(payload: dict[str, Any] | None, state: FormState, *, sensitive: bool = False) -> Markup:
    """The summary of faults, the controls and the buttons, as HTML. Of a ``sensitive`` question nothing that was
    refused is written into the page again."""
    page = environment().get_template("_form.html")
    drawn = drawn_of(payload or {}, state, sensitive=sensitive)
    return Markup(page.render(drawn=drawn, sensitive=sensitive))  # noqa: S704 - the template escapes


def drawn_of(payload: dict[str, Any], state: FormState, *, sensitive: bool = False) -> Drawn:
    keep_back = sensitive and not state.edit and bool(state.errors)
    steps = Steps(payload, {} if keep_back else state.value)
    at = 0 if keep_back else state.step
    artist = Artist(payload, {} if keep_back else state.draft, state.errors, state.added)
    words = (payload.get("wording") or {}).get("form") or {}
    drawn = []
    for step in steps.all:
        controls = [artist.draw(one) for one in step.fields]
        for control in controls:
            control.hidden = control.own is not None and steps.hides_elsewhere(control.own, step.index)
        lines: list[Line] = []
        if step.kind == "review" and step.index == at:
            empty = words.get("review_empty") or t("Nothing entered")
            lines = lines_of(payload, state.value, empty=empty, without=steps.hidden)
        drawn.append(DrawnStep(step, step.index == at, controls, lines))
    rest = [Fault(place, sentence, None) for place, sentence in artist.errors.items()]
    shown = steps.shown()
    return Drawn(
        steps=drawn,
        at=at,
        number=shown.index(at) + 1 if at in shown else 1,
        total=len(shown),
        last=steps.is_last(at),
        faults=artist.faults + rest,
        typed=bool(state.edit or state.errors),
        turned=state.edit and state.added is None,
        words=words,
    )


def _turned(state: FormState, step: int) -> FormState:
    state.step, state.edit, state.errors = step, True, {}
    return state


def _without_removed(pairs: Pairs) -> tuple[Pairs, bool]:
    """The pairs without the entry of a list whose button was pressed, and whether one was."""
    for name, _ in pairs:
        found = _REMOVED.fullmatch(name)
        if found is None:
            continue
        places = [index for index, pair in enumerate(pairs) if pair[0] == found[1]]
        gone = int(found[2])
        if gone < len(places):
            return [pair for index, pair in enumerate(pairs) if index != places[gone]], True
    return pairs, False
