"""What the doctor says about doors that are closed and schedules that do not run."""

from __future__ import annotations

from rejoinder import tool
from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.contract.settings import Settings
from rejoinder.launch.checkup import look_at_database
from tests.integration.nodes import running
from tests.support import MovableClock


@tool
async def sweep() -> None: ...


async def found(url: str, name: str, *, access: bool = True) -> str | None:
    settings = Settings.load(rejoinder_database_url=url, access_control_enable=access)
    told = [one for one in await look_at_database(url, settings) if one.check == name]
    return f"{told[0].what} {told[0].mend}" if told else None


async def test_a_hook_behind_a_closed_door_is_told(database_url: str) -> None:
    async with running(database_url, sweep) as node:
        assert await found(database_url, "closed doors") is None
        await node.access.create_key(name="worker", grants=["write"], by=LOCAL_OWNER)
        hook = {"name": "one", "topic": "orders", "tool": "sweep", "execution_key": "worker"}
        await node.hook_records.register(hook, by=LOCAL_OWNER)
        assert "/universal_webhook/orders" in str(await found(database_url, "closed doors"))
        assert await found(database_url, "closed doors", access=False) is None
        await node.public_routes.pin("/universal_webhook/*", by=LOCAL_OWNER)
        assert await found(database_url, "closed doors") is None


async def test_schedules_that_do_not_run_are_told(database_url: str, clock: MovableClock) -> None:
    async with running(database_url, sweep, access_control_enable=False) as node:
        order = {"tool_name": "sweep", "cadence": {"kind": "interval", "every": 60}}
        await node.schedules.create(order, by=LOCAL_OWNER, via="http")
        assert await found(database_url, "schedules") is None
        await clock.advance(3600)
        assert "that are late: 1" in str(await found(database_url, "schedules"))
