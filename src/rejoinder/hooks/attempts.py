"""One attempt of a hook on a delivery: what the hook makes of the event, and what becomes of the run that it starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from uuid import UUID, uuid5

from rejoinder.contract import pause
from rejoinder.contract.errors import BadInputError, NotReadyError, RejoinderError
from rejoinder.contract.identity import Identity
from rejoinder.contract.settings import Settings
from rejoinder.contract.text import storable_text
from rejoinder.expressions import NOTHING, Expression, Expressions
from rejoinder.hooks.kinds import FINAL, Kind, kind_of, kind_of_run
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics
from rejoinder.observe.tracing import span, stored_context
from rejoinder.runs.agent import Conductor
from rejoinder.runs.driver import MAX_ERROR_TEXT, goes_on, may_begin_again, refuse_undurable
from rejoinder.runs.manifest import Registry
from rejoinder.store import signals as s
from rejoinder.store.hook_runs import HookRun, HookRuns, Material
from rejoinder.store.runs import Runs
from rejoinder.store.signals import Signals

log = get_logger("hooks")


class Keys(Protocol):
    """Access, as hooks need it."""

    async def identity_of_key(self, key_id: UUID) -> Identity | None:
        """The identity of a stored key, or None where it was revoked or has expired."""
        ...


class ExecutionKeyError(RejoinderError):
    """The key that this hook runs under was revoked or has expired, or there is none. Register the hook with a live one."""

    code = "execution-key-gone"
    status = 403


class Attempts:
    def __init__(
        self,
        hook_runs: HookRuns,
        runs: Runs,
        registry: Registry,
        expressions: Expressions,
        keys: Keys,
        signals: Signals,
        settings: Settings,
        conductor: Conductor | None = None,
    ) -> None:
        self._hook_runs = hook_runs
        self._runs = runs
        self._registry = registry
        self._expressions = expressions
        self._keys = keys
        self._signals = signals
        self._settings = settings
        self._conductor = conductor

    async def take_on(self, hook_run: HookRun) -> None:
        """Begin the next attempt, or judge how the last one's run ended. Raises NotReadyError: it is due again when its
        claim has lapsed."""
        if hook_run.run_id is not None:
            await self._judge(hook_run, hook_run.run_id)
            return
        attempt = hook_run.attempts + 1
        try:
            await self._begin(hook_run, attempt)
        except NotReadyError:
            raise
        except RejoinderError as error:
            await self._failed(hook_run, attempt, None, kind_of(error), error.message)
        except Exception:
            # Such as an author's own check of an argument. Counted as any other: else it would come again for ever.
            log.exception("a hook run could not be begun", hook_run=str(hook_run.id), hook=hook_run.hook)
            await self._failed(
                hook_run, attempt, None, "internal", "it could not be begun; the log says why under its id"
            )

    async def _begin(self, hook_run: HookRun, attempt: int) -> None:
        while True:
            material = await self._hook_runs.material(hook_run.id)
            if material is None:
                await self._skip(hook_run, attempt, "the hook was deleted, or is on another topic now")
                return
            arguments = await self._arguments(material)
            await pause.here("hook.evaluated")
            if arguments is None:
                await self._skip(hook_run, attempt, "the hook starts nothing on this event")
                return
            status = await self._start(hook_run, attempt, material, arguments)
            if status != "changed":
                return

    async def _arguments(self, material: Material) -> dict[str, Any] | None:
        """What the tool is given, or None where the hook starts nothing on this event."""
        event = material.payload
        if material.condition is not None:
            held = await self._run(material.condition, event, "condition")
            if held is NOTHING or held is None or held is False:
                return None
        made: Any = {}
        if material.start_expr is not None:
            made = await self._run(material.start_expr, event, "start_expr")
            if made is NOTHING or made is None:
                return None
            if not isinstance(made, dict):
                raise BadInputError("start_expr must come to an object or to null", field="start_expr")
        return {**made, **_kwargs(material.trigger_kwargs), **_kwargs(material.tool_kwargs)}

    async def _run(self, text: str, event: Any, field: str) -> Any:
        return await self._expressions.run(Expression.read(text, field=field), event)

    async def _start(
        self, hook_run: HookRun, attempt: int, material: Material, arguments: dict[str, Any]
    ) -> str:
        identity = None
        if material.key_id is not None:
            identity = await self._keys.identity_of_key(material.key_id)
        if identity is None or material.key_id is None:
            raise ExecutionKeyError()
        tool = self._registry.get(material.tool)
        tool.check_arguments(arguments)
        refuse_undurable(tool, self._conductor)
        run_id = uuid5(hook_run.id, str(attempt))
        with span(
            "rejoinder.hook", attributes={"rejoinder.tool": tool.name, "rejoinder.hook": material.hook}
        ):
            status = await self._hook_runs.start(
                hook_run.id,
                attempt,
                run_id,
                hook_at=material.updated_at,
                tool=tool.name,
                arguments=arguments,
                identity=identity.name,
                key_id=material.key_id,
                idempotent=may_begin_again(tool, self._conductor),
                checkpointed=tool.checkpointed and goes_on(tool, self._conductor),
                trace=stored_context(),
                preset_version=tool.preset_version,
            )
        await pause.here("hook.started")
        if status == "started":
            metrics.hook_runs.labels("started").inc()
            self._signals.tell(s.STARTS, s.EVENTS)
        return status

    async def _skip(self, hook_run: HookRun, attempt: int, why: str) -> None:
        if await self._hook_runs.skip(hook_run.id, attempt, why):
            metrics.hook_runs.labels("skipped").inc()

    async def _judge(self, hook_run: HookRun, run_id: UUID) -> None:
        run = await self._runs.by_id(run_id)
        await pause.here("hook.judging")
        if run is None:
            # Pruned before anybody came: what it did is not known any more.
            await self._hold(hook_run, run_id, "interrupted", "its run is not known any more", "start")
            return
        code = (run.error or {}).get("code")
        kind = kind_of_run(run.state, code)
        error = str((run.error or {}).get("error", "the run ended"))
        if run.phase == "resume":
            # It went on after an answer, and whoever answered would have to be asked again.
            await self._hold(hook_run, run_id, kind, error, "resume")
        elif run.held or kind == "interrupted":
            await self._hold(hook_run, run_id, kind, error, "start")
        elif hook_run.acted:
            # It has asked people, and asking them anew is for an operator.
            await self._hold(hook_run, run_id, kind, error, None)
        else:
            await self._failed(hook_run, hook_run.attempts, run_id, kind, error)

    async def _hold(self, hook_run: HookRun, run_id: UUID, kind: Kind, error: str, intent: Any) -> None:
        """It may have acted, so nothing begins it again by itself."""
        status = await self._hook_runs.fail(
            hook_run.id,
            hook_run.attempts,
            run_id,
            kind=kind,
            error=storable_text(error, MAX_ERROR_TEXT),
            again=None,
            acted=True,
            intent=intent,
        )
        self._tell(hook_run, kind, status)

    async def _failed(
        self, hook_run: HookRun, attempt: int, run_id: UUID | None, kind: Kind, error: str
    ) -> None:
        settings = self._settings
        turn = attempt - hook_run.attempts_before
        again: float | None = None
        if kind not in FINAL and turn < settings.hooks_run_max_attempts:
            delay = settings.hooks_run_retry_base_seconds * 2 ** min(turn - 1, 30)
            again = min(delay, settings.hooks_run_retry_cap_seconds)
        status = await self._hook_runs.fail(
            hook_run.id,
            attempt,
            run_id,
            kind=kind,
            error=storable_text(error, MAX_ERROR_TEXT),
            again=again,
        )
        self._tell(hook_run, kind, status)

    def _tell(self, hook_run: HookRun, kind: Kind, status: str) -> None:
        if status == "over":
            return
        metrics.hook_runs.labels("failed" if status == "held" else "retried").inc()
        if status == "held":
            log.error(
                "hooks_run_failed",
                hook_run=str(hook_run.id),
                hook=hook_run.hook,
                topic=hook_run.topic,
                kind=kind,
            )
            self._signals.tell(s.EVENTS)


def _kwargs(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return given or {}
