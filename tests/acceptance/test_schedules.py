"""kill -9 of a worker in the middle of taking turns: every slot is run, and none twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.conftest import Fleet
from tests.acceptance.test_kills import died, victim
from tests.support import MovableClock, assert_eventually, client

pytestmark = pytest.mark.timeout(150)

MANY = 30
HOURLY = {"kind": "interval", "every": 3600}


async def order(fleet: Fleet, name: str, **more: Any) -> None:
    async with client(fleet.servers[0].url) as http:
        body = {"tool_name": "ticked", "schedule_name": name, "cadence": HOURLY} | more
        answer = await http.post("/api/schedules", json=body)
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("point", ["schedule.planned", "schedule.taken"])
async def test_a_worker_dies_while_it_takes_turns(fleet: Fleet, point: str) -> None:
    assert fleet.worker is not None
    names = [f"{point}-{n}" for n in range(MANY)]
    for n, name in enumerate(names):
        # With an expression, the input is made by another process.
        await order(fleet, name, **({"start_expr": "{}"} if n % 3 == 0 else {}))
    process = await victim(fleet, "worker", point)
    fleet.worker.pause()
    clock = MovableClock(fleet.database_url)
    try:
        await clock.advance(3600)
        await died(process)
    finally:
        fleet.worker.resume()

    async def done() -> bool:
        return bool(
            await fleet.value(
                """
                SELECT count(*) = $2 FROM rejoinder.schedule s JOIN rejoinder.run r ON r.id = s.last_run_id
                 WHERE s.name = ANY ($1) AND r.state = 'succeeded'
                """,
                names,
                MANY,
            )
        )

    await assert_eventually(done, "some slots were not run", 60)
    [row] = await fleet.rows(
        """
        SELECT count(*) AS slots, count(DISTINCT t.schedule_id) AS schedules, count(DISTINCT t.run_id) AS runs
          FROM rejoinder.schedule_slot t JOIN rejoinder.schedule s ON s.id = t.schedule_id WHERE s.name = ANY ($1)
        """,
        names,
    )
    assert tuple(row) == (MANY, MANY, MANY)
    twice = await fleet.value(
        """
        SELECT count(*) FROM (
            SELECT e.run_id FROM effect e JOIN rejoinder.schedule_slot t ON t.run_id = e.run_id
              JOIN rejoinder.schedule s ON s.id = t.schedule_id
             WHERE s.name = ANY ($1) GROUP BY e.run_id HAVING count(*) > 1) AS more
        """,
        names,
    )
    # Where it had taken turns, it may have begun a run too, which another worker then begins again.
    assert twice == 0 or point == "schedule.taken"
    async with client(fleet.servers[0].url) as http:
        for name in names:
            assert (await http.delete(f"/api/schedules/{name}")).status_code == 200
    await clock.advance(-3600)
