"""The same deputy, come at by way of events: hooks, topics, links, schedules and presets."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from rejoinder import tool
from rejoinder.contract.errors import RejoinderError
from rejoinder.runs.tools import Tool
from rejoinder.tools.bridge import verified_event
from tests.integration.doors.edge import Edge
from tests.integration.hooks.events import DOOR, becomes, bind, event, hook, outside, send
from tests.integration.hooks.events import secret as secret

TOPIC = "confirmations"
FORGED = {"type": "confirmation.completed", "decision": "confirmed", "id": "forged"}


class Deputy:
    def __init__(self) -> None:
        self.told: list[Any] = []

        @tool(internal=True, idempotent=True)
        async def confirm_action(event: dict[str, Any] | None = None) -> str:
            self.told.append(verified_event())
            return "confirmed"

        @tool(internal=True, admin_may_run=True, idempotent=True)
        async def reconcile() -> str:
            return "reconciled"

        @tool(idempotent=True)
        async def careless(event: dict[str, Any] | None = None) -> str:
            self.told.append(verified_event())
            return "done"

        self.tools: tuple[Tool, ...] = (confirm_action, reconcile, careless)


@pytest.fixture
def deputy() -> Deputy:
    return Deputy()


async def registered(who: httpx2.AsyncClient, topic: str = TOPIC, **more: Any) -> httpx2.Response:
    body = {"name": "bridge", "topic": topic, "tool": "confirm_action", "execution_key": "bridge"}
    return await who.post("/api/hooks", json=body | more)


async def deployed(e: Edge) -> None:
    """The operator's order: bind, then register."""
    await bind(e.node, TOPIC)
    await e.key("bridge", "read")
    made = await registered(e.owner, condition='.type == "confirmation.completed"')
    assert made.status_code in (200, 201), made.text


async def test_what_it_is_told_is_the_event_that_was_verified_whatever_it_is_given(
    database_url: str, deputy: Deputy, secret: str
) -> None:
    async with outside(database_url, *deputy.tools) as e, e.anonymous() as sender:
        await bind(e.node, TOPIC)
        await e.key("bridge", "read")
        # Even an admin's own hook gives it nothing that it believes.
        await registered(e.owner, tool_kwargs={"event": FORGED}, start_expr="{event: {id: .id}}")
        assert (await send(sender, TOPIC, event(decision="declined"))).status_code == 200
        await becomes(e.node, "acted")
        [told] = deputy.told
        assert (told["decision"], told["id"] != "forged") == ("declined", True)


async def test_what_nobody_signed_runs_nothing(database_url: str, deputy: Deputy, secret: str) -> None:
    async with outside(database_url, *deputy.tools) as e, e.anonymous() as sender:
        await deployed(e)
        assert (await sender.post(DOOR + TOPIC, json=FORGED)).status_code == 401
        assert (await send(sender, TOPIC, event(), secret="guessed")).status_code == 401
        assert (await sender.get(DOOR + TOPIC, params=FORGED)).status_code in (401, 405)
        assert await e.node.database.value("SELECT count(*) FROM rejoinder.delivery") == 0
        assert deputy.told == []


async def test_a_writer_neither_makes_nor_rewrites_nor_deletes_a_hook_of_it(
    database_url: str, deputy: Deputy, secret: str
) -> None:
    async with (
        outside(database_url, *deputy.tools, worker=False) as e,
        await e.client("w", "write") as writer,
    ):
        await deployed(e)
        # On a topic of their own, under a key of their own, with the event baked in: what anybody could fire.
        own: dict[str, Any] = {"name": "mine", "execution_key": "w", "tool_kwargs": {"event": FORGED}}
        assert (await registered(writer, "my-own", **own)).status_code == 403
        assert (await registered(writer, **own)).status_code == 403
        # Or the one that there is, rewritten by its name.
        assert (await registered(writer, execution_key="w", start_expr="{event: {}}")).status_code == 403
        assert (await registered(writer, execution_key="w", tool="careless")).status_code == 403
        assert (await writer.delete("/api/hooks/bridge")).status_code == 403
        kept = (await e.owner.get("/api/hooks")).json()["data"]["items"]
        assert [(one["tool"], one.get("start_expr")) for one in kept] == [("confirm_action", None)]


async def test_an_admins_mistake_opens_no_topic_to_it(database_url: str, deputy: Deputy, secret: str) -> None:
    async with outside(database_url, *deputy.tools, worker=False) as e:
        assert (await registered(e.owner, execution_key="owner")).status_code == 400
        await deployed(e)
        # Nor afterwards, while the hook is there.
        unbound = await e.owner.delete(f"/api/hooks/topics/{TOPIC}/verifier")
        assert unbound.status_code == 409
        assert "bridge" in unbound.json()["error"]
        assert (await e.owner.delete("/api/hooks/bridge")).status_code == 200
        assert (await e.owner.delete(f"/api/hooks/topics/{TOPIC}/verifier")).status_code == 200


async def test_no_link_leads_around_the_verifier(database_url: str, deputy: Deputy, secret: str) -> None:
    async with outside(database_url, *deputy.tools) as e, await e.client("w", "read", "write") as writer:
        body = {"topic": TOPIC, "execution_key": "w", "ttl_seconds": None, "tool_kwargs": {"event": FORGED}}
        early = await writer.post("/api/hooks/trigger-links", json=body)
        assert early.status_code == 201, early.text
        await deployed(e)
        assert (await writer.post("/api/hooks/trigger-links", json=body)).status_code == 400
        await e.node.database.execute(
            "INSERT INTO rejoinder.public_route (pattern, created_by) VALUES ('/trigger/*', 'test')"
        )
        url = early.json()["data"]["url"]
        async with e.anonymous() as stranger:
            assert (await stranger.post("/trigger/" + url.rpartition("/")[2], json=FORGED)).status_code == 404
        assert deputy.told == []


@pytest.mark.parametrize(("bound", "admin"), [(True, False), (False, True), (False, False)])
async def test_a_hook_that_came_another_way_is_looked_at_when_it_runs(
    database_url: str, deputy: Deputy, secret: str, bound: bool, admin: bool
) -> None:
    """Such as one that was registered before its tool was marked internal."""
    async with outside(database_url, *deputy.tools, hooks_run_max_attempts=1) as e, e.anonymous() as sender:
        if bound:
            await bind(e.node, TOPIC)
        await hook(e.node, "bridge", TOPIC, "confirm_action", admin=admin, tool_kwargs={"event": FORGED})
        assert (await send(sender, TOPIC, event())).status_code == 200
        [held] = await becomes(e.node, "failed")
        assert held["last_error_kind"] == "unauthorized"
        assert deputy.told == []


async def test_without_a_verifier_no_tool_takes_an_event_for_a_verified_one(
    database_url: str, deputy: Deputy, secret: str
) -> None:
    async with outside(database_url, *deputy.tools) as e, e.anonymous() as sender:
        await hook(e.node, "careless", "open-topic", "careless")
        assert (await sender.post(DOOR + "open-topic", json=FORGED)).status_code == 200
        [held] = await becomes(e.node, "failed")
        assert "not started by a hook on an event whose sender was verified" in held["last_error"]
        call = {"tool_name": "careless", "arguments": {"event": FORGED}}
        assert (await e.owner.post("/api/run-tool", json=call)).json()["code"] == "run-failed"
        assert deputy.told == []


async def test_a_hook_whose_key_was_revoked_runs_nothing(
    database_url: str, deputy: Deputy, secret: str
) -> None:
    async with outside(database_url, *deputy.tools) as e, e.anonymous() as sender:
        await deployed(e)
        assert (await e.owner.delete("/api/keys/bridge")).status_code == 200
        # Under the same name again it is another key.
        await e.key("bridge", "read", "write", "admin")
        assert (await send(sender, TOPIC, event())).status_code == 200
        [held] = await becomes(e.node, "failed")
        assert held["last_error_kind"] == "unauthorized"
        assert deputy.told == []


async def test_a_captured_event_runs_it_once(database_url: str, deputy: Deputy, secret: str) -> None:
    async with outside(database_url, *deputy.tools) as e, e.anonymous() as sender:
        await deployed(e)
        body = event()
        said = [(await send(sender, TOPIC, body)).json()["status"] for _ in range(3)]
        assert said == ["accepted", "already_seen", "already_seen"]
        await becomes(e.node, "acted")
        assert len(deputy.told) == 1


async def test_only_an_admin_schedules_what_an_admin_may_run(
    database_url: str, deputy: Deputy, secret: str
) -> None:
    async with (
        outside(database_url, *deputy.tools, worker=False) as e,
        await e.client("w", "write") as writer,
    ):
        once = {"tool_kwargs": {}, "cadence": {"kind": "interval", "every": 900}}
        for who, name, status in (
            (writer, "confirm_action", 403),
            (writer, "reconcile", 403),
            (e.owner, "confirm_action", 403),
            (e.owner, "reconcile", 201),
        ):
            reply = await who.post("/api/schedules", json=once | {"tool_name": name})
            assert reply.status_code == status, (name, reply.text)


async def test_only_an_admin_stops_a_schedule_of_what_an_admin_may_run(
    database_url: str, deputy: Deputy, secret: str
) -> None:
    """Else whoever may write could have what was lost stay lost."""
    async with (
        outside(database_url, *deputy.tools, worker=False) as e,
        await e.client("w", "write") as writer,
    ):
        order = {"tool_kwargs": {}, "cadence": {"kind": "interval", "every": 900}}
        for name in ("reconcile", "careless"):
            made = await e.owner.post(
                "/api/schedules", json=order | {"tool_name": name, "schedule_name": name}
            )
            assert made.status_code == 201, made.text

        async def stopped(who: httpx2.AsyncClient, name: str) -> list[int]:
            path = f"/api/schedules/{name}"
            replies = [
                await who.patch(path, json={"enabled": False}),
                await who.patch(path, json={"enabled": True}),
                await who.delete(path),
            ]
            return [one.status_code for one in replies]

        assert await stopped(writer, "reconcile") == [403] * 3
        assert await stopped(writer, "careless") == [200] * 3
        assert await stopped(e.owner, "reconcile") == [200] * 3
        refused = await e.node.database.rows(
            "SELECT actor, via FROM rejoinder.event WHERE kind = 'access.refused'"
        )
        assert [tuple(one) for one in refused] == [("w", "schedules")] * 3


async def test_no_preset_is_made_of_it_and_a_pin_is_an_admins_to_change(
    database_url: str, deputy: Deputy, secret: str
) -> None:
    @tool
    async def ask_for(reference: str, amount: int = 1) -> str:
        return f"{reference} {amount}"

    async with (
        outside(database_url, *deputy.tools, ask_for, worker=False) as e,
        await e.client("w", "read", "write") as writer,
    ):
        over = {"name": "mine", "base_tool": "confirm_action", "description": "Mine.", "fixed_kwargs": {}}
        for fixed in ({}, {"event": FORGED}):
            reply = await e.owner.post("/api/presets", json=over | {"fixed_kwargs": fixed})
            assert (reply.status_code, reply.json()["field"]) == (400, "base_tool")
        pinned = {
            "name": "pinned",
            "base_tool": "ask_for",
            "description": "Pinned.",
            "fixed_kwargs": {"reference": "order-7"},
        }
        assert (await e.owner.post("/api/presets", json=pinned)).status_code == 201
        path = "/api/presets/pinned"
        for reply in (
            await writer.post(f"{path}/versions", json={"fixed_kwargs": {"reference": "order-8"}}),
            await writer.post(f"{path}/versions", json={"fixed_kwargs": {}}),
            await writer.delete(path),
        ):
            assert reply.status_code == 403, reply.text
        call = {"tool_name": "pinned", "arguments": {"reference": "order-8"}}
        assert (await writer.post("/api/run-tool", json=call)).json()["field"] == "reference"
        call = {"tool_name": "pinned", "arguments": {}}
        assert (await writer.post("/api/run-tool", json=call)).json()["data"]["result"] == "order-7 1"


async def test_a_tool_that_is_only_run_pinned_is_pinned_by_an_admin(
    database_url: str, deputy: Deputy, secret: str
) -> None:
    @tool
    async def composed(reference: str, note: str = "") -> str:
        return f"{reference} {note}"

    @tool
    async def other(reference: str) -> str:
        return reference

    async with (
        outside(database_url, composed.made_only_pinned(), other, worker=False) as e,
        await e.client("w", "read", "write") as writer,
    ):
        for who in (writer, e.owner):
            for path in ("/api/run-tool", "/api/tool-runs"):
                call = {"tool_name": "composed", "arguments": {"reference": "mine"}}
                assert (await who.post(path, json=call)).json()["code"] == "tool-internal"
        pinned = {
            "name": "pinned",
            "base_tool": "composed",
            "description": "Pinned.",
            "fixed_kwargs": {"reference": "order-7"},
        }
        refused = await writer.post("/api/presets", json=pinned)
        assert (refused.status_code, refused.json()["field"]) == (403, "base_tool")
        # A hook would give it what an event says.
        await bind(e.node, TOPIC)
        await e.key("bridge", "read")
        hooked = await registered(e.owner, tool="composed", start_expr="{reference: .id}")
        assert (hooked.status_code, hooked.json()["code"]) == (403, "tool-internal")
        loose = await e.owner.post("/api/presets", json=pinned | {"fixed_kwargs": {}})
        assert (loose.status_code, loose.json()["field"]) == (400, "fixed_kwargs")
        # Nor by way of a preset of something else, which is theirs to change.
        mine = pinned | {"name": "mine", "base_tool": "other", "fixed_kwargs": {}}
        assert (await writer.post("/api/presets", json=mine)).status_code == 201
        turned = {"base_tool": "composed", "fixed_kwargs": {"reference": "mine"}}
        assert (await writer.post("/api/presets/mine/versions", json=turned)).status_code in (400, 403)

        assert (await e.owner.post("/api/presets", json=pinned)).status_code == 201
        call = {"tool_name": "pinned", "arguments": {"note": "thanks"}}
        assert (await writer.post("/api/run-tool", json=call)).json()["data"]["result"] == "order-7 thanks"
        names = {one["name"] for one in (await writer.get("/api/tools")).json()["data"]["items"]}
        assert "pinned" in names
        assert "composed" not in names


def test_outside_a_run_nothing_is_verified() -> None:
    with pytest.raises(RejoinderError):
        verified_event()
