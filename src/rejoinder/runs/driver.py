"""Driving a run's code: the context around it, the park it leaves, and what its end means."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from rejoinder.asks.asker import Asker
from rejoinder.asks.service import Asks
from rejoinder.contract import pause
from rejoinder.contract.answers import SuspendedInteraction
from rejoinder.contract.deliveries import Delivery
from rejoinder.contract.errors import (
    LeaseLostError,
    NotReadyError,
    ParkRunTakenDownError,
    RejoinderError,
    SuspensionError,
    ToolFailedError,
)
from rejoinder.contract.settings import Settings
from rejoinder.contract.text import storable_text
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics
from rejoinder.runs.agent import Conductor
from rejoinder.runs.context import RunContext, entering, leaving
from rejoinder.runs.outcome import Parked, RunResult
from rejoinder.runs.resumable import Resumable
from rejoinder.runs.tools import Tool, suspensions, to_json
from rejoinder.store import signals as s
from rejoinder.store.runs import Runs
from rejoinder.store.signals import Signals

if TYPE_CHECKING:
    from rejoinder.runs.nested import NestedCalls

log = get_logger("runs")
T = TypeVar("T")

#: Longer error texts are cut where they are kept; the log has them whole.
MAX_ERROR_TEXT = 8_192


class EscapedError(Exception):
    """The author's code raised what is no Exception; it is the cause of this one."""


class Driver:
    def __init__(self, runs: Runs, asks: Asks, signals: Signals, settings: Settings) -> None:
        self._runs = runs
        self._asks = asks
        self._signals = signals
        self._settings = settings
        self.nested: NestedCalls | None = None

    async def drive(
        self,
        tool: Tool,
        asker: Asker,
        arguments: dict[str, Any],
        code: Callable[[], Awaitable[Any]],
        *,
        attempt: int = 1,
        returned: str = "run.returned",
        listen: Callable[[dict[str, Any]], None] | None = None,
        delivery: Delivery | None = None,
    ) -> RunResult:
        """Run ``code`` as this run. Returns its result, or that it is parked. Raises the exceptions that it raised;
        EscapedError in the place of what is no Exception, and CancelledError only where the run was cancelled."""
        context = RunContext(
            run_id=asker.run_id,
            tool=tool.name,
            arguments=arguments,
            identity=asker.identity,
            asker=asker,
            asks=self._asks,
            settings=self._settings,
            loop=asyncio.get_running_loop(),
            attempt=attempt,
            listen=listen,
            nested=self.nested,
            delivery=delivery,
        )
        token = entering(context)
        try:
            result = await code()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling() > 0:
                raise
            # Nobody cancelled this run: the code let something of its own be cancelled.
            raise EscapedError() from error
        except Exception:
            raise
        except GeneratorExit:
            # The loop is torn down around the code, which may not go on to anything.
            raise
        except BaseException as error:
            # Such as sys.exit(): in a task of the event loop it would end this process and every other run in it.
            raise EscapedError() from error
        finally:
            asker.over = True
            leaving(token)
        await pause.here(returned)
        return await self._settle(tool, asker, result)

    async def _settle(self, tool: Tool, asker: Asker, result: Any) -> RunResult:
        if isinstance(result, Parked):
            return await self._seal(tool, asker, list(result.questions))
        parked = suspensions(result)
        if parked is None:
            if asker.suspended:
                raise SuspensionError(
                    f'{tool.name} asked with mode="async" and then returned something else; return what ask returned'
                )
            value = to_json(result)
            return RunResult(asker.run_id, "none" if value is None else "result", value)
        mine = {one.interaction_id for one in asker.suspended}
        if {one.interaction_id for one in parked} != mine:
            raise SuspensionError(
                f'{tool.name} must return every question that it asked with mode="async" in this run, and no other'
            )
        if len(mine) > 1 and not tool.takes_several_answers:
            raise SuspensionError(
                f"{tool.name} parks on several questions, so its continuation must take answers"
            )
        return await self._seal(tool, asker, parked)

    async def _seal(self, tool: Tool, asker: Asker, parked: list[SuspendedInteraction]) -> RunResult:
        assert asker.park_id is not None
        park_id = asker.park_id
        if tool.preset_version is not None:
            # Before the run is parked, and so before anybody else can carry it on.
            version = tool.preset_version
            await patiently(lambda: self._runs.pin_preset(asker.run_id, version))
        status, resumes = await patiently(lambda: self._runs.seal(asker.run_id, asker.epoch, park_id))
        if status == "fenced":
            metrics.fenced.inc()
            raise LeaseLostError("this run has ended, or another worker drives it now; it was not parked")
        if status == "empty":
            raise ParkRunTakenDownError("a question of this run was withdrawn before the run could park")
        await pause.here("park.sealed")
        told = [s.run(asker.run_id), s.EVENTS] + ([s.RESUMES] if resumes else [])
        self._signals.tell(*told)
        sentinel = SuspendedInteraction(
            parked[0].interaction_id,
            min(one.expiry_at for one in parked),
            tool.name,
            tuple(one.interaction_id for one in parked),
        )
        # A run that finds its questions again knows no more what they were.
        may_ask = tool.checkpointed or any(one.asks for one in parked)
        if not may_ask or self.nested is None:
            return RunResult(asker.run_id, "parked", sentinel.as_json(), sentinel.expiry_at)
        # Some may have been answered meanwhile.
        return await self.nested.outcome(asker.run_id, sentinel)


def goes_on(tool: Tool, conductor: Conductor | None) -> bool:
    """Whether another process can carry a run of this tool on where this one left it, as far as what is kept goes."""
    return not tool.checkpointed or (conductor is not None and conductor.durable)


def may_begin_again(tool: Tool, conductor: Conductor | None) -> bool:
    """Whether a run whose worker ended is taken up by another one: what it has done is recorded, or may be redone."""
    return (tool.idempotent or tool.checkpointed) and goes_on(tool, conductor)


def refuse_undurable(tool: Tool, conductor: Conductor | None) -> None:
    """Before anything is written. Raises SuspensionError where a resumable tool's runs could not go on."""
    if not isinstance(tool, Resumable) or goes_on(tool, conductor):
        return
    where = "nowhere" if conductor is None or conductor.provider == "off" else f"in {conductor.provider}"
    raise SuspensionError(
        f"{tool.name} is resumable, and checkpoints are kept {where} (LLM_PROVIDER_CHECKPOINT), which no other worker "
        "could resume a run from; use postgres or redis"
    )


def code_of(tool: Tool, given: dict[str, Any], conductor: Conductor | None) -> Callable[[], Awaitable[Any]]:
    """A run's code from its beginning; an agent's and a resumable tool's from its checkpoint, where it has one."""
    if tool.checkpointed and conductor is not None:
        return lambda: conductor.drive(tool, given)
    return lambda: tool.call(given)


async def patiently(act: Callable[[], Awaitable[T]]) -> T:
    """Write what the run's code has come to, however long the database is away. ``act`` may be repeated: a write
    whose reply was lost finds itself done."""
    while True:
        try:
            return await act()
        except NotReadyError:
            await asyncio.sleep(0.2)


def public_error(error: BaseException, run_id: UUID) -> RejoinderError:
    """What a caller may know of an exception: ours as they are; the author's by name only, in full in the log."""
    if isinstance(error, RejoinderError):
        return error
    raised = error.__cause__ or error if isinstance(error, EscapedError) else error
    log.error("a tool raised an error", run_id=str(run_id), exc_info=raised)
    return ToolFailedError(f"the tool raised {type(raised).__name__}; the log has it under run {run_id}")


def stored_error(error: RejoinderError, *, code: str | None = None) -> dict[str, Any]:
    """``{"code", "error"[, "field"]}`` as a run keeps it. An author's text may hold what no column takes."""
    body = {"code": code or error.code, "error": storable_text(error.message, MAX_ERROR_TEXT)}
    if error.field is not None:
        body["field"] = storable_text(error.field, MAX_ERROR_TEXT)
    return body
