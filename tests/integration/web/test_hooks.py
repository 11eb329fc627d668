"""The page of hooks: what stands open is said, and what somebody wrote is text."""

from __future__ import annotations

from typing import Any

from rejoinder.contract.identity import LOCAL_OWNER
from tests.integration.nodes import running
from tests.integration.web.browser import signed_in

BODY: dict[str, Any] = {"topic": "orders", "tool": "ask", "execution_key": "worker"}
BINDING = {"verifier": "stripe", "config": {"secret_env": "VENDOR_SECRET"}}


async def test_an_open_topic_is_warned_of_until_a_verifier_stands_before_it(database_url: str) -> None:
    async with running(database_url) as node, signed_in(node) as browser:
        page = await browser.get("/hooks")
        assert page.status == 200
        assert "rejoinder hooks register" in page.text
        await node.access.create_key(name="worker", grants=["read", "write"], by=LOCAL_OWNER)
        condition = '.a == "<script>alert(1)</script>"'
        await node.hook_records.register(BODY | {"name": "one", "condition": condition}, by=LOCAL_OWNER)
        _, token = await node.trigger_links.mint(
            {"topic": "orders", "execution_key": "worker", "ttl_seconds": 60, "name": "mine"}, by=LOCAL_OWNER
        )
        page = await browser.get("/hooks")
        assert "Anybody who knows their address" in page.text
        assert condition in page.text
        assert all(one.get("src") for one in page.tree.all("script"))
        assert "Live" in page.text
        assert token not in page.text
        await node.hook_records.bind("orders", BINDING, by=LOCAL_OWNER)
        page = await browser.get("/hooks")
        assert "Anybody who knows their address" not in page.text
        assert "by stripe" in page.text
        assert "Out of service" in page.text


async def test_a_restricted_key_sees_no_hooks(database_url: str) -> None:
    async with running(database_url) as node:
        await node.access.create_key(name="boss", grants=["read"], by=LOCAL_OWNER)
        async with signed_in(node, "guest", ("read",), owner="boss") as browser:
            page = await browser.get("/hooks")
            assert page.status == 403
            assert page.tree.all("a", href="/hooks") == []
