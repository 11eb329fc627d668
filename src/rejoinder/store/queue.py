"""The job queue: PgQueuer in our schema, on our Postgres. Jobs are enqueued by our SQL functions, in their transaction.

What is different from its defaults, and why:

* its trigger, which notifies inside the enqueueing transaction, is dropped: commits that notify queue behind each
  other through the disk's flush, for the whole database. The process that committed notifies afterwards instead
  (``job_channel``); a worker polls as the floor.
* a failed job is held, not deleted.
* who may finish a run is decided by the epoch in our rows: PgQueuer completes a job without asking who holds it.
"""

from __future__ import annotations

from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.persistence import qb
from pgqueuer.domain.settings import DBSettings
from pgqueuer.domain.types import Channel
from pgqueuer.ports.driver import Driver
from pgqueuer.queries import Queries

from rejoinder.store.database import Connection

SCHEMA = "rejoinder"
#: The two kinds of jobs. Each has a channel of its own, so that a job wakes only what runs its kind.
RESUME, START = "resume", "run"
#: What became of a run, for the runs around it. Taken by those who take resumptions, and on their channel.
CHAIN = "chain"


def job_channel(kind: str) -> str:
    return f"rejoinder_jobs_{kind}"


def queue_settings(kind: str = START) -> DBSettings:
    return DBSettings(db_schema=SCHEMA, channel=Channel(job_channel(kind)))


def queue_queries(driver: Driver, kind: str = START) -> Queries:
    settings = queue_settings(kind)
    return Queries(
        driver,
        qbe=qb.QueryBuilderEnvironment(settings),
        qbq=qb.QueryQueueBuilder(settings),
        qbs=qb.QuerySchedulerBuilder(settings),
    )


async def install(connection: Connection) -> None:
    """Create or upgrade the queue's tables. Runs under the migrations' lock."""
    queries = queue_queries(AsyncpgDriver(connection))
    if await queries.schema_is_installed():
        await queries.apply_upgrade()
    else:
        async with connection.transaction():
            await connection.execute(queries.qbe.build_install_query(create_schema=False))
        await queries.optimize_autovacuum()
    await connection.execute("DROP TRIGGER IF EXISTS tg_pgqueuer_changed ON rejoinder.pgqueuer")
