"""Schedules over HTTP, and what becomes of their slots."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rejoinder import tool
from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.node import Node
from rejoinder.runs.tools import Tool
from rejoinder.schedules.order import NOT_SERVED
from tests.integration.doors.edge import Edge, edge
from tests.integration.nodes import running
from tests.support import MovableClock, assert_eventually

PATH = "/api/schedules"
HOURLY = {"kind": "interval", "every": 3600}


@tool(idempotent=True)
async def sweep(number: int = 0, text: str = "") -> dict[str, Any]:
    """Give back what it was given."""
    return {"number": number, "text": text}


@tool(internal=True, admin_may_run=True)
async def reconcile() -> str:
    return "done"


@tool(internal=True)
async def confirm() -> str:
    return "confirmed"


async def _runs(node: Node) -> list[dict[str, Any]]:
    rows = await node.database.rows(
        "SELECT tool, arguments, door, state, identity, key_id, subject FROM rejoinder.run ORDER BY created_at, id"
    )
    return [dict(row) for row in rows]


async def _turns(node: Node) -> None:
    """Take every turn that is due, as a worker's ticker does."""
    for evaluated in (False, True):
        while (await node.ticker.take_batch(evaluated=evaluated))[1]:
            pass


async def _slots(node: Node) -> list[datetime]:
    rows = await node.database.rows("SELECT slot_at FROM rejoinder.schedule_slot ORDER BY slot_at")
    return [row["slot_at"] for row in rows]


async def test_a_tool_runs_at_its_times_under_its_key(database_url: str, clock: MovableClock) -> None:
    async with edge(database_url, sweep, worker=True) as e:
        now = await clock.hold()
        ann = await e.client("ann", "write", "read")
        made = await ann.post(
            PATH,
            json={"tool_name": "sweep", "tool_kwargs": {"number": 7}, "cadence": HOURLY, "subject": "disk"},
        )
        assert made.status_code == 201
        one = made.json()["data"]
        assert one["name"].startswith("sweep_")
        assert len(one["name"]) == len("sweep_") + 12
        assert one["next_run_at_iso"] == (now + timedelta(hours=1)).isoformat()
        assert one["next_run_at_ts"] == pytest.approx((now + timedelta(hours=1)).timestamp())
        await clock.advance(3600)

        async def ran() -> bool:
            return [run["state"] for run in await _runs(e.node)] == ["succeeded"]

        await assert_eventually(ran)
        (run,) = await _runs(e.node)
        assert (run["tool"], run["arguments"], run["door"]) == ("sweep", {"number": 7}, "schedules")
        assert (run["identity"], run["subject"]) == ("ann", "disk")
        listed = (await ann.get(PATH)).json()["data"]
        assert listed["next_after"] is None
        (shown,) = listed["items"]
        assert shown["next_run_at_iso"] == (now + timedelta(hours=2)).isoformat()
        assert shown["enabled"] is True
        assert shown["error"] is None
        told = (await ann.get("/api/tool-runs", params={"subject": "disk"})).json()["data"]["items"]
        assert [run["run_id"] for run in told] == [shown["last_run_id"]]
        at = (await ann.get(f"{PATH}/server-datetime")).json()["data"]
        assert at["server_datetime"] == (now + timedelta(hours=1)).isoformat()
        gone = await ann.delete(f"{PATH}/{one['name']}")
        assert gone.json()["data"] == {"name": one["name"], "status": "deleted"}
        assert (await ann.delete(f"{PATH}/{one['name']}")).status_code == 404
        kinds = await e.node.database.rows(
            "SELECT kind FROM rejoinder.event WHERE kind LIKE 'schedule.%' ORDER BY seq"
        )
        assert [row["kind"] for row in kinds] == ["schedule.created", "schedule.deleted"]


ORDERS: list[tuple[dict[str, Any], int, str | None]] = [
    ({"tool_name": "nothing"}, 404, "tool_name"),
    ({"tool_name": 7}, 400, "tool_name"),
    ({"tool_name": None}, 400, "tool_name"),
    ({"tool_kwargs": []}, 400, "tool_kwargs"),
    ({"tool_kwargs": {"number": "x"}}, 400, "tool_kwargs.number"),
    ({"tool_kwargs": {"more": 1}}, 400, "tool_kwargs.more"),
    ({"tool_kwargs": {"text": "\x00"}}, 400, "tool_kwargs"),
    ({"cadence": {"kind": "interval", "every": 0}}, 400, "cadence.every"),
    ({"cadence": {"kind": "crontab", "expression": "0 0 31 2,4 *"}}, 400, "cadence.expression"),
    ({"schedule_name": ""}, 400, "schedule_name"),
    ({"schedule_name": "a/b"}, 400, "schedule_name"),
    ({"schedule_name": " a"}, 400, "schedule_name"),
    ({"schedule_name": "a\nb"}, 400, "schedule_name"),
    ({"schedule_name": "x" * 161}, 400, "schedule_name"),
    ({"execution_key": "nobody"}, 400, "execution_key"),
    ({"execution_key": "reader"}, 400, "execution_key"),
    ({"execution_key": ""}, 400, "execution_key"),
    ({"subject": 7}, 400, "subject"),
    ({"missed": "never"}, 400, "missed"),
    ({"start_expr": "."}, 201, None),
    ({"start_expr": "{"}, 400, "start_expr"),
    ({"start_expr": "env"}, 400, "start_expr"),
    ({"start_expr": 7}, 400, "start_expr"),
    ({"state_binding": {}}, 400, "state_binding"),
    ({"cancel_expr": "true"}, 400, "cancel_expr"),
    ({"resume_expr": "true"}, 400, "resume_expr"),
    ({"extras_expr": "{}"}, 400, "extras_expr"),
    ({"more": 1}, 400, "more"),
    ({"tool_name": "confirm"}, 403, "tool_name"),
    ({"tool_name": "reconcile"}, 201, None),
    ({"tool_name": "reconcile", "execution_key": "writer"}, 400, "execution_key"),
    ({"cadence": None}, 201, None),
]


async def test_an_order_is_taken_or_refused_by_its_part(database_url: str) -> None:
    async with edge(database_url, sweep, reconcile, confirm) as e:
        await e.key("reader", "read")
        await e.key("writer", "write")
        for n, (change, status, field) in enumerate(ORDERS):
            order = {"tool_name": "sweep", "cadence": HOURLY, "schedule_name": str(n)} | change
            made = await e.owner.post(PATH, json=order)
            assert (made.status_code, made.json().get("field")) == (status, field), (change, made.text)
        told = (await e.owner.post(PATH, json={"more": 1})).json()["error"]
        assert "start_expr" in told
        assert [key for key in NOT_SERVED if key in told] == []


async def test_who_may_schedule_what_as_whom(database_url: str) -> None:
    async with edge(database_url, sweep, reconcile) as e:
        order = {"tool_name": "sweep", "cadence": HOURLY}
        assert (await (await e.client("r", "read")).post(PATH, json=order)).status_code == 403
        ann = await e.client("ann", "read", "write")
        bob = await e.client("bob", "read", "write")
        owned = await e.client("owned", "read", "write", owner="ann")
        assert (await ann.post(PATH, json={**order, "tool_name": "reconcile"})).status_code == 403
        refused = await ann.post(PATH, json={**order, "execution_key": "bob"})
        assert (refused.status_code, refused.json()["field"]) == (403, "execution_key")
        assert (await ann.post(PATH, json={**order, "schedule_name": "hers"})).status_code == 201
        assert (
            await ann.post(PATH, json={**order, "schedule_name": "its", "execution_key": "owned"})
        ).status_code == 201
        assert [one["name"] for one in (await bob.get(PATH)).json()["data"]["items"]] == ["hers", "its"]
        assert [one["name"] for one in (await owned.get(PATH)).json()["data"]["items"]] == ["its"]
        assert (await owned.delete(f"{PATH}/hers")).status_code == 404
        assert (await owned.patch(f"{PATH}/hers", json={"enabled": False})).status_code == 404
        assert (await owned.delete(f"{PATH}/its")).status_code == 200


async def test_the_same_order_again_is_the_same_schedule(database_url: str) -> None:
    async with edge(database_url, sweep) as e:
        order = {"tool_name": "sweep", "cadence": HOURLY, "schedule_name": "nightly"}
        assert (await e.owner.post(PATH, json=order)).status_code == 201
        again = await e.owner.post(PATH, json=order)
        assert (again.status_code, again.json()["data"]["name"]) == (200, "nightly")
        other = await e.owner.post(PATH, json=order | {"tool_kwargs": {"number": 1}})
        assert (other.status_code, other.json()["code"]) == (409, "schedule-exists")


async def test_without_a_cadence_it_runs_once_now_and_again_when_ordered_again(database_url: str) -> None:
    async with edge(database_url, sweep) as e:
        order = {"tool_name": "sweep", "tool_kwargs": {"number": 3}}
        for expected in (1, 2):
            assert (await e.owner.post(PATH, json=order)).status_code == 201
            assert (await e.owner.post(PATH, json=order)).status_code == 200
            await _turns(e.node)
            await _turns(e.node)
            assert len(await _runs(e.node)) == expected
        named = order | {"schedule_name": "import-2026-11"}
        for status in (201, 200):
            assert (await e.owner.post(PATH, json=named)).status_code == status
            await _turns(e.node)
        assert len(await _runs(e.node)) == 3


async def test_pages_are_by_name(database_url: str) -> None:
    async with edge(database_url, sweep) as e:
        for name in ("c", "a", "b", "d", "e"):
            await e.owner.post(PATH, json={"tool_name": "sweep", "cadence": HOURLY, "schedule_name": name})
        seen: list[str] = []
        after: str | None = None
        while True:
            page = (await e.owner.get(PATH, params={"limit": 2} | ({"after": after} if after else {}))).json()
            seen += [one["name"] for one in page["data"]["items"]]
            after = page["data"]["next_after"]
            if after is None:
                break
        assert seen == ["a", "b", "c", "d", "e"]


async def test_switched_off_it_waits_and_makes_up_for_nothing(database_url: str, clock: MovableClock) -> None:
    async with edge(database_url, sweep) as e:
        now = await clock.hold()
        await e.owner.post(PATH, json={"tool_name": "sweep", "cadence": HOURLY, "schedule_name": "one"})
        off = await e.owner.patch(f"{PATH}/one", json={"enabled": False})
        assert (off.json()["data"]["enabled"], off.json()["data"]["next_run_at_iso"]) == (False, None)
        await clock.advance(3 * 3600 + 60)
        await _turns(e.node)
        on = await e.owner.patch(f"{PATH}/one", json={"enabled": True})
        assert on.json()["data"]["next_run_at_iso"] == (now + timedelta(hours=4)).isoformat()
        await _turns(e.node)
        assert await _runs(e.node) == []
        for bad in ({"enabled": 1}, {}, {"enabled": True, "more": 1}):
            assert (await e.owner.patch(f"{PATH}/one", json=bad)).status_code == 400
        assert (await e.owner.patch(f"{PATH}/none", json={"enabled": True})).status_code == 404


async def test_where_schedules_are_off_every_door_says_so(database_url: str) -> None:
    async with edge(database_url, sweep, schedules_enable=False) as e:
        order = {"tool_name": "sweep", "cadence": HOURLY}
        for method, path, body in (
            ("GET", PATH, None),
            ("GET", f"{PATH}/server-datetime", None),
            ("POST", PATH, order),
            ("PATCH", f"{PATH}/x", {"enabled": True}),
            ("DELETE", f"{PATH}/x", None),
        ):
            answer = await e.owner.request(method, path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (501, "schedules-not-configured"), path


async def test_the_list_says_what_keeps_a_schedule_from_running(database_url: str) -> None:
    async with edge(database_url, sweep) as e:
        await e.owner.post(PATH, json={"tool_name": "sweep", "cadence": HOURLY, "schedule_name": "one"})
        assert await _error(e) == "no worker is running"
        await e.node.database.execute("UPDATE rejoinder.schedule SET tool = 'gone'")
        assert await _error(e) == "no tool of this name is exposed here"
        await e.node.database.execute("UPDATE rejoinder.schedule SET tool = 'sweep'")
        async with running(database_url, sweep, worker=True):
            assert await _error(e) is None


async def _error(e: Edge) -> Any:
    return (await e.owner.get(PATH)).json()["data"]["items"][0]["error"]


async def test_a_key_that_is_gone_starts_nothing_and_says_so(database_url: str, clock: MovableClock) -> None:
    async with edge(database_url, sweep) as e:
        await clock.hold()
        await e.key("nightly", "write")
        order = {"tool_name": "sweep", "cadence": HOURLY, "execution_key": "nightly"}
        await e.owner.post(PATH, json=order)
        await e.node.access.revoke_key("nightly", by=LOCAL_OWNER)
        # Made again under the same name, it is another key.
        await e.key("nightly", "write", "admin")
        await clock.advance(3600)
        await _turns(e.node)
        assert await _runs(e.node) == []
        assert "revoked" in str((await e.node.schedule_store.page(after="", identity=None, limit=1))[0].error)
        rows = await e.node.database.rows(
            "SELECT reason FROM rejoinder.event WHERE kind = 'schedule.refused'"
        )
        assert len(rows) == 1
        await clock.advance(3600)
        await _turns(e.node)
        assert len(await _slots(e.node)) == 2
        assert await _runs(e.node) == []


async def test_a_schedule_made_without_access_control_does_not_outlive_it(
    database_url: str, clock: MovableClock
) -> None:
    order = {"tool_name": "sweep", "cadence": HOURLY}
    async with running(database_url, sweep, access_control_enable=False) as node:
        await clock.hold()
        await node.schedules.create(order, by=LOCAL_OWNER, via="http")
        await clock.advance(3600)
        await _turns(node)
        assert len(await _runs(node)) == 1
    async with running(database_url, sweep) as node:
        await clock.advance(3600)
        await _turns(node)
        assert len(await _runs(node)) == 1


EXPRESSIONS: list[tuple[str, dict[str, Any], dict[str, Any] | None, str | None]] = [
    ('{number: 4, text: "from it"}', {"text": "fixed"}, {"number": 4, "text": "fixed"}, None),
    ("{text: .schedule[8:9]}", {}, {"text": "-"}, None),
    ("{text: .slot_at[:4]}", {}, {"text": "2031"}, None),
    ("null", {"number": 1}, None, None),
    ("empty", {"number": 1}, None, None),
    ("7", {}, None, "start_expr gave no object"),
    ('{number: "x"}', {}, None, "what sweep does not take"),
    (".schedule + 1", {}, None, "start_expr: "),
]


async def test_an_expression_makes_the_input(database_url: str, clock: MovableClock) -> None:
    async with running(database_url, sweep, access_control_enable=False) as node:
        await clock.set(datetime(2031, 5, 6, 7, 8, tzinfo=UTC))
        for expression, kwargs, _, _ in EXPRESSIONS:
            order = {"tool_name": "sweep", "tool_kwargs": kwargs, "cadence": HOURLY, "start_expr": expression}
            await node.schedules.create(order | {"schedule_name": "one"}, by=LOCAL_OWNER, via="http")
            await node.database.execute("UPDATE rejoinder.schedule SET name = id::text")
        await clock.advance(3600)
        await _turns(node)
        rows = await node.database.rows(
            """
            SELECT s.start_expr, s.tool_kwargs, r.arguments, s.error, t.slot_at
              FROM rejoinder.schedule s LEFT JOIN rejoinder.schedule_slot t ON t.schedule_id = s.id
              LEFT JOIN rejoinder.run r ON r.id = t.run_id
            """
        )
        became = {row["start_expr"]: row for row in rows}
        for expression, _, arguments, error in EXPRESSIONS:
            row = became[expression]
            assert row["slot_at"] is not None
            assert row["arguments"] == arguments, expression
            assert (error or "") in (row["error"] or ""), expression
            assert (row["error"] is None) == (error is None), expression


MISSED: list[tuple[str, float, list[int]]] = [
    ("once", 0, [1]),
    ("once", 3 * 3600 + 1800, [4]),
    ("skip", 30, [1]),
    ("skip", 3 * 3600 + 1800, []),
    ("skip", 3 * 3600 + 30, [4]),
    ("all", 3 * 3600 + 1800, [1, 2, 3, 4]),
]


async def test_slots_that_nobody_was_there_for(database_url: str, clock: MovableClock) -> None:
    async with running(database_url, sweep, access_control_enable=False) as node:
        for missed, late, expected in MISSED:
            now = await clock.hold()
            order = {"tool_name": "sweep", "cadence": HOURLY, "missed": missed, "schedule_name": "one"}
            await node.schedules.create(order, by=LOCAL_OWNER, via="http")
            await clock.advance(3600 + late)
            await _turns(node)
            assert await _slots(node) == [now + timedelta(hours=n) for n in expected], (missed, late)
            assert len(await _runs(node)) == len(expected)
            (left,) = await node.schedule_store.page(after="", identity=None, limit=5)
            assert left.next_run_at == now + timedelta(hours=2 + int(late // 3600))
            await node.schedules.delete("one", by=LOCAL_OWNER, via="http")
            for table in ("run", "schedule_slot"):
                await node.database.execute(f"DELETE FROM rejoinder.{table}")


async def test_a_clock_that_is_set_back_repeats_nothing(database_url: str, clock: MovableClock) -> None:
    async with running(database_url, sweep, access_control_enable=False) as node:
        now = await clock.hold()
        await node.schedules.create({"tool_name": "sweep", "cadence": HOURLY}, by=LOCAL_OWNER, via="http")
        await clock.advance(3600)
        await _turns(node)
        await clock.advance(-3600)
        await _turns(node)
        await clock.advance(3600)
        await _turns(node)
        assert await _slots(node) == [now + timedelta(hours=1)]
        # Even where the row itself is put back, as by a restored backup of it: the slot was taken.
        await node.database.execute(
            "UPDATE rejoinder.schedule SET next_run_at = $1", now + timedelta(hours=1)
        )
        await _turns(node)
        assert len(await _runs(node)) == 1


async def test_a_tool_that_this_worker_does_not_know_is_left_to_others(
    database_url: str, clock: MovableClock
) -> None:
    async def takes(*tools: Tool) -> int:
        async with running(database_url, *tools, access_control_enable=False) as node:
            await _turns(node)
            return len(await _runs(node))

    async with running(database_url, sweep, access_control_enable=False) as node:
        await clock.hold()
        await node.schedules.create({"tool_name": "sweep"}, by=LOCAL_OWNER, via="http")
    assert await takes() == 0
    assert await takes(sweep) == 1


async def test_what_is_over_is_forgotten(database_url: str, clock: MovableClock) -> None:
    async with running(database_url, sweep, access_control_enable=False) as node:
        await clock.hold()
        await node.schedules.create({"tool_name": "sweep"}, by=LOCAL_OWNER, via="http")
        order = {"tool_name": "sweep", "cadence": HOURLY, "schedule_name": "one"}
        await node.schedules.create(order, by=LOCAL_OWNER, via="http")
        await _turns(node)
        for _ in range(3):
            await clock.advance(3600)
            await _turns(node)
        await clock.advance(100 * 86_400)
        for _ in range(2):
            await node.schedule_store.prune(timedelta(days=90))
        assert [one.name for one in await node.schedule_store.page(after="", identity=None, limit=5)] == [
            "one"
        ]
        # The last slot stays: it is what a clock that is set back meets.
        assert len(await _slots(node)) == 1
