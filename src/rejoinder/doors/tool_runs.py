"""Tools, and their runs in the background: started, looked at, waited for, retried, discarded."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rejoinder.contract.errors import BadInputError, VisitRequestError
from rejoinder.contract.identity import Identity
from rejoinder.doors.admission import VIA, Door, identity_of, needs, still_admitted
from rejoinder.doors.blocking import unless_gone
from rejoinder.doors.bodies import LARGE, read_object, reply
from rejoinder.doors.parameters import Words, maybe_uuid, run_id
from rejoinder.doors.run_tool import KEYS, RUN_ID_HEADER, tool_and_arguments, traceparent
from rejoinder.doors.schemas import body, gives
from rejoinder.node import Node
from rejoinder.schedules.order import subject_of
from rejoinder.store import signals as s
from rejoinder.store.runs import Run

WAIT_CAP = 120.0
VISIT_KEYS = frozenset(("answers", "wait_seconds"))
#: A run that has come to one of these goes on only when somebody acts.
SETTLED = frozenset(("parked", "succeeded", "failed", "lost", "cancelled"))

Status = Literal["running", "parked", "succeeded", "failed", "lost", "cancelled"]


class RunWatch:
    """Wakes those who wait for a run. One registration for all of them; a slow poll is the floor."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        node.signals.hear(s.RUN, self._heard)

    def _heard(self, identifier: str) -> None:
        for event in self._waiting.get(identifier, ()):
            event.set()

    async def settled(self, identifier: UUID, by: Identity, seconds: float) -> Run:
        """The run once it is parked or has ended, or as it is after ``seconds``."""
        key, changed = str(identifier), asyncio.Event()
        floor = self._node.settings.rejoinder_poll_seconds
        deadline = time.monotonic() + seconds
        self._waiting[key].add(changed)
        try:
            while True:
                changed.clear()
                run = await self._node.run_service.get(identifier, by=by)
                left = deadline - time.monotonic()
                if run.state in SETTLED or left <= 0:
                    return run
                try:
                    # Not wait_for: on Python 3.11 it loses a cancellation that comes together with the event.
                    async with asyncio.timeout(min(left, floor)):
                        await changed.wait()
                except TimeoutError:
                    pass
        finally:
            self._waiting[key].discard(changed)
            if not self._waiting[key]:
                del self._waiting[key]


def router(node: Node) -> APIRouter:
    api = APIRouter(route_class=Door, tags=["runs"])
    watch = RunWatch(node)

    @api.get(
        "/api/tools",
        openapi_extra=needs("read", **gives("Tools")),
        summary="List the exposed tools",
        tags=["tools"],
    )
    async def tools(request: Request) -> Response:
        """Each with its name, title, description, input schema and group. An admin is shown internal ones too."""
        by = identity_of(request)
        admin = "admin" in by.grants and not by.restricted
        shown = [one for one in node.registry if admin or not one.tool.internal]
        return reply({"items": [_tool(one) for one in shown]})

    @api.post(
        "/api/tool-runs",
        status_code=202,
        openapi_extra=needs(
            "write",
            refuses=(400, 404, 408, 413),
            **body("BackgroundCall"),
            **gives("RunStarted", 202, X_Rejoinder_Run_Id="The run.", Location="Where the run is shown."),
        ),
        summary="Start a tool in the background",
    )
    async def start(request: Request) -> Response:
        """Records the run for a worker and answers at once with its ``run_id``. ``subject`` is what it is about, in
        the caller's words: the list can be filtered by it."""
        body = await read_object(request.scope, request.receive, LARGE, keys=KEYS | {"subject"})
        name, arguments = tool_and_arguments(body)
        identifier = await node.run_service.start_background(
            name,
            arguments,
            by=identity_of(request),
            traceparent=traceparent(request),
            subject=subject_of(body.get("subject")),
        )
        headers = {
            RUN_ID_HEADER.decode(): str(identifier),
            "location": f"/api/tool-runs/{identifier}",
        }
        return reply({"run_id": str(identifier)}, status=202, headers=headers)

    @api.get("/api/tool-runs", openapi_extra=needs("read", **gives("Runs")), summary="List the newest runs")
    async def newest(
        request: Request,
        tool_name: Words = None,
        status: Annotated[Status | None, Query()] = None,
        held: Annotated[bool | None, Query()] = None,
        subject: Words = None,
        limit: Annotated[int | None, Query(ge=1, le=500)] = None,
    ) -> Response:
        """Newest first, without their arguments, results and errors. ``held`` ones wait for an operator."""
        found = await node.run_service.newest(
            by=identity_of(request), tool=tool_name, state=status, held=held, subject=subject, limit=limit
        )
        return reply({"items": [run.as_json(bodies=False) for run in found]})

    @api.get(
        "/api/tool-runs/{run_id}",
        openapi_extra=needs("read", refuses=(404,), **gives("Run")),
        summary="Show one run",
    )
    async def show(request: Request) -> Response:
        """Its status, arguments, result and error; and, while it is parked, what it asks its caller."""
        identifier = run_id(request.path_params["run_id"])
        standing = await node.visits.look(identifier, by=identity_of(request))
        return reply(standing.run.as_json() | ({"asks": standing.asks()} if standing.questions else {}))

    @api.get(
        "/api/tool-runs/{run_id}/wait",
        openapi_extra=needs("read", refuses=(404,), **gives("Run")),
        summary="Wait for a run",
    )
    async def wait(
        request: Request, seconds: Annotated[float, Query(ge=0, allow_inf_nan=False)] = 30
    ) -> Response:
        """Answers when the run is parked or has ended, or after ``seconds`` (at most 120) as it is then."""
        identifier = run_id(request.path_params["run_id"])
        waiting = watch.settled(identifier, identity_of(request), min(seconds, WAIT_CAP))
        still = still_admitted(request, "read")
        return reply((await unless_gone(request.receive, waiting, still)).as_json())

    @api.post(
        "/api/tool-runs/{run_id}/resume",
        openapi_extra=needs(
            "write", refuses=(400, 404, 408, 409, 410, 413), **body("Resume"), **gives("RunResult")
        ),
        summary="Answer what a run asks its caller",
    )
    async def resume(request: Request) -> Response:
        """``answers`` maps the ids of what the run asks (``kind`` ``asks`` of its call, or ``asks`` where it is shown)
        to the answers. Waits until the run needs somebody again or has ended, at most ``wait_seconds`` (30, and at
        most 120), and answers as running the tool does. Only the identity that called the run may."""
        identifier = run_id(request.path_params["run_id"])
        answers, seconds = _visit(await read_object(request.scope, request.receive, LARGE, keys=VISIT_KEYS))
        coming = node.visits.resume(
            identifier, answers, by=identity_of(request), via=VIA, seconds=min(seconds, WAIT_CAP)
        )
        result = await unless_gone(request.receive, coming, still_admitted(request, "write"))
        return reply(result.as_json(), headers={RUN_ID_HEADER.decode(): str(identifier)})

    @api.post(
        "/api/tool-runs/{run_id}/retry",
        openapi_extra=needs("write", refuses=(404, 409), **gives("RunChanged")),
        summary="Retry a held run",
    )
    async def retry(request: Request) -> Response:
        """Sends a run that is held for an operator to the workers once more."""
        identifier = run_id(request.path_params["run_id"])
        await node.run_service.retry(identifier, by=identity_of(request))
        return reply({"run_id": str(identifier), "status": "queued"})

    @api.delete(
        "/api/tool-runs/{run_id}",
        openapi_extra=needs("write", refuses=(404, 409), **gives("RunChanged")),
        summary="Discard a held run",
    )
    async def discard(request: Request) -> Response:
        """Takes a held run off the operator's list; it stays as it ended."""
        identifier = run_id(request.path_params["run_id"])
        await node.run_service.discard(identifier, by=identity_of(request))
        return reply({"run_id": str(identifier), "status": "discarded"})

    return api


def _visit(body: dict[str, Any]) -> tuple[dict[UUID, Any], float]:
    given = body.get("answers")
    if not isinstance(given, dict) or not given:
        raise VisitRequestError(
            "answers must map the id of what the run asks to the answer", rule="no-answer", field="answers"
        )
    answers: dict[UUID, Any] = {}
    for text, value in given.items():
        identifier = maybe_uuid(text)
        if identifier is None:
            raise VisitRequestError(
                "answers has a key that is not an id of what the run asks",
                rule="unknown-entry",
                field="answers",
            )
        answers[identifier] = value
    seconds = body.get("wait_seconds", 30)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise BadInputError("wait_seconds must be a number of seconds, 0 or more", field="wait_seconds")
    return answers, float(min(seconds, WAIT_CAP))


def _tool(exposed: Any) -> dict[str, Any]:
    tool = exposed.tool
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "group": exposed.group,
        "read_only": tool.read_only,
        "destructive": tool.destructive,
        "idempotent": tool.idempotent,
        "internal": tool.internal,
    }
