"""Forward-only, numbered migrations. Each runs once, in one transaction, under one lock; old code may still run."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING

import asyncpg

from rejoinder.contract.errors import ConfigurationError
from rejoinder.store.database import Connection, Database

if TYPE_CHECKING:
    from collections.abc import Iterable

LOCK = (7355608, 2)
_FILE = re.compile(r"^(\d{4})_\w+\.sql$")
MINIMUM_SERVER = 150_000


def available() -> list[tuple[int, str, str]]:
    """``(number, name, text)`` of each migration that this version brings, in order."""
    found = []
    for entry in files("rejoinder.store").joinpath("migrations").iterdir():
        match = _FILE.match(entry.name)
        if match:
            found.append((int(match[1]), entry.name, entry.read_text(encoding="utf-8")))
    return sorted(found)


async def applied(connection: Connection) -> list[int]:
    if await connection.fetchval("SELECT to_regclass('rejoinder.migration')") is None:
        return []
    rows = await connection.fetch("SELECT number FROM rejoinder.migration ORDER BY number")
    return [row["number"] for row in rows]


async def pending(database: Database) -> list[str]:
    """Names of the migrations that this database lacks."""
    connection = await database.connect()
    try:
        done = set(await applied(connection))
    finally:
        await connection.close()
    return [name for number, name, _ in available() if number not in done]


async def migrate(database: Database) -> list[str]:
    """Bring the database to this version. Returns what was applied. Two at once: one waits for the other."""
    connection = await database.connect()
    try:
        version = connection.get_server_version()
        if version.major * 10_000 < MINIMUM_SERVER:
            raise ConfigurationError(f"PostgreSQL {version.major} is too old: 15 or newer is needed")
        await connection.execute("SET statement_timeout = 0")
        await connection.execute("SELECT pg_advisory_lock($1, $2)", *LOCK)
        try:
            await _prepare(connection)
            return await _apply(connection, available())
        except asyncpg.InsufficientPrivilegeError as error:
            raise ConfigurationError(f"this database role may not create the schema: {error}") from None
        finally:
            await connection.execute("SELECT pg_advisory_unlock($1, $2)", *LOCK)
    finally:
        await connection.close()


async def _prepare(connection: Connection) -> None:
    await connection.execute(
        """
        CREATE SCHEMA IF NOT EXISTS rejoinder;
        CREATE TABLE IF NOT EXISTS rejoinder.migration (
            number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp());
        """
    )
    from rejoinder.store.queue import install

    await install(connection)


async def _apply(connection: Connection, migrations: Iterable[tuple[int, str, str]]) -> list[str]:
    done = set(await applied(connection))
    names = []
    for number, name, text in migrations:
        if number in done:
            continue
        async with connection.transaction():
            await connection.execute(text)
            await connection.execute(
                "INSERT INTO rejoinder.migration (number, name) VALUES ($1, $2)", number, name
            )
        names.append(name)
    return names
