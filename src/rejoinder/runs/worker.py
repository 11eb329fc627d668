"""The worker: PgQueuer's managers over our own driver, one for resumptions and one for first phases, so that a
hundred runs blocked on a person never keep a parked one from going on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

from pgqueuer.adapters.drivers.asyncpg import AsyncpgPoolDriver
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.errors import RetryRequested
from pgqueuer.domain.models import Job
from pgqueuer.domain.types import Channel

from rejoinder.contract.errors import NotReadyError
from rejoinder.contract.settings import Settings
from rejoinder.observe.logs import get_logger
from rejoinder.runs.jobs import Jobs, Later
from rejoinder.store.database import AWAY, Database
from rejoinder.store.queue import CHAIN, RESUME, START, job_channel, queue_queries
from rejoinder.store.signals import Signals

log = get_logger("worker")

BATCH = 10
FAILED_AT_ONCE = 100
T = TypeVar("T")
RESUMES_AT_ONCE = 64


class QueueDriver(AsyncpgPoolDriver):
    """Waits the database's absences out instead of raising, and hears through this process' one notification
    connection, which reconnects by itself."""

    def __init__(self, database: Database, signals: Signals) -> None:
        super().__init__(database.pool)
        self._database = database
        self._signals = signals
        self.closing = False

    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        return await self._patiently(lambda: super(QueueDriver, self).fetch(query, *args), [])

    async def execute(self, query: str, *args: object) -> str:
        return await self._patiently(lambda: super(QueueDriver, self).execute(query, *args), "")

    async def notify(self, channel: str, payload: str) -> None:
        await self.execute("SELECT pg_notify($1, $2)", channel, payload)

    async def add_listener(self, channel: str, callback: Callable[[str], None]) -> None:
        self._signals.relay(channel, callback)

    async def remove_listener(self, channel: str, callback: Callable[[str], None]) -> None:
        self._signals.unrelay(channel, callback)

    async def _patiently(self, act: Callable[[], Awaitable[T]], otherwise: T) -> T:
        while True:
            try:
                return await act()
            except AWAY as error:
                if self.closing:
                    return otherwise
                log.warning("the queue waits for the database", error=type(error).__name__)
                await asyncio.sleep(0.2)


class Worker:
    def __init__(self, jobs: Jobs, database: Database, signals: Signals, settings: Settings) -> None:
        self._jobs = jobs
        self._settings = settings
        self._driver = QueueDriver(database, signals)
        self._resumes = self._manager(RESUME, jobs.resume)
        self._entrypoint(self._resumes, CHAIN, jobs.settle)
        self._starts = self._manager(START, jobs.run)
        self._tasks: list[asyncio.Task[None]] = []

    def _manager(self, kind: str, act: Callable[[UUID, int], Awaitable[None]]) -> QueueManager:
        manager = QueueManager(queue_queries(self._driver, kind), channel=Channel(job_channel(kind)))
        self._entrypoint(manager, kind, act)
        return manager

    def _entrypoint(
        self, manager: QueueManager, kind: str, act: Callable[[UUID, int], Awaitable[None]]
    ) -> None:
        async def handle(job: Job) -> None:
            assert job.payload is not None
            try:
                await act(UUID(job.payload.decode()), job.attempts)
            except Later as later:
                raise RetryRequested(later.delay, later.reason) from None
            except (NotReadyError, *AWAY) as error:
                raise RetryRequested(timedelta(seconds=1), type(error).__name__) from None
            except Exception as error:
                # A fault of ours. The job stays: when this process has ended, another takes the run or holds it.
                log.exception("a job failed")
                raise RetryRequested(timedelta(seconds=30), type(error).__name__) from None

        manager.entrypoint(kind, on_failure="hold")(handle)

    def start(self) -> None:
        starts = max(2 * BATCH, self._settings.tai_tool_runs_max_concurrent_runs)
        self._tasks = [
            asyncio.create_task(self._run(self._resumes, RESUMES_AT_ONCE), name="worker.resumes"),
            asyncio.create_task(self._run(self._starts, starts), name="worker.starts"),
            asyncio.create_task(self._send_on_failed(), name="worker.failed"),
        ]

    async def _run(self, manager: QueueManager, at_once: int) -> None:
        while not manager.shutdown.is_set():
            try:
                await manager.run(
                    dequeue_timeout=timedelta(seconds=self._settings.rejoinder_poll_seconds),
                    batch_size=BATCH,
                    max_concurrent_tasks=at_once,
                    heartbeat_timeout=timedelta(
                        seconds=self._settings.rejoinder_job_heartbeat_timeout_seconds
                    ),
                    log_aggregation_interval=timedelta(0),
                )
            except Exception:
                log.exception("the queue stopped; it is started again")
                await asyncio.sleep(1)

    async def _send_on_failed(self) -> None:
        """The queue holds a job whose end it could not write. A job is only a wake-up call, so it is sent on again: what
        there is to do is read from the run's own row."""
        queries = queue_queries(self._driver)
        while not self._starts.shutdown.is_set():
            try:
                failed = await queries.list_failed_jobs(FAILED_AT_ONCE)
                if failed:
                    log.warning("jobs that the queue held are sent on", jobs=len(failed))
                    await queries.requeue_jobs([job.id for job in failed])
            except Exception:
                log.exception("held jobs could not be sent on")
            await asyncio.sleep(self._settings.rejoinder_job_heartbeat_timeout_seconds)

    async def stop(self) -> None:
        """Take no more jobs, let running code end, cancel what is left."""
        self._resumes.shutdown.set()
        self._starts.shutdown.set()
        await self._jobs.stop(self._settings.tai_tool_runs_shutdown_drain_seconds)
        if self._tasks:
            # The last one only waits.
            await asyncio.wait(self._tasks[:-1], timeout=5)
        self._driver.closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
