"""LangGraph's checkpointers behind our fence. Imports LangGraph, so it is imported only where an agent is driven."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from rejoinder.agents.bridge import current_drive
from rejoinder.contract import pause
from rejoinder.contract.errors import LeaseLostError, NotReadyError
from rejoinder.store.sql import sql
from rejoinder.store.steps import FENCED

_sql = sql("checkpoints")

Hold = Callable[[UUID, int], Awaitable[None]]
Pool = AsyncConnectionPool[psycopg.AsyncConnection[DictRow]]


class FencedPostgresSaver(AsyncPostgresSaver):
    """Checkpoints in our database, in a schema of their own. A worker that no longer drives the run writes nothing: the
    run's epoch is held in the very transaction that writes. In another database (``hold`` given) it is checked right
    before the write.

    A transaction that writes is over after ``within`` seconds, whatever becomes of this process. One that is paused
    inside of it keeps its connection, and the run, which nobody could take over: not even its end could be written.
    A server before 17 bounds only what is idle: there one that stops in the middle of sending a batch, which takes
    microseconds, holds on until its process goes on or ends."""

    def __init__(self, pool: Pool, hold: Hold | None, within: float) -> None:
        super().__init__(pool)
        self._pool = pool
        self._hold = hold
        self._within = str(int(within * 1000))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        before = config["configurable"].get("checkpoint_id")
        if before is not None and checkpoint["id"] <= before:
            # Ids are times, and the run goes on from the greatest. From the older one the model would be asked again
            # for what has been done since, and would give it other calls.
            error = NotReadyError(
                "the clock of this worker is behind the one that wrote the run's last checkpoint"
            )
            current_drive().end(error)
            raise error
        return await super().aput(config, checkpoint, metadata, new_versions)

    async def aclose(self) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[psycopg.AsyncCursor[DictRow]]:
        # Not the library's own: it lets one caller at a time through, however many connections there are.
        try:
            async with self._pool.connection() as connection:
                if not pipeline:
                    async with connection.cursor(binary=True, row_factory=dict_row) as cursor:
                        yield cursor
                    return
                drive = current_drive()
                await pause.here("checkpoint.writing")
                drive.check()
                async with (
                    connection.pipeline() as messages,
                    connection.transaction(),
                    connection.cursor(binary=True, row_factory=dict_row) as cursor,
                ):
                    await cursor.execute(_sql.bound, (self._within, self._within))
                    if self._hold is None:
                        await cursor.execute(_sql.hold, (drive.run_id, drive.epoch))
                    else:
                        await self._hold(drive.run_id, drive.epoch)
                    # Before a sync the server does not count this session as idle.
                    await messages.sync()
                    await pause.here("checkpoint.held")
                    yield cursor
        except psycopg.Error as error:
            told = _told(error)
            if pipeline:
                # LangGraph writes in the background. After one write that failed none may follow, and no step begin:
                # a later checkpoint would stand on what is not there.
                current_drive().end(told)
            raise told from (None if told is error else error)
        except (LeaseLostError, NotReadyError) as error:
            # Of the run's own database, where the checkpoints are in another one.
            if pipeline:
                current_drive().end(error)
            raise


def _told(error: psycopg.Error) -> Exception:
    if error.sqlstate == FENCED:
        return LeaseLostError("another worker drives this run now; its checkpoint was not written")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return NotReadyError(f"the database does not answer ({type(error).__name__})")
    return error


async def open_postgres(url: str, *, size: int, hold: Hold | None, within: float) -> FencedPostgresSaver:
    """A saver on a pool of its own; its tables are made and upgraded first, by one process at a time."""
    pool: Pool = AsyncConnectionPool(
        url,
        min_size=1,
        max_size=size,
        open=False,
        timeout=30,
        kwargs={
            "autocommit": True,
            "prepare_threshold": 0,
            "row_factory": dict_row,
            "options": f"-c search_path={_SCHEMA}",
            "application_name": "rejoinder-checkpoints",
        },
        name="rejoinder.checkpoints",
    )
    try:
        await pool.open(wait=True, timeout=30)
    except Exception:
        await pool.close()
        raise
    saver = FencedPostgresSaver(pool, hold, within)
    async with pool.connection() as connection:
        while not await _locked(connection):
            await asyncio.sleep(0.1)
        try:
            if hold is not None:
                await connection.execute(_sql.make_schema)
            await saver.setup()
        finally:
            await connection.execute(_sql.unlock)
    return saver


async def _locked(connection: psycopg.AsyncConnection[DictRow]) -> bool:
    row = await (await connection.execute(_sql.lock)).fetchone()
    assert row is not None
    return bool(row["locked"])


_SCHEMA = "rejoinder_checkpoints"
