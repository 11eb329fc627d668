"""What comes for hook runs in a worker's process: it takes those that are due, and sleeps until the next one is."""

from __future__ import annotations

import asyncio

from rejoinder.contract import pause
from rejoinder.contract.errors import NotReadyError
from rejoinder.contract.settings import Settings
from rejoinder.hooks.attempts import Attempts
from rejoinder.observe.logs import get_logger
from rejoinder.store import signals as s
from rejoinder.store.hook_runs import HookRun, HookRuns
from rejoinder.store.processes import ThisProcess
from rejoinder.store.signals import Signals

log = get_logger("hooks")

#: After a fault of ours or of the database, and between two looks where another worker holds what is due.
BREATH_SECONDS = 0.5


class HookRunner:
    def __init__(
        self,
        hook_runs: HookRuns,
        attempts: Attempts,
        process: ThisProcess,
        signals: Signals,
        settings: Settings,
    ) -> None:
        self._hook_runs = hook_runs
        self._attempts = attempts
        self._process = process
        self._signals = signals
        self._settings = settings
        self._wake = asyncio.Event()
        self._going: set[asyncio.Task[None]] = set()
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._signals.hear(s.HOOKS, lambda _: self._wake.set())
        self._loop = asyncio.create_task(self._come_for_them(), name="hooks.runner")

    async def stop(self) -> None:
        """Take no more; what is being looked at has a little while to be written, and is another worker's after that."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        if self._going:
            await asyncio.wait(set(self._going), timeout=self._settings.hooks_run_shutdown_grace_seconds)
        for task in set(self._going):
            task.cancel()
        await asyncio.gather(*self._going, return_exceptions=True)

    async def _come_for_them(self) -> None:
        while True:
            self._wake.clear()
            try:
                pause_for = await self._round()
            except NotReadyError:
                pause_for = BREATH_SECONDS
            except Exception:
                log.exception("hook runs could not be taken")
                pause_for = BREATH_SECONDS
            if pause_for <= 0:
                continue
            try:
                # Not wait_for: on Python 3.11 it loses a cancellation that comes together with the event.
                async with asyncio.timeout(pause_for):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _round(self) -> float:
        """Take as many as there is room for. Returns how long there is nothing to do."""
        settings = self._settings
        room = settings.hooks_max_workers - len(self._going)
        if room <= 0:
            await asyncio.wait(set(self._going), return_when=asyncio.FIRST_COMPLETED)
            return 0
        taken = await self._hook_runs.take(self._process.id, room, settings.hooks_run_lease_seconds)
        for one in taken:
            task = asyncio.create_task(self._look_at(one), name="hooks.attempt")
            self._going.add(task)
            task.add_done_callback(self._going.discard)
        if taken:
            return 0
        due = await self._hook_runs.next_due()
        if due is None:
            return settings.hooks_run_sweep_seconds
        return min(max(due, BREATH_SECONDS), settings.hooks_run_sweep_seconds)

    async def _look_at(self, hook_run: HookRun) -> None:
        await pause.here("hook.taken")
        try:
            await self._attempts.take_on(hook_run)
        except NotReadyError:
            log.warning("a hook run waits for the database", hook_run=str(hook_run.id))
        except Exception:
            # A fault of ours: it is due again when its claim has lapsed.
            log.exception("a hook run could not be looked at", hook_run=str(hook_run.id))
