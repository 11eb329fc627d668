"""One pool of connections to one Postgres; JSON goes in and out as Python values."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import asyncpg
import orjson

from rejoinder.contract.errors import ConfigurationError, NotReadyError

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
    PoolConnection: TypeAlias = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
else:
    Connection = asyncpg.Connection
    Pool = asyncpg.Pool
    PoolConnection = Any

Row: TypeAlias = asyncpg.Record

#: What says that the server is away or going away, rather than that a statement was wrong.
AWAY = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # A connection whose server was killed while it was opened: the driver takes it for open.
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.QueryCanceledError,
    ConnectionError,
    OSError,
    asyncio.TimeoutError,
)


def encode(value: Any) -> str:
    """A JSON value as Postgres takes it. Numbers of any size survive; keys stay in their order."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # An integer beyond 64 bits: the standard library writes it whole.
        import json

        return json.dumps(value, ensure_ascii=False, allow_nan=False)


#: An integer of so many digits may not fit 64 bits.
_BIG_NUMBER = re.compile(r"[0-9]{19}")


def decode(text: str) -> Any:
    # The standard library keeps an integer beyond 64 bits exact; orjson makes a float of it.
    value = orjson.loads(text)
    return value if len(text) < 19 or _BIG_NUMBER.search(text) is None else _decode_exactly(text)


def _decode_exactly(text: str) -> Any:
    import json

    return json.loads(text)


async def _prepare(connection: Connection) -> None:
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, encoder=encode, decoder=decode, schema="pg_catalog")


async def _leave_as_is(_connection: Any) -> None:
    """Nothing of ours changes a pooled session; resetting one would cost a round trip after every statement."""


def _check_url(url: str) -> None:
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        scheme = ""
    if scheme not in ("postgresql", "postgres"):
        raise ConfigurationError("REJOINDER_DATABASE_URL must begin with postgresql://")


class Database:
    """The pool. Every method raises NotReadyError where the server is away; nothing has then been changed,
    or, where the connection broke during a commit, the caller must read again to know."""

    def __init__(self, url: str, *, pool: int = 8, statement_timeout: float = 30) -> None:
        _check_url(url)
        self.url = url
        self._size = pool
        self._settings = {
            "application_name": "rejoinder",
            "statement_timeout": str(int(statement_timeout * 1000)),
            # An open writing transaction holds back every stream, so ours are bounded.
            "idle_in_transaction_session_timeout": str(int(statement_timeout * 1000)),
        }
        self._pool: Pool | None = None

    async def open(self) -> None:
        try:
            self._pool = await asyncpg.create_pool(
                self.url,
                min_size=min(2, self._size),
                max_size=self._size,
                server_settings=self._settings,
                init=_prepare,
                reset=_leave_as_is,
                timeout=10,
                max_inactive_connection_lifetime=0,
            )
        except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
            raise ConfigurationError(f"the database refuses REJOINDER_DATABASE_URL: {error}") from None
        except AWAY as error:
            raise NotReadyError(f"the database does not answer ({type(error).__name__})") from None

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(5):
                    await pool.close()
            except (TimeoutError, *AWAY):
                pool.terminate()

    @property
    def pool(self) -> Pool:
        if self._pool is None:
            raise NotReadyError("the database is not open")
        return self._pool

    async def connect(self) -> Connection:
        """A connection of its own, outside the pool: for LISTEN and session locks."""
        try:
            connection = await asyncpg.connect(self.url, server_settings=self._settings, timeout=10)
        except AWAY as error:
            raise NotReadyError(f"the database does not answer ({type(error).__name__})") from None
        return connection

    async def rows(self, query: str, *args: Any) -> list[Row]:
        try:
            return await self.pool.fetch(query, *args)
        except AWAY as error:
            raise _away(error) from error

    async def row(self, query: str, *args: Any) -> Row | None:
        try:
            return await self.pool.fetchrow(query, *args)
        except AWAY as error:
            raise _away(error) from error

    async def value(self, query: str, *args: Any) -> Any:
        try:
            return await self.pool.fetchval(query, *args)
        except AWAY as error:
            raise _away(error) from error

    async def execute(self, query: str, *args: Any) -> str:
        try:
            return await self.pool.execute(query, *args)
        except AWAY as error:
            raise _away(error) from error

    async def execute_many(self, query: str, rows: Sequence[Sequence[Any]]) -> None:
        try:
            await self.pool.executemany(query, rows)
        except AWAY as error:
            raise _away(error) from error

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[PoolConnection]:
        try:
            async with self.pool.acquire() as connection, connection.transaction():
                yield connection
        except AWAY as error:
            raise _away(error) from error


def _away(error: BaseException) -> NotReadyError:
    return NotReadyError(f"the database does not answer ({type(error).__name__}); try again")
