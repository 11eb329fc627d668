"""The whole life of runs and questions in any order, with stalls, deaths and wakings, on the real database.

The machine runs the real services for four processes. It plays the queue itself, as badly as a queue may behave: a job
is handed to another worker while a stalled one still has it, and whoever ends a job deletes it, whoever holds it by
then. After every step the invariants of the whole database hold.

``REJOINDER_TEST_LONG=1`` runs many more and longer lives.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from rejoinder.asks.deadlines import Deadlines
from rejoinder.asks.service import Asks
from rejoinder.asks.waiters import Waiters
from rejoinder.contract.answers import AskAnswer, SuspendedInteraction
from rejoinder.contract.errors import (
    AnswerMismatchError,
    InteractionClosedError,
    InteractionExpiredError,
    InteractionLimitError,
    RejoinderError,
    RunTerminalFailed,
)
from rejoinder.contract.identity import Identity
from rejoinder.contract.questions import Question
from rejoinder.contract.settings import Settings
from rejoinder.runs.ask import ask
from rejoinder.runs.context import current_run
from rejoinder.runs.jobs import Jobs, Later
from rejoinder.runs.manifest import Exposed, Registry
from rejoinder.runs.service import RunService
from rejoinder.runs.tools import Tool, tool
from rejoinder.store.database import Database
from rejoinder.store.events import Events
from rejoinder.store.processes import ThisProcess
from rejoinder.store.questions import Questions
from rejoinder.store.runs import Runs
from rejoinder.store.signals import Signals
from tests.integration.core.support import broken, deadlocks_of
from tests.integration.nodes import ANN, BOB
from tests.support import MovableClock

T = TypeVar("T")

CAP = 6
MAX_STARTS = 3
LONG = bool(os.environ.get("REJOINDER_TEST_LONG"))
CAROL = Identity(name="carol", grants=frozenset(("read", "write")))

#: What happens depends on who wins a race, so what is drawn must not: rules draw numbers and choose by them, and a
#: rule that has nothing to do does nothing.
NUMBER = st.integers(0, 999)

TABLES = "run, park, resume, question, event, process, pgqueuer, pgqueuer_log"

_task: ContextVar[Work] = ContextVar("work")
_machine: ContextVar[Machine] = ContextVar("machine")


@dataclass(eq=False)
class Driver:
    """The author's code of one run, as far as it has come: it does what it is told."""

    run_id: UUID
    process: UUID
    phase: str
    commands: asyncio.Queue[tuple[str, Any]] = field(default_factory=asyncio.Queue)
    waiting: bool = False
    asking: bool = False
    suspended: list[SuspendedInteraction] = field(default_factory=list)


@dataclass(eq=False)
class Work:
    """A job in a worker's hands, or a call in a server's."""

    process: Process
    born: UUID
    job: int | None
    task: asyncio.Task[Any] | None = None
    driver: Driver | None = None

    @property
    def going(self) -> bool:
        return self.task is not None and not self.task.done()


@dataclass(eq=False)
class Process:
    process: ThisProcess
    jobs: Jobs | None
    service: RunService
    stalled: bool = False


def chosen(some: list[T], n: int) -> T:
    return some[n % len(some)]


class NoKeys:
    async def identity_of_key(self, key_id: UUID) -> Identity | None:
        return None


async def script(phase: str, answers: dict[UUID, AskAnswer[Any]] | None) -> Any:
    machine, work, run = _machine.get(), _task.get(), current_run()
    me = work.driver = Driver(run.run_id, run.asker.owner_process, phase)
    machine.entered(me, answers)
    while True:
        me.waiting = True
        machine.moved.set()
        command, value = await me.commands.get()
        me.waiting = False
        match command:
            case "sync":
                me.asking = True
                try:
                    await ask("Now?", answer_format="confirm", timeout=value)
                except RejoinderError as error:
                    machine.refused(error)
                finally:
                    me.asking = False
            case "async":
                try:
                    sentinel = await ask(
                        "Later?",
                        answer_format="confirm",
                        mode="async",
                        expiry_at=value[0],
                        on_expiry=value[1],
                    )
                    me.suspended.append(sentinel)
                except RejoinderError as error:
                    machine.refused(error)
            case "park":
                return list(me.suspended)
            case "return":
                return value
            case "raise":
                raise value


def scripted(name: str, idempotent: bool) -> Tool:
    @tool(name=name, idempotent=idempotent)
    async def one() -> Any:
        return await script("start", None)

    @one.continuation
    async def go_on(answers: dict[UUID, AskAnswer[Any]]) -> Any:
        return await script("resume", answers)

    return one


class Machine(RuleBasedStateMachine):
    def __init__(self, url: str, seen: Counter[str]) -> None:
        super().__init__()
        self.seen = seen
        self.loop = asyncio.new_event_loop()
        self.url = url
        self.works: list[Work] = []
        self.answers: dict[UUID, Any] = {}
        self.entries: Counter[tuple[UUID, str, frozenset[UUID]]] = Counter()
        self.retries: Counter[UUID] = Counter()
        self.faults: list[BaseException] = []
        self.loop.set_exception_handler(
            lambda _l, c: self.faults.append(c.get("exception") or RuntimeError(c))
        )
        self.run(self.begin())

    def run(self, work: Any) -> Any:
        try:
            return self.loop.run_until_complete(asyncio.wait_for(work, 60))
        except asyncpg.DeadlockDetectedError:
            raise AssertionError(deadlocks_of(self.url)) from None

    async def begin(self) -> None:
        _machine.set(self)
        self.moved = asyncio.Event()
        self.database = Database(self.url, pool=6)
        await self.database.open()
        await self.database.execute(
            f"TRUNCATE {', '.join('rejoinder.' + t for t in TABLES.split(', '))} CASCADE"
        )
        await self.database.execute("DELETE FROM rejoinder.slot")
        await self.database.execute(
            "UPDATE rejoinder_test.clock SET moved = interval '0', held = clock_timestamp()"
        )
        self.clock = MovableClock(self.url)
        self.signals = Signals(self.database)
        self.questions = Questions(self.database)
        await self.questions.ensure_slots(CAP)
        self.runs = Runs(self.database)
        self.waiters = Waiters(self.questions, self.signals, poll=0.2)
        self.waiters.start()
        made = Settings.load(
            interactions_max_concurrent=CAP,
            rejoinder_run_max_starts=MAX_STARTS,
            rejoinder_run_retry_base_seconds=0.01,
        )
        self.asks = Asks(self.questions, Events(self.database), self.signals, self.waiters, made)
        self.deadlines = Deadlines(self.questions, self.signals, poll=60)
        registry = Registry([Exposed(scripted("once", False), None), Exposed(scripted("again", True), None)])
        self.processes: list[Process] = []
        for kind in ("server", "server", "worker", "worker"):
            process = ThisProcess(self.database, kind)
            await process.join()
            service = RunService(self.runs, self.asks, registry, self.signals, process, made)
            service.start()
            jobs = None
            if kind == "worker":
                jobs = Jobs(
                    self.runs,
                    self.questions,
                    self.asks,
                    registry,
                    self.signals,
                    process,
                    NoKeys(),
                    made,
                )
            self.processes.append(Process(process, jobs, service))

    def teardown(self) -> None:
        async def end() -> None:
            for work in self.works:
                if work.going:
                    assert work.task is not None
                    work.task.cancel()
            await self.count()
            await asyncio.gather(*(w.task for w in self.works if w.task is not None), return_exceptions=True)
            for process in self.processes:
                await process.service.stop()
            await self.asks.drain()
            await self.waiters.stop()
            await self.database.close()

        try:
            self.run(end())
        finally:
            self.loop.close()

    async def count(self) -> None:
        """What this life went through, so that the test can tell that it went through something."""
        for row in await self.database.rows(
            "SELECT kind || COALESCE(' ' || reason, '') AS what, count(*) AS n FROM rejoinder.event GROUP BY 1"
        ):
            self.seen[row["what"]] += row["n"]
        self.seen["barrier of several"] += await self.database.value(
            "SELECT count(*) FROM rejoinder.park WHERE members > 1 AND completed_at IS NOT NULL"
        )
        self.seen["complete when sealed"] += await self.database.value(
            "SELECT count(*) FROM rejoinder.park WHERE completed_at = sealed_at"
        )
        self.seen["jobs left"] += await self.database.value("SELECT count(*) FROM rejoinder.pgqueuer")
        self.seen["going"] += sum(w.going for w in self.works)
        self.seen["entered again"] += sum(1 for n in self.entries.values() if n > 1)

    # What the author's code tells the machine

    def entered(self, driver: Driver, answers: dict[UUID, AskAnswer[Any]] | None) -> None:
        key = (driver.run_id, driver.phase, frozenset(answers or ()))
        self.entries[key] += 1
        for identifier, answer in (answers or {}).items():
            given = self.answers.get(identifier)
            assert answer.expired if given is None else answer.answer == given, (
                "another answer than was given"
            )

    def refused(self, error: RejoinderError) -> None:
        if isinstance(error, InteractionLimitError):
            self.limited = True

    # Steps

    async def rest(self) -> None:
        """Until every piece of code waits for a command, for a person, or is over."""
        while True:
            self.moved.clear()
            asking = [w.driver.run_id for w in self.works if w.going and w.driver and w.driver.asking]
            blocked = {
                (r["run_id"], r["owner_process"])
                for r in await self.database.rows(
                    "SELECT run_id, owner_process FROM rejoinder.question "
                    "WHERE state = 'pending' AND mode = 'sync' AND run_id = ANY ($1)",
                    asking,
                )
            }
            moving = [
                w
                for w in self.works
                if w.going
                and not (
                    w.driver
                    and (
                        (w.driver.waiting and w.driver.commands.empty())
                        or (w.driver.asking and (w.driver.run_id, w.driver.process) in blocked)
                    )
                )
            ]
            # A call that is over whose end is still being written.
            ends = await self.database.value(
                "SELECT count(*) FROM rejoinder.run r JOIN rejoinder.process p ON p.id = r.owner_process "
                "WHERE r.state = 'running' AND r.door = 'test' AND r.phase = 'start' AND p.ended_at IS NULL "
                "AND r.id <> ALL ($1)",
                [w.driver.run_id for w in self.works if w.going and w.driver],
            )
            if not moving and not ends and not self.asks._background:
                return
            await self.waiters._reread_all()
            try:
                async with asyncio.timeout(0.01):
                    await self.moved.wait()
            except TimeoutError:
                pass

    def step(self, work: Any) -> Any:
        async def both() -> Any:
            _machine.set(self)
            try:
                return await work
            finally:
                await self.rest()

        return self.run(both())

    def launch(self, process: Process, job: int | None, code: Any) -> Work:
        work = Work(process, process.process.id, job)
        token = _task.set(work)
        _machine.set(self)

        async def go() -> None:
            try:
                await code
            except Later:
                await self.database.execute(
                    "UPDATE rejoinder.pgqueuer SET status = 'queued', attempts = attempts + 1 WHERE id = $1",
                    job,
                )
            except RejoinderError:
                if job is not None:
                    raise
            else:
                if job is not None:
                    await self.database.execute("DELETE FROM rejoinder.pgqueuer WHERE id = $1", job)
            finally:
                self.moved.set()

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                self.faults.append(task.exception() or RuntimeError())

        work.task = self.loop.create_task(go())
        work.task.add_done_callback(ended)
        _task.reset(token)
        self.works.append(work)
        return work

    def drivers(self) -> list[Work]:
        return [w for w in self.works if w.going and w.driver is not None and w.driver.waiting]

    def jobs_to_pick(self) -> list[Any]:
        lost = [w.job for w in self.works if w.job is not None and w.process.stalled]
        rows: list[Any] = self.run(
            self.database.rows(
                "SELECT id, entrypoint, payload, attempts FROM rejoinder.pgqueuer "
                "WHERE status = 'queued' OR status = 'picked' AND id = ANY ($1) ORDER BY id",
                lost,
            )
        )
        return rows

    def asked(self) -> list[Question]:
        async def read() -> list[Question]:
            rows = await self.database.rows("SELECT id FROM rejoinder.question ORDER BY created_at, id")
            found = await self.questions.by_ids([r["id"] for r in rows])
            return [found[r["id"]] for r in rows]

        return list(self.run(read()))

    # Rules

    def few(self) -> bool:
        return sum(1 for w in self.works if w.going) < 3

    @rule(name=st.sampled_from(["once", "again"]), server=st.integers(0, 1))
    def call(self, name: str, server: int) -> None:
        process = self.processes[server]
        if not self.few():
            return

        async def start() -> None:
            self.launch(process, None, process.service.call(name, {}, by=ANN, door="test"))

        self.step(start())

    @rule(name=st.sampled_from(["once", "again"]), worker=st.integers(2, 3))
    def start(self, name: str, worker: int) -> None:
        if not self.few():
            return
        self.step(self.processes[0].service.start_background(name, {}, by=ANN))
        rows = self.jobs_to_pick()
        if rows and not self.processes[worker].stalled:
            self.step(self.hand(self.processes[worker], rows[-1]))

    @rule(n=NUMBER, worker=st.integers(2, 3))
    def pick_one(self, n: int, worker: int) -> None:
        self.pick(n, worker)

    def pick(self, n: int, worker: int, kind: str = "") -> None:
        process = self.processes[worker]
        rows = [r for r in self.jobs_to_pick() if r["entrypoint"].startswith(kind)]
        if process.stalled or not rows:
            return
        row = chosen(rows, n)
        self.step(self.hand(process, row))

    @rule(n=NUMBER)
    def both_pick(self, n: int) -> None:
        """One job in two workers' hands at once."""
        rows = self.jobs_to_pick()
        if rows:
            row = chosen(rows, n)

            async def both() -> None:
                await asyncio.gather(self.hand(self.processes[2], row), self.hand(self.processes[3], row))

            self.step(both())

    async def hand(self, process: Process, row: Any) -> None:
        assert process.jobs is not None
        await self.database.execute(
            "UPDATE rejoinder.pgqueuer SET status = 'picked' WHERE id = $1", row["id"]
        )
        act = process.jobs.run if row["entrypoint"] == "run" else process.jobs.resume
        self.launch(process, row["id"], act(UUID(row["payload"].decode()), row["attempts"]))

    @rule(n=NUMBER, modes=st.lists(st.sampled_from(["sync", "async", "async"]), min_size=1, max_size=3))
    def ask_several(self, n: int, modes: list[str]) -> None:
        for i, mode in enumerate(modes):
            self.ask(n + i, mode)

    @rule(n=NUMBER)
    def ask_and_park(self, n: int) -> None:
        self.ask(n, "async")
        works = [w for w in self.drivers() if w.driver and w.driver.suspended]
        if works:
            self.tell(works[-1], "park", None)

    def tell(self, work: Work, command: str, value: Any) -> None:
        async def told() -> None:
            assert work.driver is not None
            work.driver.commands.put_nowait((command, value))

        self.step(told())

    def ask(self, n: int, mode: str) -> None:
        works = self.drivers()
        if not works:
            return
        resume = n % 3 > 0
        work = chosen(works, n)
        seconds = (10, 100)[n % 2]
        assert work.driver is not None
        driver = work.driver

        async def told() -> None:
            if mode == "sync":
                driver.commands.put_nowait(("sync", seconds))
            else:
                moment = await self.clock.now() + timedelta(seconds=seconds)
                driver.commands.put_nowait(("async", (moment, "resume" if resume else "kill")))

        self.limited = False
        free = self.run(self.database.value("SELECT count(*) FROM rejoinder.slot WHERE question_id IS NULL"))
        self.step(told())
        assert not (self.limited and free), "refused although there was a place"

    @rule(n=NUMBER)
    def park(self, n: int) -> None:
        works = [w for w in self.drivers() if w.driver is not None and w.driver.suspended]
        if works:
            self.tell(chosen(works, n), "park", None)

    @rule(n=NUMBER, how=st.sampled_from(["return", "return", "raise", "terminal"]))
    def end_code(self, n: int, how: str) -> None:
        works = self.drivers()
        if not works:
            return
        work = chosen(works, n)
        match how:
            case "return":
                self.tell(work, "return", "done")
            case "raise":
                self.tell(work, "raise", RuntimeError("a fault of the author's"))
            case "terminal":
                self.tell(work, "raise", RunTerminalFailed("no more"))

    @rule(n=NUMBER, value=st.sampled_from([True, False, "no"]), by=st.sampled_from([BOB, CAROL]))
    def answer(self, n: int, value: Any, by: Identity) -> None:
        questions = self.asked()
        questions = questions + 4 * [q for q in questions if q.state == "pending"]
        if not questions:
            return
        self.give(chosen(questions, n), value, by)

    def give(self, question: Question, value: Any, by: Identity) -> None:
        now = self.run(self.clock.now())
        try:
            done = self.step(self.asks.answer(question.id, value, by=by, via="test"))
        except AnswerMismatchError:
            assert question.state == "pending"
            assert value == "no"
        except InteractionExpiredError:
            assert question.state == "expired" or (question.state == "pending" and now >= question.timeout_at)
        except InteractionClosedError as error:
            closed = error
            assert question.state not in ("pending", "expired")
            assert closed.state == question.state
            assert (question.state, question.closed_by, question.answer) != ("answered", by.name, value)
        else:
            if done.repeated:
                assert (question.state, question.closed_by, question.answer) == ("answered", by.name, value)
            else:
                assert question.state == "pending"
                assert now < question.timeout_at
                self.answers[question.id] = value

    @rule(n=NUMBER, cancel=st.booleans(), late=st.booleans())
    def race(self, n: int, cancel: bool, late: bool) -> None:
        """Everybody at once on one question."""
        questions = [q for q in self.asked() if q.state == "pending"]
        if not questions:
            return
        question = chosen(questions, n)

        async def all_at_once() -> list[Any]:
            if late:
                moment = question.timeout_at
                await self.database.execute(
                    "UPDATE rejoinder_test.clock SET moved = greatest(moved, $1 - held)", moment
                )
            tries = [
                self.asks.answer(question.id, v, by=b, via="test")
                for v in (True, False)
                for b in (BOB, CAROL)
            ]
            if cancel:
                tries.append(self.asks.cancel(question.id, by=ANN, via="test"))  # type: ignore[arg-type]
            tries.append(self.deadlines.expire_batch())  # type: ignore[arg-type]
            return await asyncio.gather(*tries, return_exceptions=True)

        results = self.step(all_at_once())
        won = [r for r in results[:4] if not isinstance(r, BaseException) and not r.repeated]
        assert len(won) <= 1
        after = next(q for q in self.asked() if q.id == question.id)
        assert after.state != "pending"
        assert (after.state == "answered") == bool(won)
        if won:
            assert not late
            self.answers[question.id] = after.answer
        for result in results[:4]:
            if isinstance(result, BaseException) and not isinstance(result, InteractionClosedError):
                raise result

    @rule(n=NUMBER, worker=st.integers(2, 3))
    def answer_all(self, n: int, worker: int) -> None:
        """Whatever the latest park waits for, in any order; then a worker looks for a job."""
        questions = [q for q in self.asked() if q.state == "pending" and q.park_id is not None]
        mine = [q for q in questions if q.park_id == questions[-1].park_id]
        for question in mine if n % 2 else mine[::-1]:
            self.give(question, True, BOB)
        self.pick(n, worker, "resume")

    @rule(n=NUMBER, sure=st.integers(0, 2))
    def cancel(self, n: int, sure: int) -> None:
        questions = [q for q in self.asked() if q.state == "pending"]
        if questions and not sure:
            question = chosen(questions, n)
            self.step(self.asks.cancel(question.id, by=BOB, via="test"))

    @rule(seconds=st.sampled_from([1, 10, 90]))
    def advance(self, seconds: int) -> None:
        self.run(self.clock.advance(seconds))

    @rule()
    def expire(self) -> None:
        self.step(self.deadlines.expire_batch())

    @rule(n=NUMBER)
    def caller_goes(self, n: int) -> None:
        works = [w for w in self.works if w.going and w.job is None]
        if not works:
            return
        work = chosen(works, n)
        assert work.task is not None

        async def cancelled() -> None:
            assert work.task is not None
            work.task.cancel()
            await asyncio.wait({work.task})

        self.step(cancelled())

    @rule(worker=st.integers(2, 3), sure=st.integers(0, 2))
    def stall(self, worker: int, sure: int) -> None:
        """A worker that does not beat: its jobs are handed on, and its code may go on all the same."""
        if sure:
            return
        process = self.processes[worker]
        process.stalled = True
        self.run(
            self.database.execute(
                "UPDATE rejoinder.process SET beat_at = clock_timestamp() - interval '1 hour' WHERE id = $1",
                process.process.id,
            )
        )

    @rule(number=st.integers(0, 7), lose=st.booleans())
    def found_dead(self, number: int, lose: bool) -> None:
        """A process is found dead. It wakes as a new one; what it was doing goes on under its old name."""
        if number > 3:
            return
        process = self.processes[number]

        async def bury() -> None:
            if lose:
                mine = [w.job for w in self.works if w.going and w.process is process and w.job]
                await self.database.execute("DELETE FROM rejoinder.pgqueuer WHERE id = ANY ($1)", mine)
            withdrawn = await process.process.leave("found dead")
            self.signals.tell(*(f"q:{one}" for one in withdrawn))
            for work in self.works:
                if work.going and work.process is process:
                    # From now on the queue thinks that nobody has it.
                    await self.database.execute(
                        "UPDATE rejoinder.pgqueuer SET status = 'queued' WHERE id = $1", work.job
                    )
            process.process.renew()
            await process.process.join()
            process.stalled = False

        self.step(bury())

    @rule(n=NUMBER, discard=st.integers(0, 3))
    def operate(self, n: int, discard: int) -> None:
        service = self.processes[0].service
        held = self.run(service.newest(by=ANN, held=True))
        if held:
            run = chosen(held, n)
            if discard == 0:
                self.step(service.discard(run.id, by=ANN))
            else:
                self.retries[run.id] += 1
                self.step(service.retry(run.id, by=ANN))

    # What holds

    @invariant()
    def nothing_is_wrong(self) -> None:
        async def look() -> None:
            assert not self.faults, self.faults
            async with self.database.pool.acquire() as connection:
                found = await broken(connection)
                assert not found, found
                rows = await connection.fetch("SELECT id, answer, state FROM rejoinder.question")
                ends = await connection.fetch(
                    "SELECT run_id, count(*) AS n FROM rejoinder.event WHERE kind = 'run.succeeded' GROUP BY run_id"
                )
                once = {
                    r["id"]
                    for r in await connection.fetch("SELECT id FROM rejoinder.run WHERE NOT idempotent")
                }
            kept = {r["id"]: r["answer"] for r in rows if r["state"] == "answered"}
            assert kept == self.answers, "an answer was lost, changed or made up"
            assert all(r["n"] == 1 for r in ends), "a run succeeded twice"
            for (run_id, phase, members), entered in self.entries.items():
                allowed = (1 if run_id in once else MAX_STARTS) * (1 + self.retries[run_id])
                assert entered <= allowed, f"entered {entered} times: {run_id} {phase} {members}"

        self.run(look())


async def _install(url: str) -> None:
    await MovableClock(url).install()


def a_step(machine: Machine, r: random.Random) -> None:
    """One rule with arguments of its own: a walk goes where Hypothesis, which likes the simple, seldom goes."""
    n = {"n": r.randrange(1000)}
    worker, tool_name = {"worker": r.choice((2, 3))}, {"name": r.choice(("once", "again"))}
    modes = r.choices(("sync", "async", "async"), k=r.randint(1, 3))
    steps: list[tuple[int, Any]] = [
        (6, lambda: machine.call(**tool_name, server=r.choice((0, 1)))),
        (6, lambda: machine.start(**tool_name, **worker)),
        (4, lambda: machine.pick_one(**n, **worker)),
        (2, lambda: machine.both_pick(**n)),
        (8, lambda: machine.ask_several(**n, modes=modes)),
        (8, lambda: machine.ask_and_park(**n)),
        (3, lambda: machine.park(**n)),
        (4, lambda: machine.end_code(**n, how=r.choice(("return", "return", "raise", "terminal")))),
        (5, lambda: machine.answer(**n, value=r.choice((True, False, "no")), by=r.choice((BOB, CAROL)))),
        (5, lambda: machine.race(**n, cancel=r.random() < 0.3, late=r.random() < 0.3)),
        (7, lambda: machine.answer_all(**n, **worker)),
        (1, lambda: machine.cancel(**n, sure=0)),
        (2, lambda: machine.advance(seconds=r.choice((1, 10, 90)))),
        (2, lambda: machine.expire()),
        (1, lambda: machine.caller_goes(**n)),
        (1, lambda: machine.stall(**worker, sure=0)),
        (2, lambda: machine.found_dead(number=r.randrange(4), lose=r.random() < 0.5)),
        (2, lambda: machine.operate(**n, discard=r.randrange(4))),
    ]
    r.choices([s for _, s in steps], [w for w, _ in steps])[0]()


#: Where a walk has to have been before it says anything.
PLACES = (
    "interaction.answered answered",
    "interaction.removed expired",
    "interaction.removed asker gone",
    "run.parked",
    "run.resumed",
    "barrier of several",
    "complete when sealed",
    "entered again",
    "run.retried",
    "run.lost found dead",
)


@pytest.mark.timeout(3600 if LONG else 600)
def test_a_walk_through_life_keeps_every_promise(database_url: str) -> None:
    """Who wins a race differs from run to run, so a walk goes on until it was everywhere, or fails."""
    asyncio.run(_install(database_url))
    seen: Counter[str] = Counter()
    enough, most = (600, 600) if LONG else (10, 60)
    for seed in range(most):
        if seed >= enough and all(seen[place] for place in PLACES):
            break
        machine, r = Machine(database_url, seen), random.Random(seed)
        try:
            for _ in range(70):
                a_step(machine, r)
                machine.nothing_is_wrong()
        finally:
            machine.teardown()
    never = [place for place in PLACES if not seen[place]]
    assert not never, f"never went through: {never}; {dict(seen)}"


@pytest.mark.timeout(3600 if LONG else 120)
def test_any_life_keeps_every_promise(database_url: str) -> None:
    asyncio.run(_install(database_url))

    seen: Counter[str] = Counter()

    def machine() -> Machine:
        return Machine(database_url, seen)

    run_state_machine_as_test(
        machine,  # type: ignore[arg-type]
        settings=settings(
            max_examples=500 if LONG else 8,
            stateful_step_count=120 if LONG else 45,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
        # Hypothesis likes short lives; little happens in them.
        _min_steps=40,
    )
