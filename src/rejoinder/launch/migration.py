"""``rejoinder migrate``."""

from __future__ import annotations

import asyncpg

from rejoinder.contract.errors import ConfigurationError
from rejoinder.contract.settings import Settings
from rejoinder.observe.logs import mask
from rejoinder.store.database import Database
from rejoinder.store.migrate import migrate, pending


def database_of(settings: Settings) -> Database:
    """The database that REJOINDER_DATABASE_URL names. Raises ConfigurationError where it names none."""
    if settings.rejoinder_database_url is None:
        raise ConfigurationError(
            "REJOINDER_DATABASE_URL is not set. It names the Postgres to use, such as "
            "postgresql://user:password@host:5432/rejoinder. To try Rejoinder without one, run: rejoinder up"
        )
    return Database(settings.rejoinder_database_url, pool=1)


async def bring_up_to_date(*, check: bool) -> int:
    """Apply, or with ``check`` only name, what the database lacks. Returns the exit code."""
    database = database_of(Settings.load())
    try:
        names = await pending(database) if check else await migrate(database)
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise ConfigurationError(
            f"The database refuses REJOINDER_DATABASE_URL: {mask(str(error))}."
        ) from None
    if not names:
        print("The database is up to date.")
        return 0
    print("To be applied:" if check else "Applied:")
    for name in names:
        print(f"  {name}")
    return 1 if check else 0
