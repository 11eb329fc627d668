"""The page of schedules: what runs when, and what keeps one from running."""

from __future__ import annotations

from rejoinder.contract.identity import LOCAL_OWNER
from tests.integration.nodes import running
from tests.integration.web.browser import signed_in


async def test_it_shows_what_runs_when(database_url: str) -> None:
    async with running(database_url, access_control_enable=False) as node, signed_in(node) as browser:
        assert "rejoinder schedules add" in (await browser.get("/schedules")).text
        order = {"tool_name": "list_parked", "cadence": {"kind": "interval", "every": 900}}
        await node.schedules.create(order | {"schedule_name": "<b>often"}, by=LOCAL_OWNER, via="http")
        await node.schedules.create(
            {"tool_name": "list_parked", "cadence": {"kind": "crontab", "minute": 5}},
            by=LOCAL_OWNER,
            via="http",
        )
        page = await browser.get("/schedules")
        assert page.status == 200
        assert "<b>often" in page.text
        assert "no worker is running" in page.text
        async with running(database_url, worker=True, access_control_enable=False):
            page = await browser.get("/schedules")
            assert "every 900 seconds" in page.text
            assert "5 * * * *" in page.text
            assert "no worker is running" not in page.text


async def test_where_schedules_are_off_it_says_so(database_url: str) -> None:
    async with running(database_url, schedules_enable=False) as node, signed_in(node) as browser:
        assert (await browser.get("/schedules")).status == 501
