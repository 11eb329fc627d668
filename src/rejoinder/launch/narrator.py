"""What ``rejoinder up`` says while it runs: who asks, who answered, and how the run went on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from rejoinder.contract.errors import NotReadyError
from rejoinder.contract.terminal import one_line
from rejoinder.node import Node
from rejoinder.observe.logs import get_logger
from rejoinder.store import signals as s
from rejoinder.store.events import Event, Place

log = get_logger("up")

BATCH = 200
POLL_SECONDS = 5.0
#: Characters of a question, an answer or a result that a line shows.
SHOWN = 160

ENDED = {
    "run.succeeded": "finished",
    "run.failed": "failed",
    "run.cancelled": "was withdrawn",
    "run.lost": "was lost with its process",
    "run.held": "is held until somebody retries or discards it",
}


class Narrator:
    """Reads the events of the store, whoever caused them, from the moment it was started."""

    def __init__(self, node: Node, say: Callable[[str], None]) -> None:
        self._node = node
        self._say = say
        self._wake = asyncio.Event()
        self._place: Place | None = None
        self._task: asyncio.Task[None] | None = None
        node.signals.hear(s.EVENTS, lambda _id: self._wake.set())

    async def start(self) -> None:
        self._place = await self._node.events.tip()
        self._task = asyncio.create_task(self._run(), name="narrator")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self._catch_up()
            except NotReadyError:
                continue
            except Exception:
                log.exception("an event could not be told")

    async def _catch_up(self) -> None:
        assert self._place is not None
        while True:
            events = await self._node.events.since(self._place, BATCH)
            for event in events:
                self._place = Place(event.xid, event.seq)
                line = await self._line(event)
                if line is not None:
                    self._say(f"{datetime.now().astimezone():%H:%M:%S}  {line}")
            if len(events) < BATCH:
                break
        if await self._node.events.unseen_age(self._place) is not None:
            # A transaction that still runs holds one back: look again without waiting for a signal.
            await asyncio.sleep(0.05)
            self._wake.set()

    async def _line(self, event: Event) -> str | None:
        if event.interaction_id is not None:
            return await self._about_question(event)
        if event.run_id is not None and event.kind in ENDED:
            return await self._about_end(event)
        return None

    async def _about_question(self, event: Event) -> str | None:
        assert event.interaction_id is not None
        question = await self._node.questions.by_id(event.interaction_id)
        if question is None:
            return None
        match event.kind:
            case "interaction.add":
                return f"{question.tool} asks: {one_line(question.question, SHOWN)}"
            case "interaction.answered":
                shown = "not shown" if question.sensitive else _short(question.answer)
                return f"{one_line(event.actor or 'somebody')} answered {question.tool}: {shown}"
            case "interaction.removed" if event.reason == "expired":
                return f"{question.tool} got no answer in time."
            case "interaction.removed":
                return f"The question of {question.tool} was withdrawn."
            case _:
                return None

    async def _about_end(self, event: Event) -> str | None:
        assert event.run_id is not None
        run = await self._node.runs.by_id(event.run_id)
        if run is None:
            return None
        if event.kind == "run.succeeded":
            went_on = "went on with the answer and " if run.phase == "resume" else ""
            result = f": {_short(run.result)}" if run.result is not None else "."
            return f"{run.tool} {went_on}finished{result}"
        why = (run.error or {}).get("error")
        return f"{run.tool} {ENDED[event.kind]}" + (f": {one_line(str(why), SHOWN)}" if why else ".")


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return one_line(text, SHOWN)
