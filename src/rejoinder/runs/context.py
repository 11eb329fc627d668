"""The run that the current code belongs to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from rejoinder.asks.asker import Asker
from rejoinder.asks.service import Asks
from rejoinder.contract.deliveries import Delivery
from rejoinder.contract.errors import NoRunError
from rejoinder.contract.identity import Identity
from rejoinder.contract.settings import Settings

if TYPE_CHECKING:
    from rejoinder.runs.nested import NestedCalls
    from rejoinder.runs.resumable import Replay


@dataclass(slots=True)
class RunContext:
    """What ``ask`` needs of the run around it. Tools may read ``run_id``, ``identity``, ``arguments``,
    ``attempt`` (1 for the first time this phase's code is entered) and, inside a step, ``idempotency_key``: the same
    text whenever that step of that run is tried."""

    run_id: UUID
    tool: str
    arguments: dict[str, Any]
    identity: Identity
    asker: Asker
    asks: Asks
    settings: Settings
    loop: asyncio.AbstractEventLoop
    attempt: int = 1
    #: Told what an agent does while it does it.
    listen: Callable[[dict[str, Any]], None] | None = None
    #: Runs the tools that this one calls.
    nested: NestedCalls | None = None
    #: What a hook started this run on.
    delivery: Delivery | None = None
    #: Carries a resumable run on; None inside its steps, and in every other run.
    replay: Replay | None = None
    idempotency_key: str | None = None


_current: ContextVar[RunContext | None] = ContextVar("rejoinder_run", default=None)


def current_run() -> RunContext:
    """The run this code is part of. Raises NoRunError outside one."""
    run = _current.get()
    if run is None:
        raise NoRunError()
    return run


def entered_run() -> RunContext | None:
    return _current.get()


def current_delivery() -> Delivery | None:
    """The kept delivery that a hook started this run on; None in every other run, and in those that this one calls.

    It is read from the store by the run, and never from arguments, which anybody could have made up. Raises NoRunError
    outside a run."""
    return current_run().delivery


def entering(run: RunContext) -> Any:
    return _current.set(run)


def leaving(token: Any) -> None:
    _current.reset(token)
