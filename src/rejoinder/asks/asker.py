"""The run that asks, as the ask core sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from rejoinder.asks.horizon import Horizon
from rejoinder.contract.answers import SuspendedInteraction
from rejoinder.contract.identity import Identity
from rejoinder.store.questions import RunReference


@dataclass(slots=True)
class Asker:
    """``cannot_park`` is why it may not ask with mode="async", or None;
    ``over``: its code has ended, and what it left behind may ask nothing more."""

    run_id: UUID
    epoch: int
    tool: str
    identity: Identity
    owner_process: UUID
    new_run: dict[str, Any] | None
    cannot_park: str | None
    #: Names its next parked question. Where it is not random, code that is played again finds what it asked before.
    name_question: Callable[[], UUID] = uuid4
    #: How far ahead the deadline of a parked question may lie.
    horizon: Horizon | None = None
    over: bool = False
    #: Somebody waits for its run at the other end of a connection.
    blocks: bool = False
    #: Others than its driver wait for what it asks: they are told of each question by the id of this run.
    followed: UUID | None = None
    ordinal: int = 0
    park_id: UUID | None = None
    suspended: list[SuspendedInteraction] = field(default_factory=list)
    writing: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def finds_again(self) -> bool:
        """Whether a parked question that it recorded stays open for the next one who plays its code."""
        return self.name_question is not uuid4

    @property
    def has_asked(self) -> bool:
        """Whether this run may have a row: it has tried to record a question."""
        return self.new_run is None or self.ordinal > 0

    async def written(self) -> None:
        """Until every record that is under way has ended one way or the other."""
        while self.writing:
            await asyncio.wait(set(self.writing))

    def reference(self) -> RunReference:
        return RunReference(
            self.run_id, self.epoch, self.tool, self.identity.name, self.owner_process, self.new_run
        )
