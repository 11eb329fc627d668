"""Whether an answer fits, whether it is the same as before, and what somebody is told who comes too late."""

from __future__ import annotations

import hashlib
from typing import Any

from rejoinder.contract.elicitation import DECLINED, DISMISSED
from rejoinder.contract.errors import (
    AnswerMismatchError,
    InteractionAlreadyAnsweredError,
    InteractionClosedError,
    InteractionExpiredError,
)
from rejoinder.contract.identity import Identity
from rejoinder.contract.questions import Question
from rejoinder.contract.text import unstorable

#: Why a question was withdrawn, where nobody waits for its answer any more.
GONE_ASKER = "asker gone"


def may_resolve(by: Identity, question: Question) -> bool:
    """Whether this identity is the caller that is asked: runs act as the one who called them, all the way down."""
    return question.to_kind == "caller" and question.asked_by == by.name


def digest_of(answer: Any) -> bytes:
    """SHA-256 of the answer's canonical JSON: what makes a repeated answer recognisable as the same."""
    import json

    text = json.dumps(answer, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).digest()


def digest_or_none(question: Question, value: Any) -> bytes | None:
    if unstorable(value):
        return None
    from rejoinder.forms.answers import as_kept

    return digest_of(as_kept(question.answer_format, question.format_payload, value))


def checked_answer(question: Question, value: Any) -> Any:
    """The answer, where it fits. Raises AnswerMismatchError."""
    if reason := unstorable(value):
        raise AnswerMismatchError(f"answer cannot be stored: {reason}")
    if question.answer_format == "free":
        if value is None:
            raise AnswerMismatchError("answer must not be null")
        return value
    from rejoinder.forms.answers import check_answer

    return check_answer(question.answer_format, question.format_payload, value)


def closed_error(question: Question, by: Identity) -> InteractionClosedError:
    at = question.closed_at.isoformat() if question.closed_at else None
    if question.state == "answered":
        shown = None if question.sensitive else question.answer
        return InteractionAlreadyAnsweredError(
            "Interaction already answered", state="answered", by=question.closed_by, at=at, answer=shown
        )
    if question.state == "expired":
        return lapsed(question)
    return InteractionClosedError(
        withdrawn_text(question.reason), state=question.state, by=question.closed_by, at=at
    )


def lapsed(question: Question) -> InteractionExpiredError:
    at = question.timeout_at.isoformat()
    return InteractionExpiredError(
        f"This question lapsed at {at}; the answer was not taken.", state="expired", at=at
    )


def withdrawn_text(reason: str | None) -> str:
    return {
        GONE_ASKER: "The run that asked is gone; the question was withdrawn with it.",
        "run ended": "The run that asked has ended; the question was withdrawn with it.",
        "checkpoint gone": "The run that asked waited longer than its checkpoints are kept, and was ended.",
        DECLINED: "The person who was asked declined to answer. No consent was given.",
        DISMISSED: "The person who was asked closed the question without an answer. No consent was given.",
    }.get(reason or "", "The question was withdrawn.")
