"""A call of a tool as its page shows it for approval: the tool, every argument, and what the person sent back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rejoinder.contract.approvals import APPROVAL, READABLE, as_shown
from rejoinder.contract.questions import Question
from rejoinder.language.spoken import t
from rejoinder.web.reading import Line

#: The form's own names.
DECISION, DIGEST, REASON, ARGUMENTS, WORD = "decision", "digest", "reason", "arguments", "word"
APPROVE, EDIT, DENY = "approve", "edit", "deny"


@dataclass(frozen=True, slots=True)
class Call:
    """``arguments`` are its lines. Where they are ``folded`` they end early, ``rest`` characters are left out, and the
    page has no way to approve: ``digest``, which an approval must name, is None until they were opened whole."""

    tool: str
    title: str | None
    description: str
    destructive: bool
    arguments: list[Line]
    text: str
    folded: bool
    rest: int
    digest: str | None
    reason: str
    edited: str | None
    word: str


def call_of(question: Question, sent: Mapping[str, str], *, whole: bool) -> Call | None:
    """None for every other kind of question. ``sent`` is what the person typed before; ``whole``: they opened it."""
    if question.answer_format != APPROVAL:
        return None
    payload: dict[str, Any] = question.format_payload or {}
    text = as_shown(payload["arguments"])
    folded = len(text) > READABLE and not whole and DIGEST not in sent
    return Call(
        tool=payload["tool"],
        title=payload.get("title"),
        description=payload.get("description") or "",
        destructive=bool(payload.get("destructive")),
        arguments=[Line(None, text[:READABLE], 0)] if folded else _lines(payload["arguments"]),
        text=text,
        folded=folded,
        rest=len(text) - READABLE if folded else 0,
        digest=None if folded else payload["digest"],
        reason=sent.get(REASON, ""),
        edited=sent.get(ARGUMENTS),
        word=sent.get(WORD, ""),
    )


def _lines(arguments: dict[str, Any]) -> list[Line]:
    return [Line(name, _said(value), 0) for name, value in arguments.items()]


def _said(value: Any) -> str:
    # A text as it is, so that its lines are lines; quoted where it could be taken for something else.
    if isinstance(value, str) and value.strip() == value and value and value[0] not in '"{[':
        return value
    return json.dumps(value, ensure_ascii=False, indent=2)


def read(question: Question, given: Mapping[str, str]) -> tuple[Any, str | None]:
    """``(answer, None)``, or ``(None, the sentence that says what is missing)``."""
    payload: dict[str, Any] = question.format_payload or {}
    decision = given.get(DECISION)
    if decision == DENY:
        reason = given.get(REASON, "").strip()
        return {"decision": "deny", **({"reason": reason} if reason else {})}, None
    if decision not in (APPROVE, EDIT):
        return None, t("Choose to approve or to deny it.")
    if payload.get("destructive") and given.get(WORD, "").strip() != payload["tool"]:
        return None, t("Type the tool's name, {tool}, to approve this call.", tool=payload["tool"])
    answer: dict[str, Any] = {"decision": "approve", "digest": given.get(DIGEST)}
    if decision == EDIT:
        try:
            answer["arguments"] = json.loads(given.get(ARGUMENTS, ""))
        except (ValueError, RecursionError):
            return None, t("The arguments are not JSON.")
    return answer, None


def answer_of(question: Question) -> list[Line]:
    """What was decided, for reading."""
    answer: dict[str, Any] = question.answer or {}
    if answer.get("decision") != "approve":
        lines = [Line(t("Decision"), t("Denied: it was not run"), 0)]
        return [*lines, Line(t("Reason"), answer["reason"], 0)] if answer.get("reason") else lines
    if answer.get("arguments") is None:
        return [Line(t("Decision"), t("Approved as shown"), 0)]
    changed = [Line(line.label, line.text, 1) for line in _lines(answer["arguments"])]
    return [Line(t("Decision"), t("Approved with these arguments"), 0), *changed]
