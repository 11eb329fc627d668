"""The doctor's look at the database and at what runs on it. It reads only."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import asyncpg

from rejoinder.asks.canary import check_route
from rejoinder.asks.tickets import PURPOSE, TicketOffice
from rejoinder.contract.errors import RejoinderError
from rejoinder.contract.public import public_base, wrong_with
from rejoinder.contract.settings import Settings
from rejoinder.launch.findings import Finding
from rejoinder.net.guard import Guard
from rejoinder.net.outbound import Outbound
from rejoinder.observe.logs import mask
from rejoinder.store.database import Connection, Database, Row
from rejoinder.store.migrate import MINIMUM_SERVER, applied, available
from rejoinder.store.sealing import SealingKeys
from rejoinder.store.sql import sql

_sql = sql("doctor")

SKEW_SECONDS = 2.0
#: A job that waits longer than this finds no worker, or too few.
WAIT_SECONDS = 60.0
#: A writing transaction that is older than this holds back every stream.
WRITER_SECONDS = 10.0
MINUTE = 60.0


async def look_at_database(url: str, settings: Settings) -> list[Finding]:
    try:
        connection = await Database(url).connect()
    except RejoinderError as error:
        return [_away(error.message)]
    except (asyncpg.PostgresError, ValueError) as error:
        return [_away(mask(str(error)))]
    try:
        before = datetime.now(UTC)
        server = await connection.fetchrow(_sql.server)
        after = datetime.now(UTC)
        assert server is not None
        findings = [*_server(server, before + (after - before) / 2)]
        done = await applied(connection)
        lacking = [name for number, name, _ in available() if number not in done]
        newer = [number for number in done if number > max(n for n, _, _ in available())]
        if lacking:
            return [
                *findings,
                Finding(
                    "migrations",
                    "fail",
                    f"The database lacks migrations ({len(lacking)}); the first is {lacking[0]}.",
                    "Run: rejoinder migrate",
                ),
            ]
        if newer:
            findings.append(
                Finding(
                    "migrations",
                    "warn",
                    f"The database was brought to a newer version (migration {max(newer)}) than this one knows.",
                    "Upgrade this installation.",
                )
            )
        else:
            findings.append(Finding("migrations", "ok", "The database is up to date."))
        return [*findings, *await _running(connection, settings), *await _route(url, connection, settings)]
    except asyncpg.InsufficientPrivilegeError as error:
        return [
            Finding(
                "database",
                "fail",
                f"The database role may not read: {error}.",
                "Grant it the schema rejoinder.",
            )
        ]
    finally:
        await connection.close()


async def _route(url: str, connection: Connection, settings: Settings) -> list[Finding]:
    """A canary through the public address. The key that seals it is made by the first server, not by this look."""
    base = settings.interactions_public_base_url
    if base is None or wrong_with(base) is not None or not await connection.fetchval(_sql.sealed, PURPOSE):
        return []
    database, outbound = Database(url, pool=1), Outbound(Guard.of(settings))
    await database.open()
    try:
        route = await check_route(TicketOffice(SealingKeys(database, PURPOSE)), outbound, public_base(base))
    finally:
        await outbound.stop()
        await database.close()
    if route.up:
        return [Finding("callback route", "ok", route.what)]
    return [
        Finding(
            "callback route",
            "fail",
            route.what,
            "Let the proxy lead /api/interactions/callback/ to rejoinder serve, GET and POST. While it does not, every "
            "outside system is told 404, as for a ticket that is over.",
        )
    ]


def _away(reason: str) -> Finding:
    return Finding(
        "database",
        "fail",
        f"The database cannot be used: {reason}",
        "Check that it runs, that REJOINDER_DATABASE_URL names its host, port and database, and its user and password.",
    )


def _server(server: Row, now: datetime) -> Iterator[Finding]:
    size = server["size"] / 1024**2
    if server["number"] < MINIMUM_SERVER:
        yield Finding(
            "database",
            "fail",
            f"PostgreSQL {server['version']} is too old.",
            "Upgrade it to version 15 or newer.",
        )
    elif server["standby"]:
        yield Finding(
            "database",
            "fail",
            "The database is a read-only standby.",
            "Name the primary in REJOINDER_DATABASE_URL.",
        )
    else:
        yield Finding("database", "ok", f"PostgreSQL {server['version']} answers; it holds {size:,.0f} MiB.")
    if server["fsync"] != "on":
        yield Finding(
            "durability",
            "warn",
            "fsync is off: a loss of power loses answers.",
            "Set fsync = on in postgresql.conf.",
        )
    used, most = server["connected"], server["connections"]
    if used > 0.8 * most:
        yield Finding(
            "connections",
            "warn",
            f"{used} of {most} connections are in use.",
            "Raise max_connections, or lower REJOINDER_DATABASE_POOL of the processes.",
        )
    skew = (server["now"] - now).total_seconds()
    if abs(skew) > SKEW_SECONDS:
        direction = "ahead of" if skew > 0 else "behind"
        yield Finding(
            "clock",
            "warn",
            f"The database's clock is {abs(skew):.0f} seconds {direction} this machine's. Deadlines go by the database's.",
            "Synchronise both machines with NTP.",
        )
    else:
        yield Finding("clock", "ok", "This machine's clock and the database's agree.")


async def _running(connection: Connection, settings: Settings) -> list[Finding]:
    processes = await connection.fetch(_sql.processes)
    queue = await connection.fetchrow(_sql.queue)
    slots = await connection.fetchrow(_sql.slots)
    counts = await connection.fetchrow(_sql.counts)
    writer = await connection.fetchrow(_sql.oldest_writer)
    assert queue is not None
    assert slots is not None
    assert counts is not None
    stale = settings.rejoinder_stale_seconds
    return [
        *_processes(processes, stale),
        *_queue(
            queue, workers=sum(p["kind"] in ("worker", "up") and p["silent"] <= stale for p in processes)
        ),
        *_slots(slots, settings),
        *_counts(counts, settings),
        *_writer(writer),
        *(_closed(await connection.fetch(_sql.closed)) if settings.access_control_enable else ()),
        *_schedules(await connection.fetchrow(_sql.schedules)),
    ]


def _processes(rows: list[Row], stale: float) -> Iterator[Finding]:
    alive = [row for row in rows if row["silent"] <= stale]
    shown = ", ".join(f"{row['kind']} on {row['host']} ({row['pid']})" for row in alive[:10])
    if alive:
        yield Finding("processes", "ok", f"{len(alive)} on this database: {shown}.")
    else:
        yield Finding(
            "processes",
            "warn",
            "No process of Rejoinder runs on this database.",
            "Start rejoinder serve and rejoinder worker.",
        )
    silent = [row for row in rows if row["silent"] > MINUTE]
    if silent and alive:
        first = silent[0]
        yield Finding(
            "dead processes",
            "warn",
            f"Not heard of for over a minute, but holding its lock ({len(silent)} in all): "
            f"{first['kind']} on {first['host']} ({first['pid']}).",
            "If it hangs, end it: its questions are withdrawn and its runs are taken over then.",
        )
    versions = sorted({row["version"] for row in alive})
    if len(versions) > 1:
        yield Finding(
            "versions",
            "warn",
            f"Different versions run: {', '.join(versions)}.",
            "Finish the upgrade of all processes.",
        )


def _queue(queue: Row, *, workers: int) -> Iterator[Finding]:
    waiting, oldest = queue["waiting"], queue["oldest"] or 0.0
    if not workers:
        yield Finding(
            "workers",
            "fail" if waiting else "warn",
            f"No worker runs. Jobs that wait for one: {waiting}." if waiting else "No worker runs.",
            "Start one with: rejoinder worker. Without it parked runs do not go on.",
        )
    elif oldest > WAIT_SECONDS:
        yield Finding(
            "queue",
            "warn",
            f"Jobs that wait: {waiting}, the oldest for {oldest:.0f} seconds.",
            "Start more workers, or look in their logs for what holds them up.",
        )
    else:
        yield Finding(
            "queue", "ok", f"Jobs that wait: {waiting}; under way: {queue['picked']}; workers: {workers}."
        )


def _slots(slots: Row, settings: Settings) -> Iterator[Finding]:
    most = settings.interactions_max_concurrent
    if most is None:
        return
    used = slots["used"]
    if used >= 0.8 * most:
        yield Finding(
            "open questions",
            "fail" if used >= most else "warn",
            f"{used} questions are open, and {most} may be.",
            "Answer or withdraw some, or raise INTERACTIONS_MAX_CONCURRENT for every process.",
        )
    else:
        yield Finding("open questions", "ok", f"Open now: {used} of at most {most}.")


def _counts(counts: Row, settings: Settings) -> Iterator[Finding]:
    if counts["held"]:
        yield Finding(
            "held runs",
            "warn",
            f"Runs that are held, because something may have been half done: {counts['held']}.",
            "Look at them with: rejoinder tools runs --held. Then retry or discard each.",
        )
    else:
        yield Finding("held runs", "ok", "No run waits for an operator.")
    if settings.access_control_enable and not counts["admins"]:
        yield Finding(
            "keys", "fail", "No key may administer this deployment.", "Make one with: rejoinder owner-key"
        )


def _writer(writer: Row | None) -> Iterator[Finding]:
    if writer is not None and (writer["age"] or 0) > WRITER_SECONDS:
        yield Finding(
            "streams",
            "warn",
            f"A transaction of {writer['name'] or 'another program'} (process {writer['pid']} of the database) has been "
            f"writing for {writer['age']:.0f} seconds; every stream waits for it.",
            "End that transaction, or the program that holds it open.",
        )
    else:
        yield Finding("streams", "ok", "No transaction holds the streams back.")


def _closed(rows: list[Row]) -> Iterator[Finding]:
    """Doors that something waits behind and that nobody may come through."""
    if rows:
        shown = ", ".join(row["door"] for row in rows[:10])
        yield Finding(
            "closed doors",
            "warn",
            f"Hooks or trigger links wait behind doors that are closed, so nothing reaches them: {shown}.",
            f"Open one with: rejoinder scopes public pin '{rows[0]['door']}'",
        )


def _schedules(found: Row | None) -> Iterator[Finding]:
    if found is None or not (found["failing"] or found["late"]):
        return
    yield Finding(
        "schedules",
        "warn",
        f"Schedules that started nothing the last time: {found['failing']}; that are late: {found['late']}.",
        "Look at them with: rejoinder schedules list. Late ones have no worker, or none that knows their tool.",
    )
