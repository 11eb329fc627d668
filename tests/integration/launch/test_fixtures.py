"""The fixtures that every other test stands on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rejoinder.store.database import Database
from rejoinder.store.migrate import available, pending
from tests.support import MovableClock, assert_eventually, wait_until


@pytest.mark.parametrize("turn", [1, 2])
async def test_each_test_gets_its_own_migrated_database(database: Database, turn: int) -> None:
    assert await pending(database) == []
    assert await database.value("SELECT count(*) FROM rejoinder.migration") == len(available())
    assert await database.value("SELECT to_regclass('public.mine')") is None
    await database.execute("CREATE TABLE public.mine ()")


async def test_the_clock_moves_and_stops(database: Database, clock: MovableClock) -> None:
    await clock.advance(3600)
    ahead = await database.value("SELECT rejoinder.clock() - clock_timestamp()")
    assert timedelta(minutes=59) < ahead <= timedelta(hours=1)
    await clock.set(datetime(2030, 1, 2, tzinfo=UTC))
    await clock.advance(1)
    assert await database.value("SELECT rejoinder.clock()") == datetime(2030, 1, 2, 0, 0, 1, tzinfo=UTC)
    assert await clock.hold() == datetime(2030, 1, 2, 0, 0, 1, tzinfo=UTC)


async def test_an_empty_database_has_nothing_of_ours(empty_database_url: str) -> None:
    assert await pending(Database(empty_database_url)) == [name for _, name, _ in available()]


async def test_waiting_returns_the_value_and_fails_with_the_message() -> None:
    values = iter([0, None, "", "here"])
    assert await assert_eventually(lambda: next(values)) == "here"

    async def never() -> int:
        return 0

    with pytest.raises(AssertionError, match="the light did not go on"):
        await assert_eventually(never, "the light did not go on", within=0)
    with pytest.raises(AssertionError, match="the light did not go on"):
        wait_until(lambda: 0, "the light did not go on", within=0)
