"""Questions for the pages to show, asked by the builtin tool the way an agent does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rejoinder.contract.identity import Identity
from rejoinder.contract.questions import Question
from rejoinder.node import Node
from rejoinder.runs.outcome import RunResult
from tests.support import assert_eventually

AGENT = Identity(name="agent", grants=frozenset(("read", "write")))


class Asked:
    def __init__(self, question: Question, call: asyncio.Task[RunResult]) -> None:
        self.question = question
        self.path = f"/inbox/{question.id}"
        self.call = call

    async def result(self) -> Any:
        """What the asking call got: the answer itself, typed."""
        return (await self.call).result["answer"]


@asynccontextmanager
async def asked(
    node: Node, question: str = "May I?", *, by: Identity = AGENT, **arguments: Any
) -> AsyncIterator[Asked]:
    """A call that waits for its answer. It is cancelled, if nobody answered, at the end."""
    known = {one.id for one in await node.asks.page(by=AGENT, limit=200)}
    tool = arguments.pop("tool", "ask")
    given = {"question": question, **arguments} if tool == "ask" else arguments
    call = asyncio.create_task(node.run_service.call(tool, given, by=by, door="test"))

    async def recorded() -> Question | None:
        if call.done():
            call.result()
        fresh = [one for one in await node.asks.page(by=AGENT, limit=200) if one.id not in known]
        return fresh[0] if fresh else None

    found = await assert_eventually(recorded, "no question was asked")
    assert found is not None
    try:
        yield Asked(found, call)
    finally:
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
