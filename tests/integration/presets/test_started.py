"""Presets that nobody calls in person: what a hook and a schedule start is fixed all the same."""

from __future__ import annotations

from typing import Any

from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.hooks.attempts import Attempts
from rejoinder.node import Node
from rejoinder.store.runs import Run
from tests.integration.hooks.events import becomes, bind, event, hook, outside, send
from tests.integration.hooks.events import secret as secret
from tests.integration.nodes import running
from tests.integration.presets.tools import ALL
from tests.support import assert_eventually

PAY: dict[str, Any] = {
    "name": "pay_rent",
    "base_tool": "pay",
    "description": "Pay the rent.",
    "fixed_kwargs": {"note": "rent"},
}


async def ended(node: Node, count: int) -> list[Run]:
    async def over() -> list[Run] | None:
        found = await node.runs.newest(tool="pay_rent")
        done = [one for one in found if one.state not in ("running", "parked")]
        return found if len(done) == len(found) == count else None

    found = await assert_eventually(over, "the runs did not end")
    assert found is not None
    return found


async def test_a_hook_and_a_schedule_run_a_preset(database_url: str, secret: str) -> None:
    async with outside(database_url, *ALL) as one:
        await one.node.presets.create(PAY, by=LOCAL_OWNER)
        key, _ = await one.node.access.create_key(name="bridge", grants=["read", "write"], by=LOCAL_OWNER)
        await bind(one.node, "rents")
        await hook(one.node, "rent", "rents", "pay_rent", key_id=key.id, tool_kwargs={"amount": 3})
        assert (await send(one.anonymous(), "rents", event())).status_code == 200
        [by_hook] = await ended(one.node, 1)
        assert by_hook.state == "succeeded", by_hook.error
        body = {"tool_name": "pay_rent", "tool_kwargs": {"amount": 4}}
        scheduled = await one.owner.post("/api/schedules", json=body)
        assert scheduled.status_code == 201, scheduled.text
        runs = await ended(one.node, 2)
        assert {one.state for one in runs} == {"succeeded"}, [one.error for one in runs]
        results = [await one.node.runs.by_id(run.id) for run in runs]
        made = [(run.result["amount"], run.result["note"]) for run in results if run is not None]
        assert sorted(made) == [(3, "rent"), (4, "rent")]
        bad = await one.owner.post("/api/schedules", json=body | {"tool_kwargs": {"amount": 4, "note": "x"}})
        assert bad.status_code == 400, bad.text


async def test_what_a_hook_and_a_schedule_began_keeps_the_version_that_its_arguments_were_checked_against(
    database_url: str, secret: str
) -> None:
    async with outside(database_url, *ALL, worker=False) as one:
        node = one.node
        await node.presets.create(PAY, by=LOCAL_OWNER)
        key, _ = await node.access.create_key(name="bridge", grants=["read", "write"], by=LOCAL_OWNER)
        await bind(node, "rents")
        await hook(node, "rent", "rents", "pay_rent", key_id=key.id, tool_kwargs={"amount": 3})
        assert (await send(one.anonymous(), "rents", event())).status_code == 200
        body = {"tool_name": "pay_rent", "tool_kwargs": {"amount": 4}}
        assert (await one.owner.post("/api/schedules", json=body)).status_code == 201
        await attempts(node).take_on(*await node.hook_runs.take(node.process.id, 1, 60))
        assert await node.ticker.take_batch() == (1, 1)
        # A worker takes them after this.
        await node.presets.save("pay_rent", {"fixed_kwargs": {"note": "another"}}, by=LOCAL_OWNER)
    async with running(database_url, *ALL, worker=True) as node:
        runs = await ended(node, 2)
        results = [await node.runs.by_id(run.id) for run in runs]
        assert sorted(run.result["amount"] for run in results if run is not None) == [3, 4]
        assert {run.result["note"] for run in results if run is not None} == {"rent"}


async def test_a_start_that_an_operator_replays_keeps_its_version(database_url: str, secret: str) -> None:
    async with outside(database_url, *ALL, worker=False) as one:
        node = one.node
        await node.presets.create(PAY, by=LOCAL_OWNER)
        key, _ = await node.access.create_key(name="bridge", grants=["read", "write"], by=LOCAL_OWNER)
        await bind(node, "rents")
        await hook(node, "rent", "rents", "pay_rent", key_id=key.id, tool_kwargs={"amount": 3})
        assert (await send(one.anonymous(), "rents", event())).status_code == 200
        hooks = attempts(node)
        await hooks.take_on(*await node.hook_runs.take(node.process.id, 1, 60))
        # As whoever finds a worker dead in the tool's code leaves it.
        await node.database.execute(
            "UPDATE rejoinder.run SET state = 'lost', finished_at = rejoinder.clock()"
        )
        await hooks.take_on(*await node.hook_runs.take(node.process.id, 1, 60))
        [held] = await becomes(node, "failed")
        assert held["claim_intent"] == "start"
        await node.presets.save("pay_rent", {"fixed_kwargs": {"note": "another"}}, by=LOCAL_OWNER)
        assert (await one.owner.post(f"/api/hook-runs/{held['id']}/retry")).status_code == 200
    async with running(database_url, *ALL, worker=True) as node:
        [run, lost] = await ended(node, 2)
        assert (lost.state, run.state) == ("lost", "succeeded")
        made = await node.runs.by_id(run.id)
        assert made is not None
        assert made.result["note"] == "rent"


def attempts(node: Node) -> Attempts:
    """What comes for hook runs in a worker, where no worker takes what it begins."""
    return Attempts(
        node.hook_runs,
        node.runs,
        node.registry,
        node.expressions,
        node.access,
        node.signals,
        node.settings,
    )
