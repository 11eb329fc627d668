"""Hooks and the verifiers before their topics: who may write what, in which order, and what is refused by name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder import tool
from rejoinder.contract.errors import BadInputError, ForbiddenError
from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.hooks.fields import name_of
from rejoinder.hooks.records import NOT_SERVED
from rejoinder.node import Node
from tests.integration.doors.edge import Edge, edge
from tests.integration.nodes import ANN, running

BINDING = {"verifier": "stripe", "config": {"secret_env": "VENDOR_SECRET"}}
BODY: dict[str, Any] = {"name": "one", "topic": "orders", "tool": "note", "execution_key": "owner"}


@tool
async def note(id: int = 0) -> str:
    return "noted"


@tool(internal=True)
async def confirm() -> str:
    return "confirmed"


@asynccontextmanager
async def hooked(url: str, **settings: Any) -> AsyncIterator[Edge]:
    async with edge(url, note, confirm, **settings) as made:
        yield made


async def events(node: Node, *kinds: str) -> list[tuple[str, Any]]:
    rows = await node.database.rows(
        "SELECT kind, detail FROM rejoinder.event WHERE kind = ANY ($1) ORDER BY seq", list(kinds)
    )
    return [tuple(row) for row in rows]


async def post(who: httpx2.AsyncClient, **more: Any) -> httpx2.Response:
    return await who.post("/api/hooks", json=BODY | more)


async def bound(who: httpx2.AsyncClient, topic: str = "orders") -> httpx2.Response:
    return await who.put(f"/api/hooks/topics/{topic}/verifier", json=BINDING)


async def test_a_hook_is_written_by_its_name_read_and_deleted(database_url: str) -> None:
    async with hooked(database_url) as made:
        first = await post(made.owner, condition='.type == "paid"', tool_kwargs={"id": 2**70})
        assert first.status_code == 201
        again = await post(made.owner, topic="other", start_expr="{a: .b}")
        assert again.status_code == 200
        (listed,) = (await made.owner.get("/api/hooks")).json()["data"]["items"]
        assert listed == again.json()["data"]
        # What was left out is not carried over: a hook is what its last author read.
        assert (listed["condition"], listed["start_expr"], listed["tool_kwargs"]) == (None, "{a: .b}", {})
        assert listed["created_at"] < listed["updated_at"]
        assert first.json()["data"]["tool_kwargs"] == {"id": 2**70}
        assert (await made.owner.get("/api/hooks?topic=orders")).json()["data"]["items"] == []
        gone = await made.owner.delete("/api/hooks/one")
        assert gone.json()["data"] == {"name": "one", "status": "deleted"}
        assert (await made.owner.delete("/api/hooks/one")).status_code == 404
        known = await events(made.node, "hook.registered", "hook.deleted")
        assert [kind for kind, _ in known] == ["hook.registered"] * 2 + ["hook.deleted"]
        assert [detail["replaced"] for _, detail in known[:2]] == [False, True]
        # What a hook is told stays out of the trail: it may hold more than its readers may know.
        assert "paid" not in json.dumps(known)


async def test_a_page_of_hooks_goes_on_where_it_ended(database_url: str) -> None:
    async with hooked(database_url) as made:
        for name in ("a", "b", "c"):
            await post(made.owner, name=name)
        names, after = [], ""
        while after is not None:
            page = (await made.owner.get(f"/api/hooks?limit=2{after and f'&after={after}'}")).json()["data"]
            names += [one["name"] for one in page["items"]]
            after = page["next_after"]
        assert names == ["a", "b", "c"]


WRONG_HOOKS: list[tuple[dict[str, Any], int, str | None]] = [
    ({"name": None}, 400, "name"),
    ({"name": "Upper"}, 400, "name"),
    ({"name": "-a"}, 400, "name"),
    ({"name": "a" * 121}, 400, "name"),
    ({"name": "a\n"}, 400, "name"),
    ({"topic": ""}, 400, "topic"),
    ({"topic": 1}, 400, "topic"),
    ({"topic": "é"}, 400, "topic"),
    ({"tool": None}, 400, "tool"),
    ({"tool": "nosuch"}, 404, "tool"),
    ({"execution_key": None}, 400, "execution_key"),
    ({"execution_key": "nosuch"}, 400, "execution_key"),
    ({"tool_kwargs": []}, 400, "tool_kwargs"),
    ({"tool_kwargs": {"a": "\u0000"}}, 400, "tool_kwargs"),
    ({"tool_kwargs": {"id": 1, "nosuch": 1}}, 400, "tool_kwargs.nosuch"),
    ({"tool_kwargs": {"a": "x" * 40_000}}, 400, "tool_kwargs"),
    ({"condition": "."}, 201, None),
    ({"condition": ".a["}, 400, "condition"),
    ({"condition": "nosuch"}, 400, "condition"),
    ({"condition": "env"}, 400, "condition"),
    ({"condition": 1}, 400, "condition"),
    ({"start_expr": ""}, 400, "start_expr"),
    ({"start_expr": "." * 9000}, 400, "start_expr"),
    ({"cancel_expr": None}, 201, None),
    ({"cancel_expr": "."}, 400, "cancel_expr"),
    ({"subject": "a"}, 400, "subject"),
    ({"extra": 1}, 400, "extra"),
]


async def test_what_is_wrong_with_a_hook_is_named(database_url: str) -> None:
    async with hooked(database_url) as made:
        for number, (change, status, field) in enumerate(WRONG_HOOKS):
            answer = await post(made.owner, **({"name": f"hook-{number}"} | change))
            assert answer.status_code == status, (change, answer.text)
            assert answer.json().get("field") == field, change
        written = await made.node.hook_store.hooks(topic=None, after=None, limit=99)
        assert len(written) == sum(status == 201 for _, status, _ in WRONG_HOOKS)


async def test_a_key_that_is_not_known_is_answered_with_those_that_are_served(database_url: str) -> None:
    async with hooked(database_url) as made:
        told = (await post(made.owner, extra=1)).json()["error"]
        assert "start_expr" in told
        assert [key for key in NOT_SERVED if key in told] == []
        for key in NOT_SERVED:
            answer = await post(made.owner, **{key: "."})
            assert (answer.status_code, answer.json()["field"]) == (400, key)
            assert answer.json()["error"] == f"{key} is not served by this version; leave it out"


@given(st.text(max_size=6) | st.from_regex(r"[a-z0-9][a-z0-9_-]{0,119}", fullmatch=True))
def test_a_name_is_taken_by_its_pattern_alone(text: str) -> None:
    good = 0 < len(text) <= 120 and set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
    good = good and text[0] not in "_-"
    if good:
        assert name_of(text, "name") == text
    else:
        with pytest.raises(BadInputError):
            name_of(text, "name")


async def test_who_may_write_hooks(database_url: str) -> None:
    async with hooked(database_url) as made:
        reader = await made.client("reader", "read")
        writer = await made.client("writer", "read", "write")
        owned = await made.client("owned", "read", "write", owner="writer")
        assert (await post(reader)).status_code == 403
        assert (await post(owned, execution_key="owned")).status_code == 403
        assert (await owned.get("/api/hooks")).status_code == 403
        assert (await made.anonymous().get("/api/hooks")).status_code == 401
        # A writer hands on no rights that it has not got.
        assert (await post(writer)).status_code == 403
        assert (await post(writer, execution_key="owned")).status_code == 201
        assert (await post(writer, execution_key="writer")).status_code == 200
        assert (await reader.get("/api/hooks")).status_code == 200
        assert (await reader.delete("/api/hooks/one")).status_code == 403
        assert (await writer.delete("/api/hooks/one")).status_code == 200
        for method, path in (
            ("PUT", "/api/hooks/topics/orders/verifier"),
            ("DELETE", "/api/hooks/topics/orders/verifier"),
        ):
            assert (await writer.request(method, path, json=BINDING)).status_code == 403


async def test_a_hook_keeps_the_key_that_it_was_written_with(database_url: str) -> None:
    async with hooked(database_url) as made:
        await made.key("worker", "read", "write")
        await post(made.owner, execution_key="worker")
        before = await made.node.hook_store.hook("one")
        await made.node.access.revoke_key("worker", by=LOCAL_OWNER)
        await made.key("worker", "read", "write")
        after = await made.node.hook_store.hook("one")
        assert before is not None
        assert after == before
        assert before.key_id is not None
        assert await made.node.access.identity_of_key(before.key_id) is None


# Internal tools


async def test_the_verifier_of_an_internal_hook_comes_first_and_goes_last(database_url: str) -> None:
    async with hooked(database_url) as made:
        early = await post(made.owner, tool="confirm")
        assert (early.status_code, early.json()["code"], early.json()["field"]) == (
            400,
            "topic-open",
            "topic",
        )
        assert (await bound(made.owner)).status_code == 200
        assert (await post(made.owner, tool="confirm")).status_code == 201
        held = await made.owner.delete("/api/hooks/topics/orders/verifier")
        assert (held.status_code, held.json()["code"]) == (409, "topic-has-hooks")
        assert held.json()["error"].endswith(": one")
        # Nor by moving the hook to a topic that stands open.
        assert (await post(made.owner, tool="confirm", topic="open")).status_code == 400
        await made.owner.delete("/api/hooks/one")
        assert (await made.owner.delete("/api/hooks/topics/orders/verifier")).status_code == 200
        known = [kind for kind, _ in await events(made.node, "verifier.bound", "verifier.unbound")]
        assert known == ["verifier.bound", "verifier.unbound"]


async def test_only_an_admin_writes_or_removes_a_hook_of_an_internal_tool(database_url: str) -> None:
    async with hooked(database_url) as made:
        writer = await made.client("writer", "read", "write")
        await bound(made.owner)
        assert (await post(writer, tool="confirm", execution_key="writer")).status_code == 403
        await post(made.owner, tool="confirm", start_expr="{a: 1}")
        for change in (
            {"tool": "confirm", "start_expr": "{a: 2}"},
            {"tool": "note"},
            {"tool": "note", "topic": "other"},
        ):
            answer = await post(writer, execution_key="writer", **change)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert (await writer.delete("/api/hooks/one")).status_code == 403
        hook = await made.node.hook_store.hook("one")
        assert hook is not None
        assert (hook.tool, hook.start_expr, hook.by_admin, hook.internal) == ("confirm", "{a: 1}", True, True)
        refused = await events(made.node, "access.refused")
        assert [detail for _, detail in refused] == [{"hook": "one"}] * 5
        # Once an admin has made it an ordinary one, it is anybody's again.
        assert (await post(made.owner)).status_code == 200
        assert (await post(writer, execution_key="writer")).status_code == 200
        hook = await made.node.hook_store.hook("one")
        assert hook is not None
        assert (hook.by_admin, hook.internal) == (False, False)


async def test_a_tool_that_became_internal_protects_its_hooks(database_url: str) -> None:
    """And one of a process that does not know the tool: the row says so too."""
    async with hooked(database_url) as made:
        writer = await made.client("writer", "read", "write")
        await bound(made.owner)
        await post(made.owner, tool="confirm")
        await post(writer, name="two", execution_key="writer")
        async with running(database_url, note.made_internal()) as other:
            for name in ("one", "two"):
                with pytest.raises(ForbiddenError):
                    await other.hook_records.delete(name, by=ANN)
        assert (await writer.delete("/api/hooks/two")).status_code == 200


async def test_an_internal_hook_and_the_end_of_its_verifier_do_not_cross(database_url: str) -> None:
    """Whatever the order, no internal hook stands on an open topic."""
    async with hooked(database_url) as made:
        for _ in range(5):
            await bound(made.owner)
            written, unbound = await asyncio.gather(
                post(made.owner, tool="confirm"), made.owner.delete("/api/hooks/topics/orders/verifier")
            )
            assert (written.status_code, unbound.status_code) in ((201, 409), (400, 200))
            await made.owner.delete("/api/hooks/one")


# Topics


async def test_topics_are_listed_with_what_stands_before_them(database_url: str) -> None:
    async with hooked(database_url) as made:
        await post(made.owner, topic="open")
        await bound(made.owner)
        link = {"topic": "linked", "execution_key": "owner", "ttl_seconds": None}
        await made.owner.post("/api/hooks/trigger-links", json=link)
        found = (await made.owner.get("/api/hooks/topics")).json()["data"]["items"]
        assert [(one["topic"], one["open"], one["hooks"], one["links"]) for one in found] == [
            ("linked", True, 0, 1),
            ("open", True, 1, 0),
            ("orders", False, 0, 0),
        ]
        assert found[2]["config"] == {"secret_env": "VENDOR_SECRET"}
        assert found[2]["bound_by"] == "owner"
        page = (await made.owner.get("/api/hooks/topics?limit=1&after=linked")).json()["data"]
        assert ([one["topic"] for one in page["items"]], page["next_after"]) == (["open"], "open")


async def test_another_verifier_takes_the_place_of_the_first(database_url: str) -> None:
    async with hooked(database_url) as made:
        await bound(made.owner)
        other = {"verifier": "shared_secret", "config": {"header": "X-Secret", "secret_env": "OTHER"}}
        answer = await made.owner.put("/api/hooks/topics/orders/verifier", json=other)
        assert answer.json()["data"]["verifier"] == "shared_secret"
        known = await events(made.node, "verifier.bound")
        assert [detail["replaced"] for _, detail in known] == [None, "stripe"]


WRONG_BINDINGS: list[tuple[str, dict[str, Any], str]] = [
    ("orders", {"verifier": "nosuch"}, "verifier"),
    ("orders", {"config": {}}, "verifier"),
    ("orders", {"verifier": ["stripe"]}, "verifier"),
    ("orders", {"verifier": "stripe"}, "config"),
    ("orders", {"verifier": "stripe", "config": None}, "config"),
    ("orders", {"verifier": "stripe", "config": {"secret": "whsec_1"}}, "config"),
    ("orders", {"verifier": "stripe", "config": {"secret_env": "A", "more": 1}}, "config"),
    ("orders", {"verifier": "stripe", "config": {"secret_env": "A"}, "extra": 1}, "extra"),
    ("Upper", BINDING, "topic"),
]


async def test_what_is_wrong_with_a_binding_is_named(database_url: str) -> None:
    async with hooked(database_url) as made:
        for topic, body, field in WRONG_BINDINGS:
            answer = await made.owner.put(f"/api/hooks/topics/{topic}/verifier", json=body)
            assert (answer.status_code, answer.json()["field"]) == (400, field), body
            assert "whsec_1" not in answer.text
            assert (await made.owner.delete(f"/api/hooks/topics/{topic}/verifier")).status_code in (400, 404)
