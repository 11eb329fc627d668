"""Trigger links: made once, known by a digest, and gone in every way in which one can be gone."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx2

from rejoinder import tool
from rejoinder.contract.identity import LOCAL_OWNER
from tests.integration.doors.edge import Edge
from tests.integration.hooks.events import becomes, hook, hook_runs, outside
from tests.support import MovableClock

DOOR = "/api/hooks/trigger-links"
BODY: dict[str, Any] = {"topic": "orders", "execution_key": "owner", "ttl_seconds": 60}
#: One client that knocks very often.
OFTEN: dict[str, Any] = {"tai_rate_limit_families": {"trigger": {"limit": 100_000, "burst": 100_000}}}


@tool
async def note(amount: int = 0, by: str = "") -> dict[str, Any]:
    return {"amount": amount, "by": by}


async def opened(made: Edge) -> None:
    await made.node.public_routes.pin("/trigger/*", by=LOCAL_OWNER)


async def mint(who: httpx2.AsyncClient, **more: Any) -> httpx2.Response:
    return await who.post(DOOR, json=BODY | more)


async def link(made: Edge, **more: Any) -> str:
    """The path of a new link."""
    answer = await mint(made.owner, **more)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["data"]["url"]).removeprefix("http://127.0.0.1")


async def statuses(made: Edge) -> dict[str, str]:
    found = (await made.owner.get(DOOR)).json()["data"]["items"]
    return {one["name"]: one["status"] for one in found}


async def test_a_link_is_shown_once_and_kept_as_a_digest(database_url: str) -> None:
    async with outside(database_url, note, worker=False, **OFTEN) as made:
        given = (await mint(made.owner, name="mine", tool_kwargs={"a": 1})).json()["data"]
        assert re.fullmatch(r"trg-[A-Za-z0-9_-]{43}", given["token"])
        assert given["url"] == f"http://127.0.0.1/trigger/{given['token']}"
        (listed,) = (await made.owner.get(DOOR)).json()["data"]["items"]
        assert listed == given["link"]
        assert (listed["name"], listed["status"], listed["tool_kwargs"]) == ("mine", "live", {"a": 1})
        rows = await made.node.database.rows("SELECT t::text FROM rejoinder.trigger_link t")
        events = await made.node.database.rows("SELECT e::text FROM rejoinder.event e")
        assert given["token"][4:] not in str([*rows, *events])


async def test_a_generated_name_is_told_and_an_explicit_one_is_taken_once(database_url: str) -> None:
    async with outside(database_url, note, worker=False, **OFTEN) as made:
        names = {(await mint(made.owner)).json()["data"]["link"]["name"] for _ in range(2)}
        assert len(names) == 2
        assert (await mint(made.owner, name="mine")).status_code == 201
        again = await mint(made.owner, name="mine")
        assert (again.status_code, again.json()["field"]) == (409, "name")
        await made.owner.delete(f"{DOOR}/mine")
        assert (await mint(made.owner, name="mine")).status_code == 201
        kinds = await made.node.database.rows("SELECT kind FROM rejoinder.event WHERE kind LIKE 'link.%'")
        assert sorted(row["kind"] for row in kinds) == ["link.minted"] * 4 + ["link.revoked"]


WRONG_LINKS: list[tuple[dict[str, Any], str]] = [
    ({"topic": "Upper"}, "topic"),
    ({"execution_key": "nosuch"}, "execution_key"),
    ({"ttl_seconds": 0}, "ttl_seconds"),
    ({"ttl_seconds": -1}, "ttl_seconds"),
    ({"ttl_seconds": 1.5}, "ttl_seconds"),
    ({"ttl_seconds": True}, "ttl_seconds"),
    ({"ttl_seconds": "60"}, "ttl_seconds"),
    ({"ttl_seconds": 10**30}, "ttl_seconds"),
    ({"name": "a" * 65}, "name"),
    ({"name": ""}, "name"),
    ({"tool_kwargs": 1}, "tool_kwargs"),
    ({"require_api_key": "yes"}, "require_api_key"),
    ({"more": 1}, "more"),
]


async def test_what_is_wrong_with_a_link_is_named(database_url: str) -> None:
    async with outside(database_url, note, worker=False, **OFTEN) as made:
        for change, field in WRONG_LINKS:
            answer = await mint(made.owner, **change)
            assert (answer.status_code, answer.json()["field"]) == (400, field), change
        lacking = await made.owner.post(DOOR, json={"topic": "orders", "execution_key": "owner"})
        assert (lacking.status_code, lacking.json()["field"]) == (400, "ttl_seconds")
        assert await statuses(made) == {}


async def test_who_may_make_links(database_url: str) -> None:
    async with outside(database_url, note, worker=False, **OFTEN) as made:
        reader = await made.client("reader", "read")
        writer = await made.client("writer", "read", "write")
        owned = await made.client("owned", "read", "write", owner="writer")
        assert (await mint(reader)).status_code == 403
        assert (await mint(owned, execution_key="owned")).status_code == 403
        assert (await mint(writer)).status_code == 403
        assert (await mint(writer, execution_key="writer", name="w")).status_code == 201
        assert (await owned.delete(f"{DOOR}/w")).status_code == 403
        assert (await owned.get(DOOR)).status_code == 403
        assert (await writer.delete(f"{DOOR}/w")).status_code == 200
        assert (await writer.delete(f"{DOOR}/w")).status_code == 404


async def test_a_link_starts_the_hooks_of_its_topic_with_its_arguments_between_theirs(
    database_url: str,
) -> None:
    """The weakest are those of start_expr, the strongest those of the hook itself."""
    async with outside(database_url, note, **OFTEN) as made:
        await opened(made)
        start = "{amount: .amount, by: .by}"
        await hook(made.node, "plain", "orders", "note", start_expr=start)
        await hook(made.node, "strong", "orders", "note", start_expr=start, tool_kwargs={"by": "hook"})
        path = await link(made, tool_kwargs={"by": "link"})
        fired = await made.anonymous().post(path, json={"amount": 3, "by": "event"})
        assert (fired.status_code, fired.json()) == (200, {"status": "accepted"})
        await becomes(made.node, "acted", 2)
        rows = await made.node.database.rows("SELECT arguments FROM rejoinder.run WHERE door = 'hooks'")
        assert sorted(row["arguments"]["by"] for row in rows) == ["hook", "link"]
        assert {row["arguments"]["amount"] for row in rows} == {3}


async def test_looking_at_a_link_starts_nothing(database_url: str) -> None:
    async with outside(database_url, note, worker=False, **OFTEN) as made:
        await opened(made)
        await hook(made.node, "one", "orders", "note")
        path = await link(made)
        before = await made.node.database.rows("SELECT * FROM rejoinder.event")
        for agent in ("Mozilla/5.0", "curl/8", "Slackbot-LinkExpanding 1.0", "facebookexternalhit/1.1", ""):
            shown = await made.anonymous(**{"user-agent": agent}).get(f"{path}?a=secret-value")
            assert shown.status_code == 200
            assert "<button" in shown.text
            assert "secret-value" not in shown.text
            assert path.rpartition("/")[2] not in shown.text
            assert shown.headers["referrer-policy"] == "no-referrer"
            head = await made.anonymous(**{"user-agent": agent}).head(path)
            assert (head.status_code, head.content) == (200, b"")
        assert await hook_runs(made.node) == []
        assert await made.node.database.rows("SELECT * FROM rejoinder.event") == before


async def test_a_person_presses_the_button_and_is_answered_with_a_page(database_url: str) -> None:
    async with outside(database_url, note, worker=False, **OFTEN) as made:
        await opened(made)
        await hook(made.node, "one", "orders", "note")
        path = await link(made)
        done = await made.anonymous().post(f"{path}?a=1", data={"sent_by": "page"})
        assert done.status_code == 200
        assert done.headers["content-type"].startswith("text/html")
        assert "Started" in done.text
        (kept,) = await hook_runs(made.node)
        assert kept["payload"] == {"a": "1"}


async def test_every_link_that_does_not_count_is_answered_alike(
    database_url: str, clock: MovableClock
) -> None:
    async with outside(database_url, note, worker=False, **OFTEN) as made:
        await opened(made)
        await hook(made.node, "one", "orders", "note")
        await made.key("worker", "read", "write")
        paths = {
            "expired": await link(made, name="expired"),
            "revoked": await link(made, name="revoked", ttl_seconds=None),
            "key_gone": await link(made, name="key_gone", execution_key="worker", ttl_seconds=None),
            "out_of_service": await link(made, name="out_of_service", topic="bound", ttl_seconds=None),
            "live": await link(made, name="live", ttl_seconds=None),
        }
        await clock.advance(61)
        await made.owner.delete(f"{DOOR}/revoked")
        await made.node.access.revoke_key("worker", by=LOCAL_OWNER)
        # A key made anew under the same name is another one.
        await made.key("worker", "read", "write")
        await made.owner.put(
            "/api/hooks/topics/bound/verifier",
            json={"verifier": "stripe", "config": {"secret_env": "VENDOR_SECRET"}},
        )
        assert await statuses(made) == {name: name for name in paths if name != "revoked"}
        assert (await made.anonymous().post(paths.pop("live"))).status_code == 200
        unknown = ["/trigger/trg-" + "a" * 43, "/trigger/x", "/trigger/trg-", "/trigger/%ff"]
        shown, told = set(), set()
        for path in [*paths.values(), *unknown]:
            got = await made.anonymous().get(path)
            shown.add((got.status_code, got.text, got.headers["content-type"]))
            for options in ({}, {"json": {"a": 1}}, {"content": b"{junk"}):
                posted = await made.anonymous().post(path, **options)
                told.add((posted.status_code, posted.text))
            page = await made.anonymous().post(path, data={"sent_by": "page"})
            assert (page.status_code, page.text) == (404, "Not Found")
        assert shown == {(404, "Not Found", "text/plain; charset=utf-8")}
        assert told == {(404, json.dumps({"error": "not found", "code": "not-found"}, separators=(",", ":")))}
        assert len(await hook_runs(made.node)) == 1


async def test_a_link_and_a_verifier_do_not_cross(database_url: str) -> None:
    """Whichever comes first, no link leads past a verifier."""
    async with outside(database_url, note, worker=False, **OFTEN) as made:
        await opened(made)
        binding = {"verifier": "stripe", "config": {"secret_env": "VENDOR_SECRET"}}
        for turn in range(5):
            topic = f"topic-{turn}"
            minted, bound = await asyncio.gather(
                mint(made.owner, topic=topic),
                made.owner.put(f"/api/hooks/topics/{topic}/verifier", json=binding),
            )
            assert bound.status_code == 200
            if minted.status_code == 201:
                path = f"/trigger/{minted.json()['data']['token']}"
                assert (await made.anonymous().post(path)).status_code == 404
            else:
                assert (minted.status_code, minted.json()["code"]) == (400, "topic-bound")
        late = await mint(made.owner, topic="topic-0")
        assert (late.status_code, late.json()["field"]) == (400, "topic")


async def test_a_link_that_is_revoked_while_it_is_fired_starts_nothing(database_url: str) -> None:
    async with outside(database_url, note, worker=False, **OFTEN) as made:
        await opened(made)
        await hook(made.node, "one", "orders", "note")
        path = await link(made, name="mine")
        find = made.node.trigger_links.find

        async def revoked_meanwhile(token: str) -> object:
            found = await find(token)
            await made.owner.delete(f"{DOOR}/mine")
            return found

        made.node.trigger_links.find = revoked_meanwhile  # type: ignore[method-assign,assignment]
        assert (await made.anonymous().post(path)).status_code == 404
        assert await hook_runs(made.node) == []


async def test_a_revoked_link_is_remembered_for_ever(database_url: str) -> None:
    """Nothing that brings its row back can make its token count again."""
    async with outside(database_url, note, worker=False, **OFTEN) as made:
        await link(made, name="mine")
        database = made.node.database
        await database.execute("CREATE TABLE saved AS SELECT * FROM rejoinder.trigger_link")
        await made.owner.delete(f"{DOOR}/mine")
        brought_back = "INSERT INTO rejoinder.trigger_link SELECT * FROM saved ON CONFLICT DO NOTHING"
        assert await database.execute(brought_back) == "INSERT 0 0"
        await database.execute("UPDATE saved SET id = gen_random_uuid()")
        assert await database.execute(brought_back) == "INSERT 0 0"
        assert await statuses(made) == {}


async def test_a_link_may_ask_for_a_key_beside_it(database_url: str) -> None:
    async with outside(database_url, note, worker=False, **OFTEN) as made:
        await opened(made)
        path = await link(made, require_api_key=True)
        reader, writer = await made.client("reader", "read"), await made.client("writer", "write")
        wrong = made.anonymous(authorization="Bearer rjk_nothing")
        answers = [await who.post(path) for who in (made.anonymous(), wrong, reader)]
        assert {(one.status_code, one.json()["code"]) for one in answers} == {(403, "api-key-required")}
        assert (await writer.post(path)).status_code == 200
        shown = await made.anonymous().get(path)
        assert shown.status_code == 403
        assert "<button" not in shown.text


async def test_what_is_sent_is_bounded_and_read(database_url: str) -> None:
    async with outside(database_url, note, worker=False, webhook_ingress_max_body_bytes=200, **OFTEN) as made:
        await opened(made)
        path = await link(made)
        assert (await made.anonymous().post(path, content=b"x" * 201)).status_code == 413
        assert (await made.anonymous().post(f"{path}?{'a' * 201}")).status_code == 413
        bad = await made.anonymous(**{"content-type": "application/json"}).post(path, content=b"{")
        assert (bad.status_code, bad.json()["status"]) == (400, "rejected")


async def test_where_the_door_is_not_pinned_it_is_closed(database_url: str) -> None:
    async with outside(database_url, note, worker=False, **OFTEN) as made:
        path = await link(made)
        for one in (path, "/trigger/x"):
            assert (await made.anonymous().post(one)).status_code == 403
            assert (await made.anonymous().get(one)).status_code == 403


async def test_a_client_may_knock_so_often_and_no_more(database_url: str) -> None:
    async with outside(database_url, note, worker=False) as made:
        await opened(made)
        codes = [(await made.anonymous().post("/trigger/x")).status_code for _ in range(11)]
        assert codes == [404] * 10 + [429]
