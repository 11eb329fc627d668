"""Open questions: the list, the operator's view of parked ones, one of them, and withdrawing one."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rejoinder.contract.errors import BadInputError
from rejoinder.contract.questions import Question
from rejoinder.doors.admission import VIA, Door, identity_of, needs
from rejoinder.doors.bodies import reply
from rejoinder.doors.parameters import interaction_id, maybe_uuid
from rejoinder.doors.schemas import gives
from rejoinder.node import Node

PAGE = 50
PAGE_CAP = 200
#: Counting is exact up to here; counting a million rows for every page would cost more than the page.
COUNT_CAP = 10_000
SHORT = 200


def router(node: Node) -> APIRouter:
    api = APIRouter(route_class=Door, tags=["interactions"])

    @api.get(
        "/api/interactions",
        openapi_extra=needs("read", **gives("QuestionPage")),
        summary="List open questions",
    )
    async def list_open(
        request: Request,
        page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
        page_size: Annotated[int, Query(alias="pageSize", ge=1, le=2**31 - 1)] = PAGE,
        cursor: Annotated[str | None, Query(max_length=200)] = None,
    ) -> Response:
        """Oldest deadline first. ``next_cursor`` goes on from this page at the same cost however far it is;
        ``page`` counts from the beginning. ``total`` is exact up to 10,000; beyond, ``truncated`` is true."""
        by, size = identity_of(request), min(page_size, PAGE_CAP)
        if cursor is None:
            found = await node.asks.page(by=by, limit=size + 1, offset=(page - 1) * size)
        else:
            found = await node.asks.page(by=by, limit=size + 1, after=_place(cursor))
        total = await node.asks.count(by=by, cap=COUNT_CAP + 1)
        more, shown = len(found) > size, found[:size]
        return reply(
            {
                "items": [question.as_item() for question in shown],
                "total": min(total, COUNT_CAP),
                "page": page if cursor is None else None,
                "page_size": size,
                "next_page": page + 1 if more and cursor is None else None,
                "next_cursor": _cursor(shown[-1]) if more else None,
                "truncated": total > COUNT_CAP,
            }
        )

    @api.get(
        "/api/interactions/pending",
        openapi_extra=needs("read", **gives("ParkedQuestions")),
        summary="List parked questions",
    )
    async def list_parked(
        request: Request, limit: Annotated[int, Query(ge=-(2**31), le=2**31 - 1)] = 500
    ) -> Response:
        """What parked runs wait for, oldest deadline first. ``limit`` is held between 1 and 1000."""
        found = await node.asks.parked(by=identity_of(request), limit=max(1, min(limit, 1000)))
        return reply({"items": [_parked(question) for question in found], "count": len(found)})

    @api.get(
        "/api/interactions/{interaction_id}",
        openapi_extra=needs("read", refuses=(404,), **gives("QuestionDetail")),
        summary="Show one question",
    )
    async def show(request: Request) -> Response:
        """The list's item, and its ``status`` and how it ended where it has."""
        identifier = interaction_id(request.path_params["interaction_id"])
        return reply(detail(await node.asks.get(identifier, by=identity_of(request))))

    @api.post(
        "/api/interactions/{interaction_id}/cancel",
        openapi_extra=needs("write", refuses=(404, 409, 410), **gives("Cancelled")),
        summary="Withdraw a question",
    )
    async def cancel(request: Request) -> Response:
        """A caller that is blocked on it wakes with an error; a run that is parked on it ends with it."""
        identifier = interaction_id(request.path_params["interaction_id"])
        await node.asks.cancel(identifier, by=identity_of(request), via=VIA)
        return reply({"interaction_id": str(identifier), "status": "cancelled"})

    @api.post(
        "/api/interactions/{interaction_id}/open",
        openapi_extra=needs("write", refuses=(400, 404, 409, 503), **gives("OpenedLink")),
        summary="Get the link of an external question",
    )
    async def open_link(request: Request) -> Response:
        """For the person who is asked, who goes there next: the whole link, with a ticket of its own in it. Whoever has
        it can answer. The trail tells who was given one."""
        by = identity_of(request)
        question = await node.asks.get(interaction_id(request.path_params["interaction_id"]), by=by)
        url = await node.callbacks.send_out(question, by=by, via=VIA)
        return reply({"interaction_id": str(question.id), "url": url})

    return api


def detail(question: Question) -> dict[str, Any]:
    item = question.as_item()
    item["status"] = question.state
    if question.closed_at is not None:
        item["closed_at"] = question.closed_at.isoformat()
        item["closed_by"] = question.closed_by
        item["closed_via"] = question.closed_via
        item["reason"] = question.reason
    if question.state == "answered" and not question.sensitive:
        item["answer"] = question.answer
    return item


def _parked(question: Question) -> dict[str, Any]:
    text = question.question
    return {
        "interaction_id": str(question.id),
        "group_id": question.group_id,
        "question": text if len(text) <= SHORT else text[: SHORT - 1] + "…",
        "answer_format": question.answer_format,
        "channel": None,
        "recipient": None,
        "audience": question.audience,
        "thread_id": None,
        "expiry_at": question.timeout_at.isoformat(),
        "on_expiry": question.on_expiry,
        "created_at": question.created_at.isoformat(),
        "mode": question.mode,
        "tool": question.tool,
        "run_id": str(question.run_id),
    }


def _cursor(question: Question) -> str:
    place = f"{question.timeout_at.isoformat()}|{question.id}"
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _place(cursor: str) -> tuple[datetime, UUID]:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode(
            "ascii"
        )
        moment, _, identifier = text.partition("|")
        at, last = datetime.fromisoformat(moment), maybe_uuid(identifier)
        if last is None or at.tzinfo is None or not 1970 <= at.year <= 9990:
            raise ValueError
    except ValueError:
        raise BadInputError("cursor is not one that this list gave", field="cursor") from None
    return at, last
