"""One running process, put together: the pool, the signals, and the services that stand on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

from rejoinder.access.keys import Access
from rejoinder.access.public import PublicRoutes
from rejoinder.agents.conductor import Agents
from rejoinder.asks.callback import Callbacks
from rejoinder.asks.deadlines import Deadlines
from rejoinder.asks.external import ExternalAsks
from rejoinder.asks.service import Asks
from rejoinder.asks.tail import Tail
from rejoinder.asks.tickets import PURPOSE, TicketOffice
from rejoinder.asks.waiters import Waiters
from rejoinder.contract import pause
from rejoinder.contract.errors import ConfigurationError, NotReadyError
from rejoinder.contract.settings import Settings
from rejoinder.expressions import Expressions
from rejoinder.hooks.ingress import Ingress
from rejoinder.hooks.kept import KeptRuns
from rejoinder.hooks.links import TriggerLinks
from rejoinder.hooks.records import HookRecords
from rejoinder.housekeeping import keep_house, send_canaries
from rejoinder.net.guard import Guard
from rejoinder.net.outbound import Outbound
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics
from rejoinder.presets.book import PresetBook
from rejoinder.presets.service import Presets
from rejoinder.runs.internal import Doorkeeper
from rejoinder.runs.manifest import Registry
from rejoinder.runs.service import RunService
from rejoinder.runs.visits import Visits
from rejoinder.schedules.service import ScheduleService
from rejoinder.schedules.ticker import Ticker
from rejoinder.store import signals as s
from rejoinder.store.database import Database
from rejoinder.store.deliveries import Deliveries
from rejoinder.store.events import Events
from rejoinder.store.flood import Hits
from rejoinder.store.hook_runs import HookRuns
from rejoinder.store.hooks import HookStore
from rejoinder.store.legs import Legs
from rejoinder.store.media import Media
from rejoinder.store.migrate import pending
from rejoinder.store.nested import Nested
from rejoinder.store.notifications import Notifications
from rejoinder.store.presets import PresetStore
from rejoinder.store.processes import ThisProcess, bury_dead
from rejoinder.store.questions import Questions
from rejoinder.store.runs import Runs
from rejoinder.store.schedules import Schedules
from rejoinder.store.sealing import SealingKeys
from rejoinder.store.signals import Signals
from rejoinder.store.tickets import Tickets

if TYPE_CHECKING:
    from rejoinder.hooks.runner import HookRunner
    from rejoinder.runs.worker import Worker

log = get_logger("node")

LOOKS_PER_BEAT = 4

Kind = Literal["server", "worker", "up", "mcp"]


class Node:
    """``await start()``, use the services, ``await stop()``. The database must be migrated."""

    def __init__(self, settings: Settings, registry: Registry, kind: Kind) -> None:
        if settings.rejoinder_database_url is None:
            raise ConfigurationError("REJOINDER_DATABASE_URL is not set")
        self.settings = settings
        self.kind = kind
        self.registry = registry
        self.database = Database(
            settings.rejoinder_database_url,
            pool=settings.rejoinder_database_pool,
            statement_timeout=settings.rejoinder_statement_timeout_seconds,
        )
        poll = settings.rejoinder_poll_seconds
        self.outbound = Outbound(Guard.of(settings))
        self.process = ThisProcess(self.database, kind, stale=settings.rejoinder_stale_seconds)
        self.signals = Signals(self.database, lock_key=self.process.lock_key)
        self.questions = Questions(self.database)
        self.events = Events(self.database)
        self.hits = Hits(self.database)
        self.media = Media(self.database)
        self.runs = Runs(self.database)
        self.waiters = Waiters(self.questions, self.signals, poll=poll)
        self.tickets = Tickets(self.database)
        self.kept = Deliveries(self.database)
        self.hook_runs = HookRuns(self.database)
        self.deliveries = Ingress(self.kept, registry.verifiers, self.signals, settings)
        self.kept_runs = KeptRuns(self.hook_runs, self.signals)
        self.notifications = Notifications(self.database)
        self.office = TicketOffice(SealingKeys(self.database, PURPOSE))
        external = ExternalAsks(self.office)
        self.asks = Asks(
            self.questions, self.events, self.signals, self.waiters, settings, external, registry.verifiers
        )
        self.callbacks = Callbacks(
            self.questions,
            self.tickets,
            self.office,
            external,
            self.asks,
            self.events,
            registry.verifiers,
            settings,
        )
        self.deadlines = Deadlines(self.questions, self.signals, poll=poll)
        self.tail = Tail(self.events, self.questions, self.signals, poll=min(1.0, poll))
        self.access = Access(self.database, self.events, self.signals, settings)
        self.public_routes = PublicRoutes(self.database, self.events, self.signals, settings)
        self.expressions = Expressions()
        self.agents = Agents(self.database, self.questions, settings)
        self.agents.late.find = registry.get
        self.nested = Nested(self.database)
        self.legs = Legs(self.database)
        self.doorkeeper = Doorkeeper(self.events, self.kept.vouches)
        self.run_service = RunService(
            self.runs,
            self.asks,
            registry,
            self.signals,
            self.process,
            settings,
            self.agents,
            self.nested,
            self.doorkeeper,
        )
        self.hook_store = HookStore(self.database)
        self.hook_records = HookRecords(self.hook_store, registry, self.access, self.expressions, self.events)
        self.trigger_links = TriggerLinks(self.hook_store, self.access)
        store = PresetStore(self.database)
        self.preset_book = PresetBook(store, registry, self.signals, settings, self.expressions)
        self.presets = Presets(store, self.preset_book, registry, self.signals, self.events)
        self.visits = Visits(self.run_service, self.asks, self.nested, self.signals, poll=poll)
        self.schedule_store = Schedules(self.database)
        self.schedules = ScheduleService(
            self.schedule_store,
            self.access,
            self.run_service,
            self.runs,
            self.expressions,
            self.signals,
            settings,
        )
        self.ticker = Ticker(
            self.schedule_store,
            registry,
            self.access,
            self.expressions,
            self.signals,
            settings,
            self.agents,
        )
        self.worker: Worker | None = None
        self.hook_runner: HookRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.started = False

    async def start(self, *, worker: bool = False) -> None:
        pause.arm_from_environment()
        await self.database.open()
        try:
            lacking = await pending(self.database)
            if lacking:
                raise ConfigurationError(
                    f"the database lacks {len(lacking)} migrations, the first is {lacking[0]}; run: rejoinder migrate"
                )
            await self.process.join()
            await self.signals.start()
            await self.office.load()
            if self.settings.interactions_max_concurrent is not None:
                await self.questions.ensure_slots(self.settings.interactions_max_concurrent)
            await self.preset_book.start()
        except BaseException:
            await self.signals.stop()
            await self.database.close()
            raise
        self.waiters.start()
        self.deadlines.start()
        self.tail.start()
        self.run_service.start()
        self._tasks = [
            asyncio.create_task(self._beat(), name="node.beat"),
            asyncio.create_task(self._look_for_dead(), name="node.dead"),
            asyncio.create_task(keep_house(self), name="node.housekeeping"),
            asyncio.create_task(send_canaries(self), name="node.canaries"),
        ]
        if worker:
            from rejoinder.runs.jobs import Jobs
            from rejoinder.runs.worker import Worker

            jobs = Jobs(
                self.runs,
                self.questions,
                self.asks,
                self.registry,
                self.signals,
                self.process,
                self.access,
                self.settings,
                self.agents,
                self.nested,
                self.doorkeeper,
            )
            jobs.deliveries = self.kept
            started = Worker(jobs, self.database, self.signals, self.settings)
            started.start()
            self.worker = started
            self._start_hooks()
            if self.settings.schedules_enable:
                self.ticker.start()
        self.started = True

    async def stop(self) -> None:
        """End cleanly: the worker first, then what this process still asks, then the connections."""
        self.started = False
        await self.ticker.stop()
        if self.hook_runner is not None:
            await self.hook_runner.stop()
        if self.worker is not None:
            await self.worker.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.run_service.stop()
        await self.preset_book.stop()
        await self.agents.stop()
        await self.asks.drain()
        try:
            withdrawn = await self.process.leave("stopped")
            self.signals.tell(s.EVENTS, *(s.question(one) for one in withdrawn))
            await self.signals.flush()
        except NotReadyError:
            log.warning("the database is away; another process will find this one gone")
        await self.tail.stop()
        await self.deadlines.stop()
        await self.waiters.stop()
        await self.signals.stop()
        await self.expressions.stop()
        await self.outbound.stop()
        await self.database.close()

    def _start_hooks(self) -> None:
        from rejoinder.hooks.attempts import Attempts
        from rejoinder.hooks.runner import HookRunner

        attempts = Attempts(
            self.hook_runs,
            self.runs,
            self.registry,
            self.expressions,
            self.access,
            self.signals,
            self.settings,
            self.agents,
        )
        self.hook_runner = HookRunner(self.hook_runs, attempts, self.process, self.signals, self.settings)
        self.hook_runner.start()

    async def ready(self) -> dict[str, bool]:
        """What ``/ready`` tells: every value must be true."""
        try:
            answers = await asyncio.wait_for(self.database.value("SELECT 1"), 2) == 1
        except (NotReadyError, TimeoutError):
            answers = False
        return {"started": self.started, "database": answers, "notifications": self.signals.connected}

    async def _beat(self) -> None:
        while True:
            await self._quietly(self._beat_once)
            metrics.waiting.set(len(self.waiters))
            await asyncio.sleep(self.settings.rejoinder_beat_seconds)

    async def _look_for_dead(self) -> None:
        """More often than processes beat: a dead one goes unnoticed for the stale time and one look. Not between the
        beats: what a dead one holds may make its burial wait, and this process must not look dead meanwhile."""
        while True:
            await self._quietly(self._bury)
            await asyncio.sleep(self.settings.rejoinder_beat_seconds / LOOKS_PER_BEAT)

    async def _quietly(self, act: Callable[[], Awaitable[None]]) -> None:
        try:
            await act()
        except NotReadyError:
            pass
        except Exception:
            log.exception("the beat failed")

    async def _beat_once(self) -> None:
        if not await self.process.beat():
            await self._rejoin()

    async def _bury(self) -> None:
        if not self.process.may_judge:
            return
        settings = self.settings
        for process_id, withdrawn in await bury_dead(
            self.database,
            stale=settings.rejoinder_stale_seconds,
            half_open=settings.rejoinder_half_open_seconds,
        ):
            log.warning("process found dead", process=str(process_id), withdrawn=len(withdrawn))
            metrics.withdrawn.inc(len(withdrawn))
            self.signals.tell(s.EVENTS, s.STARTS, s.RESUMES, *(s.question(one) for one in withdrawn))

    async def _rejoin(self) -> None:
        """This process was found dead, after a long pause. What it asked is withdrawn, and its callers are told by
        their own rows; it goes on under a new row."""
        log.error("this process was paused so long that it was taken for dead; it goes on as a new one")
        self.process.renew()
        await self.process.join()
        self.signals.renew_lock(self.process.lock_key)
