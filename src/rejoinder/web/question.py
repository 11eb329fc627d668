"""One question as its page shows it: who asks, by when, what to answer with; or how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from markupsafe import Markup

from rejoinder.contract.approvals import APPROVAL
from rejoinder.contract.media import referred
from rejoinder.contract.questions import Question
from rejoinder.forms.wording import filled, word
from rejoinder.language.spoken import later, t
from rejoinder.store.events import Event
from rejoinder.store.inbox import Filter
from rejoinder.store.runs import Run
from rejoinder.web import words
from rejoinder.web.approval import Call, answer_of, call_of
from rejoinder.web.entry import MAX_BUTTONS, Entry
from rejoinder.web.form import render
from rejoinder.web.outside import Outside, outside_of
from rejoinder.web.reading import Line, lines_of
from rejoinder.web.site import Visit

TRAIL = 100
_KINDS = {
    "image": later("Image"),
    "link": later("Link"),
    "document": later("Document"),
    "video": later("Video"),
    "audio": later("Audio"),
}


@dataclass(frozen=True, slots=True)
class Medium:
    """``image`` is a picture of ours that the page shows. Everything else is a link: nothing is fetched unasked."""

    kind: str
    #: The kind in words.
    sort: str
    image: str | None
    href: str | None
    host: str | None
    name: str
    alt: str
    caption: str | None


@dataclass(frozen=True, slots=True)
class Pane:
    question: Question
    standing: str
    open: bool
    late: bool
    may_answer: bool
    asker: str
    addressed: str | None
    #: None for the builtin tool: there the asker itself asks.
    tool_title: str | None
    run: Run | None
    run_line: str | None
    on_lapse: str
    ended: str | None
    ended_by: str | None
    via: str | None
    mine: bool
    media: list[Medium]
    options: list[str]
    as_buttons: bool
    entry: Entry
    form: Markup | None
    #: A call of a tool, where that is what the question is about.
    call: Call | None
    outside: Outside | None
    answer: list[Line] | None
    trail: list[Event]
    trail_cut: bool
    siblings: list[Question]
    next: Question | None
    others: int
    done: bool
    refused: bool
    #: Whether the reader is the one who asks, without a tool in between.
    by_reader: bool

    def say(self, *path: str) -> str | None:
        """The sender's own word, where the question has one."""
        return word((self.question.format_payload or {}).get("wording"), *path)

    def refusal(self, reason: str) -> str:
        """Why an answer was not taken, in the sender's words where there are any."""
        own = self.say("answer", "rejected")
        return reason if own is None else filled(own, reason=reason)


def stands_open(question: Question, now: datetime) -> bool:
    """By the database's clock, whether or not anything has marked the lapse yet."""
    return question.state == "pending" and question.timeout_at > now


async def pane_of(
    visit: Visit, question: Question, entry: Entry, *, done: bool = False, refused: bool = False
) -> Pane:
    node, by = visit.node, visit.identity
    is_open = stands_open(question, visit.now)
    late = question.state == "pending" and not is_open
    run = await node.runs.by_id(question.run_id)
    if run is not None and by.restricted and run.identity != by.name:
        run = None
    siblings: list[Question] = []
    if run is not None:
        siblings = [one for one in await node.questions.of_run(question.run_id) if by.may_see(one.audience)]
    waiting = sum(1 for one in siblings if one.state == "pending" and one.park_id == question.park_id)
    trail = await node.events.page(
        interaction_id=None if run is not None else question.id,
        run_id=question.run_id if run is not None else None,
        limit=TRAIL,
    )
    following, others = await _next(visit, question) if not is_open else (None, 0)
    options = (question.format_payload or {}).get("options") or []
    return Pane(
        question=question,
        standing=later("Lapsed") if late else words.STANDINGS[question.state],
        open=is_open,
        late=late,
        may_answer=is_open and by.may("write"),
        asker=words.who(question.asked_by, by.name),
        addressed=None if question.audience is None else words.who(question.audience, by.name),
        tool_title=_title(visit, question.tool),
        run=run,
        run_line=None if is_open else words.run_after(run, question, waiting),
        on_lapse=words.on_lapse(question),
        ended=words.ended(question) if question.state in ("cancelled", "undelivered", "superseded") else None,
        ended_by=words.who(question.closed_by, by.name),
        via=t(words.VIA[question.closed_via]) if question.closed_via in words.VIA else None,
        mine=question.closed_by == by.name,
        media=[_medium(item, index) for index, item in enumerate(question.media or [], 1)],
        options=options,
        as_buttons=len(options) <= MAX_BUTTONS,
        entry=entry,
        form=_form(question, entry) if is_open else None,
        call=call_of(question, entry.approval, whole=visit.query("whole") is not None),
        outside=outside_of(question),
        answer=_answer(question),
        trail=[one for one in trail if one.audience is None or by.may_see(one.audience)],
        trail_cut=len(trail) >= TRAIL,
        siblings=siblings if len(siblings) > 1 else [],
        next=following,
        others=others,
        done=done,
        refused=refused,
        by_reader=question.asked_by == by.name,
    )


def _form(question: Question, entry: Entry) -> Markup | None:
    if question.answer_format != "form":
        return None
    return render(question.format_payload, entry.form, sensitive=question.sensitive)


async def _next(visit: Visit, question: Question) -> tuple[Question | None, int]:
    by = visit.identity
    found = await visit.site.inbox.page(
        "open", Filter(audience=by.name if by.restricted else None), kept=0, limit=2
    )
    rest = [one for one in found if one.id != question.id]
    return (rest[0], len(rest)) if rest else (None, 0)


def _title(visit: Visit, tool: str) -> str | None:
    if tool == words.BUILTIN:
        return None
    try:
        return visit.node.registry.get(tool).title or tool
    except Exception:
        return tool  # a tool that this process does not expose still has its name


def _answer(question: Question) -> list[Line] | None:
    """The recorded answer for reading; None where there is none to show."""
    if question.state != "answered" or question.sensitive:
        return None
    if question.answer_format == APPROVAL:
        return answer_of(question)
    value: Any = question.answer
    if question.answer_format in ("form", "external"):
        return lines_of(question.format_payload or {}, value)
    if isinstance(value, bool):
        return [Line(None, t("Yes") if value else t("No"), 0)]
    return [Line(None, str(value), 0)]


def _medium(item: dict[str, Any], number: int) -> Medium:
    url, kind = str(item["url"]), str(item["kind"])
    caption = item.get("caption")
    # The caption stands beside the picture: as its alternative text too it would be read out twice.
    sort = t(_KINDS[kind])
    alt = t("{kind} {number}, sent with the question", kind=sort, number=number)
    name = item.get("filename") or caption or f"{sort} {number}"
    if url.startswith("data:") or referred(url) is not None:
        return Medium(kind, sort, url, None, None, name, alt, caption)
    return Medium(kind, sort, None, url, urlsplit(url).hostname, name, alt, caption)
