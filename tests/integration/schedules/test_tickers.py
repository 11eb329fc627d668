"""Many workers take the same turns: each slot once, whoever is paused, late or in each other's way."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from rejoinder import tool
from rejoinder.contract import pause
from rejoinder.contract.errors import ToolFailedError
from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.node import Node
from rejoinder.schedules import ticker
from rejoinder.store.database import Database
from rejoinder.store.schedules import Schedules
from tests.integration.nodes import running
from tests.support import MovableClock, assert_eventually

LONG = bool(os.environ.get("REJOINDER_TEST_LONG"))
MANY = 100_000 if LONG else 2_000
HOURLY = {"kind": "interval", "every": 3600}


@tool(idempotent=True)
async def sweep(number: int = 0) -> int:
    return number


async def fill(database: Database, count: int) -> None:
    """So many schedules that are due now, each once and under no key."""
    await database.execute(
        """
        INSERT INTO rejoinder.schedule (id, name, tool, tool_kwargs, cadence, digest, identity, anchor_at, next_run_at,
                                        created_at, created_by)
        SELECT gen_random_uuid(), 'sweep_' || n, 'sweep', jsonb_build_object('number', n),
               '{"kind": "interval", "every": 3600}', ''::bytea, 'system:no-auth', at - interval '1 hour', at, at, 'test'
          FROM generate_series(1, $1::integer) AS n, rejoinder.clock() AS at
        """,
        count,
    )


@asynccontextmanager
async def tickers(url: str, count: int) -> AsyncIterator[list[Node]]:
    """Nodes whose tickers do not run by themselves."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(running(url, sweep, access_control_enable=False))
            for _ in range(count)
        ]


async def drain(node: Node) -> int:
    """Take turns until nothing is due."""
    done = 0
    while True:
        due, taken = await node.ticker.take_batch()
        done += taken
        if not due:
            return done


async def counted(database: Database) -> dict[str, int]:
    row = await database.row(
        """
        SELECT (SELECT count(*) FROM rejoinder.schedule_slot) AS slots,
               (SELECT count(*) FROM rejoinder.run WHERE door = 'schedules') AS runs,
               (SELECT count(DISTINCT arguments ->> 'number') FROM rejoinder.run) AS numbers,
               (SELECT count(*) FROM rejoinder.pgqueuer WHERE entrypoint = 'run') AS jobs,
               (SELECT count(*) FROM rejoinder.event WHERE kind = 'run.started') AS told,
               (SELECT count(*) FROM rejoinder.schedule WHERE next_run_at <= rejoinder.clock()) AS due
        """
    )
    assert row is not None
    return dict(row)


@pytest.mark.timeout(600 if LONG else 60)
async def test_a_drain_by_many_takes_each_turn_once(database_url: str, clock: MovableClock) -> None:
    await clock.hold()
    async with tickers(database_url, 3) as nodes:
        await fill(nodes[0].database, MANY)
        began = time.perf_counter()
        taken = await asyncio.gather(*(drain(node) for node in nodes))
        seconds = time.perf_counter() - began
        print(f"{MANY} turns in {seconds:.2f} s, {MANY / seconds:,.0f} a second, {taken}")
        assert sum(taken) == MANY
        assert await counted(nodes[0].database) == {
            "slots": MANY,
            "runs": MANY,
            "numbers": MANY,
            "jobs": MANY,
            "told": MANY,
            "due": 0,
        }


async def test_who_wakes_between_reading_and_taking_takes_nothing(
    database_url: str, clock: MovableClock
) -> None:
    await clock.hold()
    async with tickers(database_url, 2) as (slow, fast):
        await fill(slow.database, 5)
        read, go_on = asyncio.Event(), asyncio.Event()

        async def stand() -> None:
            pause.disarm()
            read.set()
            await go_on.wait()

        pause.arm("schedule.planned", stand)
        late = asyncio.create_task(slow.ticker.take_batch())
        await read.wait()
        assert await fast.ticker.take_batch() == (5, 5)
        go_on.set()
        assert await late == (5, 0)
        found = await counted(slow.database)
        assert (found["slots"], found["runs"], found["jobs"]) == (5, 5, 5)


@pytest.mark.parametrize("change", ["deleted", "disabled"])
async def test_what_is_changed_between_reading_and_taking_is_left_alone(
    database_url: str, clock: MovableClock, change: str
) -> None:
    await clock.hold()
    async with tickers(database_url, 1) as (node,):
        order = {"tool_name": "sweep", "cadence": HOURLY, "schedule_name": "one"}
        await node.schedules.create(order, by=LOCAL_OWNER, via="http")
        await clock.advance(3600)

        async def meanwhile() -> None:
            if change == "deleted":
                await node.schedules.delete("one", by=LOCAL_OWNER, via="http")
            else:
                await node.schedules.enable("one", False, by=LOCAL_OWNER, via="http")

        pause.arm("schedule.planned", meanwhile)
        assert await node.ticker.take_batch() == (1, 0)
        assert (await counted(node.database))["runs"] == 0


async def test_a_write_whose_reply_was_lost_is_not_done_again(database_url: str, clock: MovableClock) -> None:
    await clock.hold()
    async with tickers(database_url, 1) as (node,):
        await fill(node.database, 3)

        async def lose() -> None:
            raise ConnectionError("the reply was lost")

        pause.arm("schedule.taken", lose)
        with pytest.raises(ConnectionError):
            await node.ticker.take_batch()
        pause.disarm()
        assert await node.ticker.take_batch() == (0, 0)
        assert (await counted(node.database))["runs"] == 3


async def test_one_that_cannot_be_read_stands_in_nobodys_way(database_url: str, clock: MovableClock) -> None:
    await clock.hold()
    async with tickers(database_url, 1) as (node,):
        await fill(node.database, 3)
        await node.database.execute(
            """UPDATE rejoinder.schedule SET cadence = '{"kind": "of a later version"}' WHERE name = 'sweep_2'"""
        )
        assert await node.ticker.take_batch() == (3, 2)
        found = await counted(node.database)
        assert (found["runs"], found["due"]) == (2, 1)


async def test_a_whole_batch_that_cannot_be_read_stands_in_nobodys_way(
    database_url: str, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticker, "BATCH", 4)
    await clock.hold()
    async with tickers(database_url, 1) as (node,):
        await fill(node.database, 20)
        await node.database.execute(
            """
            UPDATE rejoinder.schedule SET cadence = '{"kind": "of a later version"}',
                   next_run_at = next_run_at - interval '1 minute'
             WHERE id IN (SELECT id FROM rejoinder.schedule LIMIT 9)
            """
        )
        while (await node.ticker.take_due())[1]:
            pass
        found = await counted(node.database)
        assert (found["runs"], found["due"]) == (11, 9)


async def test_batches_that_are_read_ahead_are_taken_once_by_many(
    database_url: str, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticker, "BATCH", 10)
    await clock.hold()
    async with tickers(database_url, 3) as nodes:
        await fill(nodes[0].database, 200)

        async def drained(node: Node) -> int:
            taken = 0
            while (await counted(node.database))["due"]:
                taken += (await node.ticker.take_due())[1]
            return taken

        assert sum(await asyncio.gather(*(drained(node) for node in nodes))) == 200
        found = await counted(nodes[0].database)
        assert (found["slots"], found["runs"], found["numbers"], found["jobs"]) == (200, 200, 200, 200)


def _unchecked(value: int) -> int:
    if value == 1:
        raise RuntimeError("the author's own")
    if value == 2:
        raise ToolFailedError("the author's own, of ours")
    if value == 4:
        raise SystemExit("the author's own")
    if value == 5:
        raise asyncio.CancelledError
    return value


@tool
async def choosy(number: Annotated[int, AfterValidator(_unchecked)]) -> int:
    return number


async def test_one_whose_input_cannot_be_made_stands_in_nobodys_way(
    database_url: str, clock: MovableClock
) -> None:
    await clock.hold()
    async with running(database_url, choosy, access_control_enable=False) as node:
        for n in range(6):
            await node.schedules.create(
                {"tool_name": "choosy", "schedule_name": f"choosy {n}", "start_expr": f"{{number: {n}}}"},
                by=LOCAL_OWNER,
                via="http",
            )
        assert await node.ticker.take_batch(evaluated=True) == (6, 6)
        rows = await node.database.rows("SELECT start_expr, error, last_run_id FROM rejoinder.schedule")
        begun = {row["start_expr"]: row["last_run_id"] is not None for row in rows}
        assert begun == {f"{{number: {n}}}": n in (0, 3) for n in range(6)}
        assert all((row["error"] is None) == (row["last_run_id"] is not None) for row in rows)


async def test_a_look_reads_nothing_while_nothing_is_due(
    database_url: str, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await clock.hold()
    looks: list[str] = []
    for name in ("seconds_to_next", "due", "now"):
        method = getattr(Schedules, name)

        async def noted(
            self: Schedules, *given: Any, _name: str = name, _do: Any = method, **more: Any
        ) -> Any:
            looks.append(_name)
            return await _do(self, *given, **more)

        monkeypatch.setattr(Schedules, name, noted)
    async with running(database_url, sweep, worker=True, access_control_enable=False) as node:
        await node.schedules.create({"tool_name": "sweep", "cadence": HOURLY}, by=LOCAL_OWNER, via="http")
        looks.clear()
        node.ticker.look()
        await assert_eventually(lambda: len(looks) >= 4, "nobody looked")
        assert set(looks) == {"seconds_to_next"}


async def test_the_tickers_of_workers_do_it_by_themselves(database_url: str, clock: MovableClock) -> None:
    await clock.hold()
    async with (
        running(database_url, sweep, worker=True, access_control_enable=False) as one,
        running(database_url, sweep, worker=True, access_control_enable=False),
    ):
        for n in range(20):
            order: dict[str, Any] = {"tool_name": "sweep", "tool_kwargs": {"number": n}, "cadence": HOURLY}
            await one.schedules.create(order, by=LOCAL_OWNER, via="http")
        for hours in (1, 2, 3):
            await clock.advance(3600)

            async def all_ran(expected: int = 20 * hours) -> bool:
                done = await one.database.value(
                    "SELECT count(*) FROM rejoinder.run WHERE state = 'succeeded'"
                )
                return bool(done == expected)

            await assert_eventually(all_ran)
        found = await counted(one.database)
        assert (found["slots"], found["runs"], found["told"]) == (60, 60, 60)
