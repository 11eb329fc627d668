"""kill -9 between an event that came in and what hooks make of it: no event is lost, and none is acted on twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.acceptance.conftest import Fleet
from tests.acceptance.test_kills import died, victim
from tests.integration.hooks.events import DOOR, SECRET, VARIABLE, event, signed
from tests.support import Process, assert_eventually, client

pytestmark = pytest.mark.timeout(150)

OF_SERVERS = ("delivery.verified", "delivery.kept")
OF_WORKERS = ("hook.taken", "hook.evaluated", "hook.started", "hook.judging")


@pytest.fixture(scope="module", autouse=True)
def vendor() -> Iterator[None]:
    """Before the fleet starts, which inherits it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, SECRET)
        patch.setenv("HOOKS_RUN_RETRY_BASE_SECONDS", "0.1")
        patch.setenv("HOOKS_RUN_SWEEP_SECONDS", "0.5")
        yield


async def registered(fleet: Fleet, topic: str, tool_kwargs: str, tool: str = "delivered") -> None:
    """A bound topic with a hook on it, and a key for it to run under."""
    await fleet.value(
        "INSERT INTO rejoinder.api_key (id, name, identity, grants, digest, created_by) "
        "VALUES (gen_random_uuid(), 'hooks', 'hooks', '{write}', sha256('hooks'), 'test') ON CONFLICT DO NOTHING"
    )
    await fleet.value(
        """SELECT rejoinder.bind_topic_v1($1, 'stripe', '{"secret_env": "VENDOR_SECRET"}', 'test')""", topic
    )
    await fleet.value(
        "SELECT rejoinder.register_hook_v1($1, $1, $3, 'hooks', k.id, $2::text::jsonb, NULL, '{}', NULL, NULL,"
        " NULL, NULL, NULL, '{}', false, 'test') FROM rejoinder.api_key k WHERE k.name = 'hooks'",
        topic,
        tool_kwargs,
        tool,
    )


async def post(server: Process, topic: str, body: bytes) -> str:
    async with client(server.url) as http:
        answer = await http.post(DOOR + topic, content=body, headers=signed(body))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["status"])


async def acted(fleet: Fleet, topic: str) -> Any:
    async def done() -> Any:
        rows = await fleet.rows("SELECT * FROM rejoinder.hook_run WHERE topic = $1", topic)
        return rows[0] if rows and rows[0]["status"] == "acted" else None

    row = await assert_eventually(
        done, f"{await fleet.rows('SELECT * FROM rejoinder.hook_run WHERE topic = $1', topic)}", 60
    )
    assert await fleet.value("SELECT count(*) FROM rejoinder.hook_run WHERE topic = $1", topic) == 1
    effects = await fleet.value("SELECT count(*) FROM effect WHERE name = $1", str(row["delivery_id"]))
    assert effects == len(row["acted_ids"]) == row["attempts"]
    return row


@pytest.mark.parametrize("point", OF_SERVERS)
async def test_a_server_dies_with_an_event_in_hand(fleet: Fleet, point: str) -> None:
    topic = point.replace(".", "-")
    await registered(fleet, topic, "{}")
    process = await victim(fleet, "serve", point)
    body = event()
    with pytest.raises(httpx2.TransportError):
        await post(process, topic, body)
    await died(process)
    # The vendor read no 200, so it sends again.
    status = await post(fleet.servers[0], topic, body)
    assert status == ("accepted" if point == "delivery.verified" else "already_seen")
    assert (await acted(fleet, topic))["attempts"] == 1


@pytest.mark.parametrize("point", OF_WORKERS)
async def test_a_worker_dies_with_a_hook_run_in_hand(fleet: Fleet, point: str) -> None:
    assert fleet.worker is not None
    topic = point.replace(".", "-")
    fails = point == "hook.judging"
    await registered(fleet, topic, '{"fails": true}' if fails else "{}")
    process = await victim(fleet, "worker", point)
    fleet.worker.pause()
    try:
        assert await post(fleet.servers[0], topic, event()) == "accepted"
        await died(process)
    finally:
        fleet.worker.resume()
    assert (await acted(fleet, topic))["attempts"] == (2 if fails else 1)


@pytest.mark.parametrize("tool", ["delivered", "ticked"])
async def test_a_worker_dies_inside_the_tool(fleet: Fleet, tool: str) -> None:
    assert fleet.worker is not None
    topic = f"inside-{tool}"
    await registered(fleet, topic, "{}", tool)
    process = await victim(fleet, "worker", "run.entered")
    fleet.worker.pause()
    try:
        assert await post(fleet.servers[0], topic, event()) == "accepted"
        await died(process)
    finally:
        fleet.worker.resume()

    async def settled() -> Any:
        rows = await fleet.rows(
            "SELECT id, status, acted_ids, claim_intent, last_error_kind FROM rejoinder.hook_run "
            "WHERE topic = $1 AND status <> 'outstanding'",
            topic,
        )
        return rows[0] if rows else None

    row = await assert_eventually(settled, "it stays open", 60)
    if tool == "delivered":
        # It may not run twice by itself. An operator who has looked lets that very start be replayed.
        assert tuple(row)[1:2] + tuple(row)[3:] == ("failed", "start", "interrupted")
        async with client(fleet.servers[0].url) as http:
            assert (await http.post(f"/api/hook-runs/{row['id']}/retry")).status_code == 200
        await assert_eventually(settled)
        row = await acted(fleet, topic)
    assert row["status"] == "acted"
    assert len(row["acted_ids"]) == 1
