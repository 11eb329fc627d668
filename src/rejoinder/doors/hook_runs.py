"""Hook runs and notifications: what waits, what is held for an operator, and what an operator does with it."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rejoinder.contract.errors import BadInputError
from rejoinder.doors.admission import Door, needs, unrestricted
from rejoinder.doors.bodies import reply
from rejoinder.doors.parameters import maybe_uuid
from rejoinder.doors.schemas import gives
from rejoinder.hooks.kept import HookRunNotFoundError
from rejoinder.node import Node
from rejoinder.store.hook_runs import FIRST


def router(node: Node) -> APIRouter:
    api = APIRouter(route_class=Door, tags=["hooks"])

    @api.get("/api/hook-runs", openapi_extra=needs("read", **gives("HookRuns")), summary="List hook runs")
    async def listed(
        request: Request,
        status: Annotated[Literal["outstanding", "failed"], Query()] = "outstanding",
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        cursor: Annotated[str | None, Query(max_length=200)] = None,
    ) -> Response:
        """Newest first: those that wait or go on (``outstanding``), or those that are held (``failed``). ``next_cursor``
        leads to the next page. Nothing of the events themselves is shown. The counts stop at 10,000."""
        unrestricted(request)
        page = await node.kept_runs.page(status, after=_place(cursor), limit=limit)
        return reply(
            {
                "items": [one.as_json() for one in page.items],
                "next_cursor": None if page.next is None else _cursor(page.next),
                "outstanding": page.outstanding,
                "failed": page.failed,
            }
        )

    @api.post(
        "/api/hook-runs/{hook_run_id}/retry",
        openapi_extra=needs("write", refuses=(404, 409), **gives("HookRunChanged")),
        summary="Retry a held hook run",
    )
    async def retry(request: Request) -> Response:
        """Where ``claim_intent`` is ``start``, replays the tool start that was recorded; where it is empty, runs the hook
        again on its event. One whose tool went on after an answer (``resume``) is refused."""
        by = unrestricted(request)
        identifier = _id(request.path_params["hook_run_id"])
        await node.kept_runs.retry(identifier, by=by)
        return reply({"id": str(identifier), "status": "outstanding"})

    @api.delete(
        "/api/hook-runs/{hook_run_id}",
        openapi_extra=needs("write", refuses=(404, 409), **gives("HookRunChanged")),
        summary="Discard a held hook run",
    )
    async def discard(request: Request) -> Response:
        """Takes it off the list. Nothing runs, and its event is forgotten in time."""
        by = unrestricted(request)
        identifier = _id(request.path_params["hook_run_id"])
        await node.kept_runs.discard(identifier, by=by)
        return reply({"id": str(identifier), "status": "discarded"})

    @api.get(
        "/api/notifications",
        openapi_extra=needs("read", **gives("Notifications")),
        summary="List what the deployment's people should see",
        tags=["operations"],
    )
    async def notifications(
        request: Request,
        unresolved: Annotated[bool, Query()] = False,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> Response:
        """Newest first. ``unresolved`` leaves out those whose cause is gone: a hook run that was retried or discarded."""
        unrestricted(request)
        found = await node.notifications.newest(unresolved=unresolved, limit=limit)
        return reply({"items": [one.as_json() for one in found]})

    return api


def _id(text: str) -> UUID:
    found = maybe_uuid(text)
    if found is None:
        raise HookRunNotFoundError()
    return found


def _cursor(place: tuple[datetime, UUID]) -> str:
    return base64.urlsafe_b64encode(f"{place[0].isoformat()} {place[1]}".encode()).decode().rstrip("=")


def _place(cursor: str | None) -> tuple[datetime, UUID]:
    if cursor is None:
        return FIRST
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        moment, _, identifier = text.partition(" ")
        at, found = datetime.fromisoformat(moment), maybe_uuid(identifier)
    except (ValueError, binascii.Error):
        found = None
    if found is None or at.tzinfo is None or not 1970 <= at.year <= 9990:
        raise BadInputError("cursor is not one that a list gave", field="cursor")
    return at, found
