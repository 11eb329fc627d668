"""Runs: the newest, those that wait for an operator first, and one with its questions, its trail and its result."""

from __future__ import annotations

from starlette.responses import Response

from rejoinder.contract.errors import RunConflictError, RunNotFoundError
from rejoinder.store.runs import Run
from rejoinder.web.drawing import link
from rejoinder.web.site import Visit, redirect
from rejoinder.web.words import RUN_STATES

LIMIT = 100
TRAIL = 200


async def show_all(visit: Visit) -> Response:
    state, tool = visit.query("state"), visit.query("tool")
    state = state if state in RUN_STATES else None
    service = visit.node.run_service
    held = await service.newest(by=visit.identity, tool=tool, held=True, limit=LIMIT)
    found = await service.newest(by=visit.identity, tool=tool, state=state, limit=LIMIT)
    return visit.draw(
        "runs.html",
        held=[] if state else held,
        runs=found,
        full=len(found) >= LIMIT,
        state=state,
        tool=tool,
        states=RUN_STATES,
    )


async def show_one(visit: Visit) -> Response:
    return await _draw(visit, await _run(visit))


async def retry(visit: Visit) -> Response:
    run = await _run(visit)
    try:
        await visit.node.run_service.retry(run.id, by=visit.identity)
    except RunConflictError as error:
        return await _draw(visit, await _run(visit), error.message, error.status)
    return redirect(f"/runs/{run.id}")


async def discard(visit: Visit) -> Response:
    run = await _run(visit)
    try:
        await visit.node.run_service.discard(run.id, by=visit.identity)
    except RunConflictError as error:
        return await _draw(visit, await _run(visit), error.message, error.status)
    return redirect(link("/runs"))


async def _run(visit: Visit) -> Run:
    identifier = visit.identifier()
    if identifier is None:
        raise RunNotFoundError()
    return await visit.node.run_service.get(identifier, by=visit.identity)


async def _draw(visit: Visit, run: Run, message: str | None = None, status: int = 200) -> Response:
    by = visit.identity
    questions = await visit.node.questions.of_run(run.id)
    trail = await visit.node.events.page(run_id=run.id, limit=TRAIL)
    return visit.draw(
        "run.html",
        status=status,
        run=run,
        message=message,
        questions=[one for one in questions if by.may_see(one.audience)],
        trail_cut=len(trail) >= TRAIL,
        trail=[one for one in trail if one.audience is None or by.may_see(one.audience)],
        states=RUN_STATES,
    )
