"""Many signed events at once, while workers are killed: each hook acts on each event once, and no event is lost.

``REJOINDER_TEST_LONG=1`` plays it with ten thousand events, ``REJOINDER_TEST_LONG=3000`` with so many. What it came to is
said at the end.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import SHORT
from tests.integration.hooks.events import SECRET, VARIABLE, bind, event, hook, outside, send
from tests.support import Process, Processes, assert_eventually, execute

LONG = int(os.environ.get("REJOINDER_TEST_LONG") or 0)
EVENTS = (LONG if LONG > 1 else 10_000) if LONG else 200
DEATHS = 20 if LONG else 2
AT_ONCE = 100
WITHIN = 1800.0 if LONG else 120.0
TOOLS = Path(__file__).parent.parent / "acceptance" / "tools_under_test.py"

pytestmark = pytest.mark.timeout(2 * 3600 if LONG else 240)


async def test_each_hook_acts_once_on_each_event_while_workers_die(
    database_url: str, monkeypatch: pytest.MonkeyPatch, processes: Processes, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(f"tools:\n  - module: {TOOLS}\n")
    await execute(database_url, "CREATE TABLE effect (run_id uuid NOT NULL, name text NOT NULL)")

    def worker() -> Process:
        environment = {**SHORT, "HOOKS_RUN_RETRY_BASE_SECONDS": "0.1", "HOOKS_RUN_SWEEP_SECONDS": "0.5"}
        words = ["--manifest", str(manifest)]
        return processes.start("worker", *words, database_url=database_url, env=environment)

    async with outside(database_url, worker=False) as made:
        db = made.node.database
        await bind(made.node, "orders")
        await hook(made.node, "bridge", "orders", "delivered", start_expr="{}")
        bodies = [event(n=n) for n in range(EVENTS)]
        gate = asyncio.Semaphore(AT_ONCE)
        who = made.anonymous()

        async def post(body: bytes) -> str:
            async with gate:
                answer = await send(who, "orders", body)
            assert answer.status_code == 200, answer.text
            return str(answer.json()["status"])

        began = time.monotonic()
        workers = [worker(), worker()]
        first, again = await asyncio.gather(
            asyncio.gather(*map(post, bodies)),
            # The vendor delivers every tenth of them twice, at the same time.
            asyncio.gather(*map(post, bodies[::10])),
        )
        accepted = [*first, *again].count("accepted")
        assert (accepted, [*first, *again].count("already_seen")) == (EVENTS, len(again))

        async def settled(count: int) -> bool:
            done: Any = await db.value(
                "SELECT count(*) FROM rejoinder.hook_run WHERE status IN ('acted', 'failed')"
            )
            return bool(done >= count)

        for number in range(1, DEATHS + 1):
            share = EVENTS * number // (2 * DEATHS)
            await assert_eventually(lambda share=share: settled(share), "nothing gets on", WITHIN)  # type: ignore[misc]
            workers.pop(0).kill()
            workers.append(worker())
        await assert_eventually(lambda: settled(EVENTS), "some events were not acted on", WITHIN)
        took = time.monotonic() - began

        rows = await db.rows(
            """
            SELECT r.status, r.last_error_kind AS kind, cardinality(r.acted_ids) AS runs,
                   (SELECT count(*) FROM effect e WHERE e.name = r.delivery_id::text) AS effects
              FROM rejoinder.hook_run r
            """
        )
        assert len(rows) == EVENTS
        held = [row for row in rows if row["status"] == "failed"]
        for row in rows:
            if row["status"] == "acted":
                assert (row["runs"], row["effects"]) == (1, 1), dict(row)
            else:
                # It was in the tool's code when its worker was killed, and the tool may not run twice: an operator looks.
                assert row["kind"] == "interrupted", dict(row)
                assert row["effects"] <= 1, dict(row)
        told = await db.value("SELECT count(*) FROM rejoinder.notification WHERE kind = 'hooks_run_failed'")
        assert told == len(held)
    print(f"{EVENTS} events, {DEATHS} workers killed, {len(held)} held, {took:.0f} s")
