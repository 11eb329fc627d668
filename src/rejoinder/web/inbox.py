"""The inbox: the queue on the left, one question on the right; on a phone the one or the other."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from starlette.responses import Response

from rejoinder.contract.errors import (
    AnswerMismatchError,
    InteractionClosedError,
    InteractionNotFoundError,
)
from rejoinder.contract.identity import Identity
from rejoinder.contract.questions import Question
from rejoinder.language.spoken import later
from rejoinder.store.inbox import Cursor, Filter, Standing
from rejoinder.web import entry as entries
from rejoinder.web.drawing import link
from rejoinder.web.entry import Entry
from rejoinder.web.form import refused as refused_form
from rejoinder.web.question import Pane, pane_of, stands_open
from rejoinder.web.site import Visit, redirect

PAGE = 50
COUNT_CAP = 1_000
VIA = "inbox"
STANDINGS: tuple[tuple[Standing, str], ...] = (
    ("open", later("Open")),
    ("answered", later("Answered")),
    ("lapsed", later("Lapsed")),
    ("withdrawn", later("Withdrawn")),
)
MODES = (("sync", later("Blocking a caller")), ("async", later("Parked")))


@dataclass(frozen=True, slots=True)
class View:
    """Which questions the list shows; what every link of the page carries on."""

    standing: Standing = "open"
    text: str | None = None
    tool: str | None = None
    group: str | None = None
    audience: str | None = None
    mode: str | None = None

    @classmethod
    def of(cls, visit: Visit) -> View:
        standing = visit.query("state")
        mode = visit.query("mode")
        return cls(
            standing=next((known for known, _ in STANDINGS if known == standing), "open"),
            text=visit.query("q"),
            tool=visit.query("tool"),
            group=visit.query("group"),
            audience=visit.query("audience"),
            mode=mode if mode in dict(MODES) else None,
        )

    @property
    def filtered(self) -> bool:
        return any((self.text, self.tool, self.group, self.audience, self.mode))

    def query(self, **change: str | None) -> dict[str, str | None]:
        given = {
            "state": None if self.standing == "open" else self.standing,
            "q": self.text,
            "tool": self.tool,
            "group": self.group,
            "audience": self.audience,
            "mode": self.mode,
        }
        return given | change

    def href(self, path: str = "/inbox", **change: str | None) -> str:
        return link(path, **self.query(**change))

    def filter(self, by: Identity) -> Filter:
        """A restricted identity sees what is addressed to it, whatever it asks for."""
        return Filter(
            audience=by.name if by.restricted else self.audience,
            group_id=self.group,
            tool=self.tool,
            mode=self.mode,
            text=self.text,
        )


@dataclass(frozen=True, slots=True)
class Queue:
    view: View
    items: list[Question]
    more: str | None
    open_count: int
    later: bool

    @property
    def open_label(self) -> str:
        return f"{COUNT_CAP:,}+" if self.open_count > COUNT_CAP else str(self.open_count)


async def show(visit: Visit) -> Response:
    """The list, and beside it the question whose deadline comes first."""
    queue = await _queue(visit)
    first = queue.items[0] if queue.items else None
    pane = await pane_of(visit, first, entries.blank(first)) if first is not None else None
    return await _draw(visit, queue, pane, chosen=False)


async def show_queue(visit: Visit) -> Response:
    """The list alone, for the script that keeps it fresh."""
    queue = await _queue(visit)
    return visit.draw("_queue.html", queue=queue, chosen=visit.query("chosen"))


async def show_question(visit: Visit) -> Response:
    question = await _question(visit)
    pane = await pane_of(visit, question, entries.blank(question), done=visit.query("done") is not None)
    return await _draw(visit, await _queue(visit), pane)


async def show_pane(visit: Visit) -> Response:
    """One question alone, for the script."""
    question = await _question(visit)
    pane = await pane_of(visit, question, entries.blank(question))
    return visit.draw("_question.html", pane=pane, view=View.of(visit), open_count=None)


async def answer(visit: Visit) -> Response:
    """One submission: recorded, or drawn again with what is wrong with it."""
    question = await _question(visit)
    entry = entries.read(question, visit.pairs)
    if not entry.ready and stands_open(question, visit.now):
        return await _again(visit, question, entry, 422 if entry.faulty else 200)
    try:
        await visit.node.asks.answer(question.id, entry.value, by=visit.identity, via=VIA)
    except AnswerMismatchError as error:
        if error.errors and question.answer_format == "form":
            refused_form(question.format_payload, entry.form, error.errors)
        else:
            entry.error = error.message
        return await _again(visit, question, entry, 422)
    except InteractionClosedError as error:
        return await _again(visit, await _question(visit), entry, error.status, refused=True)
    return redirect(View.of(visit).href(f"/inbox/{question.id}", done="1"))


async def withdraw(visit: Visit) -> Response:
    question = await _question(visit)
    try:
        await visit.node.asks.cancel(question.id, by=visit.identity, via=VIA)
    except InteractionClosedError as error:
        pane = await pane_of(visit, await _question(visit), Entry(), done=True)
        return await _draw(visit, await _queue(visit), pane, status=error.status)
    return redirect(View.of(visit).href(f"/inbox/{question.id}", done="1"))


async def _question(visit: Visit) -> Question:
    identifier = visit.identifier()
    if identifier is None:
        raise InteractionNotFoundError()
    return await visit.node.asks.get(identifier, by=visit.identity)


async def _again(
    visit: Visit, question: Question, entry: Entry, status: int, *, refused: bool = False
) -> Response:
    pane = await pane_of(visit, question, entry, refused=refused, done=refused)
    return await _draw(visit, await _queue(visit), pane, status=status)


async def _queue(visit: Visit) -> Queue:
    view = View.of(visit)
    after = _cursor(visit.query("after"))
    kept = visit.node.settings.interactions_idle_ttl_seconds
    found = await visit.site.inbox.page(
        view.standing, view.filter(visit.identity), kept=kept, limit=PAGE + 1, after=after
    )
    items, more = found[:PAGE], None
    if len(found) > PAGE:
        last = items[-1]
        moment = last.timeout_at if view.standing == "open" else last.closed_at
        assert moment is not None
        more = view.href(after=_mark(moment, last.id))
    count = await visit.node.asks.count(by=visit.identity, cap=COUNT_CAP + 1)
    return Queue(view, items, more, count, after is not None)


async def _draw(
    visit: Visit, queue: Queue, pane: Pane | None, *, chosen: bool = True, status: int = 200
) -> Response:
    by = visit.identity
    tools, audiences = await visit.site.inbox.facets(audience=by.name if by.restricted else None)
    values: dict[str, Any] = {
        "queue": queue,
        "view": queue.view,
        "pane": pane,
        "chosen": str(pane.question.id) if pane is not None else None,
        "on_question": chosen,
        "tools": tools,
        "audiences": audiences,
        "standings": STANDINGS,
        "modes": MODES,
        "open_count": queue.open_count,
        "held_hooks": 0 if by.restricted else await visit.node.hook_runs.held(),
    }
    return visit.draw("inbox.html", status=status, **values)


def _mark(moment: datetime, identifier: UUID) -> str:
    micros = int(moment.timestamp()) * 1_000_000 + moment.microsecond
    return urlsafe_b64encode(micros.to_bytes(8, "big", signed=True) + identifier.bytes).decode().rstrip("=")


def _cursor(mark: str | None) -> Cursor | None:
    """The place of a page; one that is not ours is the first page."""
    if mark is None:
        return None
    try:
        raw = urlsafe_b64decode(mark + "=" * (-len(mark) % 4))
        if len(raw) != 24:
            return None
        micros = int.from_bytes(raw[:8], "big", signed=True)
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros), UUID(bytes=raw[8:])
    except (binascii.Error, ValueError, OverflowError):
        return None
