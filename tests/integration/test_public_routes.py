"""The doors outside /api that stand open only where an operator pinned them."""

from __future__ import annotations

import pytest

from rejoinder.access.public import NotPublicError
from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.node import Node
from tests.integration.cli.conftest import Shell
from tests.integration.doors.edge import Edge, edge, served
from tests.integration.nodes import running
from tests.support import assert_eventually

EVENTS = "/universal_webhook/*"


async def test_what_is_not_pinned_is_closed(database_url: str) -> None:
    async with running(database_url) as node:
        routes = node.public_routes
        for path in ("/universal_webhook/orders", "/trigger/trg-secret", "/", "", "/universal_webhook/"):
            assert not await routes.allows(path)
        await routes.pin("/universal_webhook/orders", by=LOCAL_OWNER)
        assert await routes.allows("/universal_webhook/orders")
        for path in ("/universal_webhook/other", "/universal_webhook/orders/more", "/universal_webhook/"):
            assert not await routes.allows(path)
        await routes.pin(EVENTS, by=LOCAL_OWNER)
        assert await routes.allows("/universal_webhook/other")
        assert not await routes.allows("/trigger/trg-secret")


async def test_where_access_control_is_off_everything_is_open(database_url: str) -> None:
    async with running(database_url, access_control_enable=False) as node:
        assert await node.public_routes.allows("/trigger/trg-secret")
        await node.public_routes.check("/trigger/trg-secret")


async def test_every_process_learns_of_a_change(database_url: str) -> None:
    async with running(database_url) as one, running(database_url) as other:

        async def opened() -> bool:
            return await other.public_routes.allows("/universal_webhook/a")

        assert not await opened()
        await one.public_routes.pin(EVENTS, by=LOCAL_OWNER)
        await assert_eventually(opened)
        await one.public_routes.unpin(EVENTS, by=LOCAL_OWNER)

        async def closed() -> bool:
            return not await opened()

        await assert_eventually(closed)


async def test_without_notifications_nothing_is_believed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(database_url) as one, running(database_url) as other:
        await one.public_routes.pin(EVENTS, by=LOCAL_OWNER)
        monkeypatch.setattr(type(other.signals), "connected", False)
        assert await other.public_routes.allows("/universal_webhook/a")
        await one.database.execute("DELETE FROM rejoinder.public_route")
        assert not await other.public_routes.allows("/universal_webhook/a")


async def test_refusals_are_noted_without_the_path_and_not_each(database_url: str) -> None:
    async with running(database_url) as node:
        for n in range(5):
            with pytest.raises(NotPublicError) as refusal:
                await node.public_routes.check(f"/trigger/trg-secret-{n}")
            assert refusal.value.as_problem() == {
                "error": "This door is not open on this deployment.",
                "code": "not-public",
            }
        rows = await _noted(node)
        assert [row["detail"] for row in rows] == [{"route": "/trigger/*"}]


async def _noted(node: Node) -> list[dict[str, object]]:
    rows = await node.database.rows("SELECT detail FROM rejoinder.event WHERE kind = 'access.refused'")
    return [dict(row) for row in rows]


async def test_an_admin_pins_and_unpins_over_http(database_url: str) -> None:
    async with edge(database_url) as e:
        path = "/api/scopes/public"
        for _ in range(2):
            made = await e.owner.put(path, json={"pattern": EVENTS})
            assert made.status_code == 200
            assert made.json()["data"]["created_by"] == "owner"
        listed = (await e.owner.get(path)).json()["data"]["items"]
        assert [one["pattern"] for one in listed] == [EVENTS]
        for bad in ("/api/*", "*", "/trigger/trg-secret", "/universal_webhook/A B", 7, None, ""):
            refused = await e.owner.put(path, json={"pattern": bad})
            assert (refused.status_code, refused.json()["field"]) == (400, "pattern"), bad
        extra = await e.owner.put(path, json={"pattern": EVENTS, "more": 1})
        assert (extra.status_code, extra.json()["field"]) == (400, "more")
        gone = await e.owner.delete(path, params={"pattern": EVENTS})
        assert gone.json()["data"] == {"pattern": EVENTS, "status": "unpinned"}
        assert (await e.owner.delete(path, params={"pattern": EVENTS})).status_code == 404
        assert (await e.owner.delete(path)).json()["field"] == "pattern"
        rows = await e.node.database.rows(
            "SELECT kind, actor FROM rejoinder.event WHERE kind LIKE 'scope.%' ORDER BY seq"
        )
        assert [tuple(row) for row in rows] == [("scope.pinned", "owner"), ("scope.unpinned", "owner")]


async def test_the_command_line(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(database_url) as e:
        shell = _shell(e, monkeypatch)
        assert (await shell("scopes", "public", "pin", EVENTS)).out == f"Open: {EVENTS}\n"
        assert EVENTS in (await shell("scopes", "public", "list")).out
        listed = await shell("scopes", "public", "list", "--json")
        assert listed.json["items"][0]["pattern"] == EVENTS
        assert (await shell("scopes", "public", "unpin", EVENTS, "--json")).json["status"] == "unpinned"
        refused = await shell("scopes", "public", "unpin", EVENTS)
        assert (refused.code, "No public route" in refused.err) == (1, True)


def _shell(e: Edge, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("REJOINDER_SERVER", e.base)
    monkeypatch.setenv("REJOINDER_API_KEY", e.owner.headers["authorization"].split()[1])
    return Shell(monkeypatch)
