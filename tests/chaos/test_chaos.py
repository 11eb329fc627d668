"""Parked agents while workers are killed and paused and Postgres is killed: every step and every resumption counts once.

``REJOINDER_TEST_LONG=1`` plays it with two thousand runs and many more deaths, ``REJOINDER_TEST_LONG=300`` with so many
runs. What it came to is said at the end.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar
from uuid import UUID

import pytest

from rejoinder.contract.errors import (
    InteractionClosedError,
    InteractionNotFoundError,
    NotReadyError,
    RunCapacityError,
)
from rejoinder.contract.identity import Identity
from rejoinder.node import Node
from tests.chaos.conftest import Chaos
from tests.integration.core.support import assert_sound
from tests.live.rig.model import prompt, say
from tests.live.rig.model import tool as call
from tests.support import assert_eventually

LONG = int(os.environ.get("REJOINDER_TEST_LONG") or 0)
RUNS = (LONG if LONG > 1 else 2000) if LONG else 40
DEATHS = 40 if LONG else 3
WITHIN = 1800.0 if LONG else 90.0
T = TypeVar("T")
ANN = Identity(name="ann", grants=frozenset(("read", "write")))

pytestmark = pytest.mark.timeout(3 * 3600 if LONG else 240)


async def begin(node: Node, what: str) -> UUID:
    said = prompt(say(tools=[call("pay", what=what), call("look", what=what)]), say(f"{what} is done."))
    return await persistently(lambda: node.run_service.start_background("helper", {"message": said}, by=ANN))


async def persistently(act: Callable[[], Awaitable[T]]) -> T:
    """What somebody outside does while the database is away or the workers are busy."""
    while True:
        try:
            return await act()
        except (NotReadyError, RunCapacityError):
            await asyncio.sleep(0.1)


async def counts(node: Node) -> Counter[str]:
    rows = await persistently(
        lambda: node.database.rows("SELECT state, count(*) FROM rejoinder.run GROUP BY state")
    )
    return Counter({row[0]: row[1] for row in rows})


async def answer_what_is_asked(node: Node) -> None:
    """Answer whatever a parked run waits for, again and again, as people do."""
    while True:
        rows = await persistently(
            lambda: node.database.rows(
                "SELECT q.id, q.question FROM rejoinder.question q JOIN rejoinder.run r ON r.id = q.run_id "
                "WHERE q.state = 'pending' AND r.state = 'parked' ORDER BY q.created_at LIMIT 50"
            )
        )
        for row in rows:
            try:
                await persistently(partial(node.asks.answer, row["id"], row["question"], by=ANN, via="test"))
            except (InteractionClosedError, InteractionNotFoundError):
                pass
        await asyncio.sleep(0.05)


async def test_every_step_and_every_resumption_counts_once(chaos: tuple[Chaos, Node]) -> None:
    fleet, node = chaos
    began = time.monotonic()
    for _ in range(2):
        fleet.add_worker()
    # None of a model is asked here, so starting them is quick; the first half is parked before people come.
    started = [await begin(node, f"w{n}") for n in range(RUNS)]
    await assert_eventually(lambda: reached(node, "parked", RUNS // 4), "too few are parked", WITHIN)
    people = asyncio.create_task(answer_what_is_asked(node))
    people.add_done_callback(_tell_why)
    try:
        deaths = (fleet.kill_a_worker, fleet.kill_postgres, fleet.pause_a_worker)
        done = 0
        for number in range(DEATHS):
            await deaths[number % len(deaths)]()
            # The next one comes when something has got on, wherever that was.
            done += max(1, RUNS // (4 * DEATHS))
            await assert_eventually(partial(settled, node, done), "nothing gets on", WITHIN)
        await assert_eventually(lambda: settled(node, RUNS), "some runs did not end", WITHIN)
        held = await judge(node, started, again=set())
        for run_id in held:
            await node.run_service.retry(run_id, by=ANN)
        await assert_eventually(lambda: reached(node, "succeeded", RUNS), "some runs did not end", WITHIN)
        await judge(node, started, again=held)
    finally:
        people.cancel()
        await asyncio.gather(people, return_exceptions=True)
    await assert_sound(fleet.url)
    # The test has judged already; the figures are for whoever played it long.
    deaths_of = Counter(act.__name__ for act in (deaths[n % len(deaths)] for n in range(DEATHS)))
    print(f"{RUNS} runs, {dict(deaths_of)}, {len(held)} held and retried, {time.monotonic() - began:.0f} s")


def _tell_why(people: asyncio.Task[None]) -> None:
    if not people.cancelled() and people.exception() is not None:
        raise AssertionError("the people stopped answering") from people.exception()


async def reached(node: Node, state: str, count: int) -> bool:
    return (await counts(node))[state] >= count


async def settled(node: Node, count: int) -> bool:
    found = await counts(node)
    return found["succeeded"] + found["failed"] >= count


async def judge(node: Node, started: list[UUID], *, again: set[UUID]) -> set[UUID]:
    """What every run has come to. Returns those that are held: their worker died inside code that may not run twice."""
    effects: dict[UUID, Counter[str]] = {one: Counter() for one in started}
    for row in await node.database.rows("SELECT run_id, name, count(*) FROM effect GROUP BY 1, 2"):
        effects[row[0]][row[1]] = row[2]
    held = set()
    for row in await node.database.rows("SELECT id, state, held, result, error FROM rejoinder.run"):
        had, most = effects[row["id"]], 2 if row["id"] in again else 1
        assert had["charge"] <= most, await story(node, row["id"], had)
        assert had["ship"] <= most, await story(node, row["id"], had)
        if row["state"] == "succeeded":
            assert min(had["charge"], had["ship"], had["look"]) >= 1, await story(node, row["id"], had)
            assert row["result"].endswith(" is done."), dict(row)
            continue
        assert row["held"], dict(row)
        assert row["error"]["code"] == "run-interrupted", row["error"]
        held.add(row["id"])
    done = await node.database.rows(
        "SELECT run_id, count(*) FROM rejoinder.step WHERE state = 'done' GROUP BY run_id HAVING count(*) <> 2"
    )
    assert {row[0] for row in done} <= held
    return held


async def story(node: Node, run_id: UUID, had: Counter[str]) -> str:
    """All that is recorded of one run: the database is gone by the time that somebody reads of it."""
    lines = [f"run {run_id} had {dict(had)}"]
    for query in (
        "SELECT id, name, state, epoch, starts, round, entered_at FROM rejoinder.step WHERE run_id = $1",
        "SELECT kind, reason, detail, at FROM rejoinder.event WHERE run_id = $1 ORDER BY seq",
        "SELECT checkpoint_id, parent_checkpoint_id, metadata FROM rejoinder_checkpoints.checkpoints "
        "WHERE thread_id = $1::uuid::text ORDER BY checkpoint_id",
    ):
        lines += [str(dict(row)) for row in await node.database.rows(query, run_id)]
    return "\n".join(lines)
