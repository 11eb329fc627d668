"""What a person sent with a question's own form: an answer, a step on the way to one, or what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rejoinder.contract.questions import Question
from rejoinder.forms.scalars import unbroken
from rejoinder.language.spoken import t
from rejoinder.web import approval, form
from rejoinder.web.form import FormState, Pairs

#: Up to this many options are buttons that answer with one tap; more are a list to choose from and send.
MAX_BUTTONS = 9


@dataclass(slots=True)
class Entry:
    """``ready``: ``value`` is an answer to try. Otherwise the page is drawn again with what was typed; ``error`` is
    the sentence for a control that stands alone; ``form`` is what a form question holds."""

    value: Any = None
    ready: bool = False
    text: str = ""
    option: int | None = None
    form: FormState = field(default_factory=FormState)
    error: str | None = None
    #: The person wants a suggestion filled in, or a button of the form's own was pressed: nothing was sent yet.
    edit: bool = False

    #: What was typed about a call that is to be approved.
    approval: dict[str, str] = field(default_factory=dict)

    @property
    def faulty(self) -> bool:
        return bool(self.error or self.form.errors)

    def lost(self, question: Question) -> str | None:
        """What was typed, to be kept by the person where it was not taken. Never that of a sensitive question."""
        if question.sensitive:
            return None
        if question.answer_format == "text":
            return self.text or None
        if question.answer_format == "form" and self.form.draft:
            return "\n".join(text for texts in self.form.draft.values() for text in texts)
        if question.answer_format == "approval":
            typed = (self.approval.get(approval.REASON), self.approval.get(approval.ARGUMENTS))
            return "\n".join(text for text in typed if text) or None
        return None


def blank(question: Question) -> Entry:
    """Before anybody typed: a form shows its defaults."""
    if question.answer_format == "form":
        return Entry(form=form.blank(question.format_payload))
    return Entry()


def read(question: Question, pairs: Pairs) -> Entry:
    """Read one submission. Raises TooLargeError for too many values."""
    given = dict(pairs)
    options = (question.format_payload or {}).get("options") or []
    match question.answer_format:
        case "confirm":
            answer = given.get("answer")
            if answer not in ("true", "false"):
                return Entry(error=t("Choose yes or no."))
            return Entry(answer == "true", ready=True)
        case "select":
            index = _index(given.get("option"), options)
            if index is None:
                return Entry(error=t("Choose one of the options."))
            return Entry(options[index], ready=True, option=index)
        case "text":
            index = _index(given.get("fill"), options)
            if index is not None:
                return Entry(text=options[index], edit=True)
            text = unbroken(given.get("answer", ""))
            if not text.strip():
                return Entry(error=t("Write an answer before you send it."))
            return Entry(text, ready=True, text=text)
        case "approval":
            value, missing = approval.read(question, given)
            return Entry(value, ready=missing is None, error=missing, approval=given)
        case "external":
            return Entry(error=t("This question is answered by an outside system, not here."))
        case _:
            state = form.read(question.format_payload, pairs)
            return Entry(state.value, ready=state.ready, form=state, edit=state.edit)


def _index(text: str | None, options: list[str]) -> int | None:
    # By number, not by text: a browser rewrites line breaks in what it sends.
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 6:
        return None
    return int(text) if int(text) < len(options) else None
