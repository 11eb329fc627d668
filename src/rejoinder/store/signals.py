"""One notification connection per process, and coalesced notifications after a commit.

A signal carries an id and never content; nothing depends on one having arrived. It is sent after the commit, in a
statement of its own: a NOTIFY inside the writing transaction makes every such commit in the whole database wait for
the one before it to reach the disk.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import orjson

from rejoinder.contract import pause
from rejoinder.contract.errors import NotReadyError
from rejoinder.observe.logs import get_logger
from rejoinder.store.database import AWAY, Connection, Database
from rejoinder.store.queue import RESUME, START, job_channel

CHANNEL = "rejoinder"
#: Postgres refuses a payload of 8,000 bytes.
MAX_PAYLOAD = 7_000
RECONNECT_SECONDS = 0.2

QUESTION = "q"
EVENTS = "e"
DEADLINE = "d"
RUN = "r"
KEYS = "k"
#: A hook run is due.
HOOKS = "h"
PUBLIC = "p"
SCHEDULES = "c"
PRESETS = "t"
#: A request of a call over MCP was given up.
LEG = "l"
#: Jobs were enqueued: resumptions, or first phases of runs.
RESUMES = "j:resume"
STARTS = "j:run"
_JOBS = {RESUMES: job_channel(RESUME), STARTS: job_channel(START)}

log = get_logger("signals")


def question(identifier: UUID) -> str:
    return f"{QUESTION}:{identifier}"


def run(identifier: UUID) -> str:
    return f"{RUN}:{identifier}"


def leg(request: bytes) -> str:
    return f"{LEG}:{request.hex()}"


class Signals:
    """``tell`` sends, ``hear`` subscribes, ``on_connect`` runs after every (re)connect: re-read there."""

    def __init__(self, database: Database, *, lock_key: int | None = None) -> None:
        self._database = database
        self._lock_key = lock_key
        self._hearers: dict[str, list[Callable[[str], None]]] = defaultdict(list)
        self._relays: dict[str, list[Callable[[str], None]]] = defaultdict(list)
        self._on_connect: list[Callable[[], Awaitable[None]]] = []
        self._outgoing: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._connection: Connection | None = None
        self._lost = asyncio.Event()
        self._ready = asyncio.Event()
        self._stopping = False
        # Stands before what this process sends: its own hearers were told already, and told twice they read twice.
        self._mark = f"@{secrets.token_hex(4)}"

    @property
    def connected(self) -> bool:
        return self._ready.is_set()

    def hear(self, kind: str, callback: Callable[[str], None]) -> None:
        self._hearers[kind].append(callback)

    def relay(self, channel: str, callback: Callable[[str], None]) -> None:
        """Give the payloads of another channel (the queue's) to ``callback``."""
        self._relays[channel].append(callback)

    def unrelay(self, channel: str, callback: Callable[[str], None]) -> None:
        if callback in self._relays[channel]:
            self._relays[channel].remove(callback)

    def on_connect(self, callback: Callable[[], Awaitable[None]]) -> None:
        self._on_connect.append(callback)

    async def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._listen(), name="signals.listen"),
            asyncio.create_task(self._send(), name="signals.send"),
        ]
        waiter = asyncio.create_task(self._ready.wait())
        done, _ = await asyncio.wait(
            {waiter, self._tasks[0]}, timeout=15, return_when=asyncio.FIRST_COMPLETED
        )
        if waiter not in done:
            waiter.cancel()
            await self.stop()
            raise NotReadyError("the database does not take a notification connection")

    async def stop(self) -> None:
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self._drop()

    def tell(self, *signals: str) -> None:
        """After a commit: wake this process at once and the others within a few milliseconds."""
        for signal in signals:
            self._outgoing[signal] = None
            self._deliver(signal)
        self._wake.set()

    async def flush(self) -> None:
        """Send what is waiting now; used before a process stops."""
        await self._send_once()

    def renew_lock(self, lock_key: int) -> None:
        """Hold another session lock: reconnects."""
        self._lock_key = lock_key
        self.break_connection()

    def break_connection(self) -> None:
        """For tests: lose the notification connection as a network fault would."""
        if self._connection is not None:
            self._connection.terminate()

    def _deliver(self, signal: str) -> None:
        kind, _, identifier = signal.partition(":")
        for callback in self._hearers.get(kind, ()):
            callback(identifier)

    def _heard(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        mark, *signals = str(payload).split()
        if mark != self._mark:
            for signal in signals:
                self._deliver(signal)

    def _relayed(self, _connection: Any, _pid: int, channel: str, payload: object) -> None:
        for callback in list(self._relays.get(channel, ())):
            callback(str(payload))

    async def _listen(self) -> None:
        while True:
            try:
                await self._connect()
                await self._lost.wait()
                log.warning("notification connection lost")
            except (NotReadyError, *AWAY) as error:
                log.warning("notification connection refused", error=type(error).__name__)
            except Exception:
                log.exception("the notification connection failed")
            self._ready.clear()
            await self._drop()
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _connect(self) -> None:
        self._lost.clear()
        connection = await self._database.connect()
        self._connection = connection
        connection.add_termination_listener(lambda _c: self._lost.set())
        await connection.add_listener(CHANNEL, self._heard)
        for channel in _JOBS.values():
            await connection.add_listener(channel, self._relayed)
        for callback in self._on_connect:
            await callback()
        if self._lock_key is not None:
            # A server that lost its connection without noticing still holds the old session's lock: wait for none.
            await connection.fetchval("SELECT pg_try_advisory_lock($1)", self._lock_key)
        self._ready.set()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None or connection.is_closed():
            return
        try:
            async with asyncio.timeout(1):
                await connection.close()
        except AWAY:
            connection.terminate()

    async def _send(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._send_once()
            except NotReadyError:
                # Whoever waits re-reads on reconnect and polls as the floor.
                log.warning("signals not sent")
            except Exception:
                log.exception("signals could not be sent")

    async def _send_once(self) -> None:
        if not self._outgoing:
            return
        signals, self._outgoing = list(self._outgoing), {}
        channels, payloads = [], []
        for payload in pack([s for s in signals if s not in _JOBS]):
            channels.append(CHANNEL)
            payloads.append(f"{self._mark} {payload}")
        for channel in (_JOBS[s] for s in signals if s in _JOBS):
            channels.append(channel)
            payloads.append(_job_event(channel))
        await self._database.execute(
            "SELECT pg_notify(c, p) FROM unnest($1::text[], $2::text[]) AS s (c, p)", channels, payloads
        )
        await pause.here("notify.sent")


def pack(signals: list[str]) -> list[str]:
    """Signals joined into payloads that Postgres takes."""
    payloads: list[str] = []
    current: list[str] = []
    size = 0
    for signal in signals:
        if current and size + len(signal) + 1 > MAX_PAYLOAD:
            payloads.append(" ".join(current))
            current, size = [], 0
        current.append(signal)
        size += len(signal) + 1
    if current:
        payloads.append(" ".join(current))
    return payloads


def _job_event(channel: str) -> str:
    from datetime import UTC, datetime

    return orjson.dumps(
        {
            "channel": channel,
            "operation": "insert",
            "sent_at": datetime.now(UTC).isoformat(),
            "table": "pgqueuer",
            "type": "table_changed_event",
        }
    ).decode()
