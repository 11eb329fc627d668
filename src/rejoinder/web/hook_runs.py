"""What an operator does with a hook run that is held: let it try again, or give it up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

from starlette.responses import Response

from rejoinder.contract.errors import ForbiddenError
from rejoinder.contract.identity import Identity
from rejoinder.hooks.kept import HookRunConflictError, HookRunNotFoundError
from rejoinder.language.spoken import later
from rejoinder.web import hooks
from rejoinder.web.site import Visit, redirect


async def retry(visit: Visit) -> Response:
    return await _act(visit, lambda one, by: visit.node.kept_runs.retry(one, by=by))


async def discard(visit: Visit) -> Response:
    return await _act(visit, lambda one, by: visit.node.kept_runs.discard(one, by=by))


async def _act(visit: Visit, act: Callable[[UUID, Identity], Awaitable[None]]) -> Response:
    if visit.identity.restricted:
        raise ForbiddenError(later("A restricted key sees only what is addressed to it."))
    identifier = visit.identifier()
    if identifier is None:
        raise HookRunNotFoundError()
    try:
        await act(identifier, visit.identity)
    except HookRunConflictError as error:
        return await hooks.show(visit, message=error.message, status=error.status)
    return redirect("/hooks")
