"""The topic's door: size, then signature, then what it says, then kept once, and only then answered."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from rejoinder import tool
from rejoinder.contract import pause
from rejoinder.contract.errors import NotReadyError
from tests.integration.doors.edge import Edge
from tests.integration.hooks.events import DOOR, VARIABLE, bind, event, hook, hook_runs, outside, send, signed
from tests.support import MovableClock


@tool
async def note() -> str:
    return "noted"


async def seen(made: Edge) -> int:
    return int(await made.node.database.value("SELECT count(*) FROM rejoinder.seen_delivery"))


async def deliveries(made: Edge) -> int:
    return int(await made.node.database.value("SELECT count(*) FROM rejoinder.delivery"))


async def test_a_signed_event_is_kept_with_a_run_for_each_hook_and_a_copy_is_seen(
    database_url: str, secret: str
) -> None:
    async with outside(database_url, note, worker=False) as made:
        await bind(made.node, "orders")
        for name in ("one", "two"):
            await hook(made.node, name, "orders", "note")
        await hook(made.node, "other", "elsewhere", "note")
        body = event(n=2**70)
        first = await send(made.anonymous(), "orders", body)
        again = await send(made.anonymous(), "orders", body)
        assert (first.status_code, first.json()) == (200, {"status": "accepted", "topic": "orders"})
        assert (again.status_code, again.json()) == (200, {"status": "already_seen", "topic": "orders"})
        assert first.headers["cache-control"] == "no-store"
        kept = await hook_runs(made.node)
        assert [one["hook"] for one in kept] == ["one", "two"]
        assert {one["status"] for one in kept} == {"outstanding"}
        assert kept[0]["payload"] == json.loads(body)
        row = await made.node.database.row("SELECT * FROM rejoinder.delivery")
        assert row is not None
        assert (row["topic"], row["verifier"], row["trigger"]) == ("orders", "stripe", None)


async def test_one_event_counts_for_each_topic_it_is_delivered_to(database_url: str, secret: str) -> None:
    async with outside(database_url, worker=False) as made:
        body = event()
        for topic in ("a", "b"):
            await bind(made.node, topic)
            assert (await send(made.anonymous(), topic, body)).json()["status"] == "accepted"


async def test_copies_at_one_moment_count_once(database_url: str, secret: str) -> None:
    async with outside(database_url, note, worker=False) as made:
        await bind(made.node, "orders")
        await hook(made.node, "one", "orders", "note")
        body = event()
        answers = await asyncio.gather(*(send(made.anonymous(), "orders", body) for _ in range(8)))
        assert sorted(one.json()["status"] for one in answers) == ["accepted"] + ["already_seen"] * 7
        assert len(await hook_runs(made.node)) == 1


async def test_size_comes_before_the_signature_and_that_before_what_it_says(
    database_url: str,
    secret: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with outside(database_url, worker=False, webhook_ingress_max_body_bytes=200) as made:
        await bind(made.node, "orders")
        who = made.anonymous()
        junk = b"{" + b"x" * 300
        assert (await who.post(DOOR + "orders", content=junk)).status_code == 413
        assert (await who.post(DOOR + "orders?" + "q=1&" * 100, content=b"{}")).status_code == 413
        bad = await who.post(DOOR + "orders", content=b"{not json", headers=signed(b"something else"))
        assert (bad.status_code, bad.json()["error"]) == (401, "webhook verification failed")
        unread = await send(who, "orders", b'{"id": "e", "id": "e"}')
        assert unread.status_code == 400
        assert unread.json()["status"] == "rejected"
        assert await seen(made) == 0
        monkeypatch.delenv(VARIABLE)
        closed = await send(who, "orders", event())
        assert (closed.status_code, closed.json()["error"]) == (500, "webhook verification error")
        [line] = [one for one in capfd.readouterr().err.splitlines() if "could not be verified" in one]
        assert closed.json()["id"] in line


async def test_a_rejected_event_may_come_again_in_better_words(database_url: str, secret: str) -> None:
    async with outside(database_url, worker=False) as made:
        await bind(made.node, "orders")
        body = b'{"id": "evt_1", "id": "evt_1"}'
        assert (await send(made.anonymous(), "orders", body)).status_code == 400
        assert (await send(made.anonymous(), "orders", b'{"id": "evt_1"}')).json()["status"] == "accepted"


async def test_the_query_of_a_signed_post_is_nobodys_word(database_url: str, secret: str) -> None:
    async with outside(database_url, note, worker=False) as made:
        await bind(made.node, "orders")
        for topic in ("orders", "open"):
            await hook(made.node, topic, topic, "note")
        body = event()
        for topic in ("orders", "open"):
            sent = await made.anonymous().post(DOOR + topic + "?extra=1", content=body, headers=signed(body))
            assert sent.status_code == 200
        kept = {one["topic"]: one["payload"] for one in await hook_runs(made.node)}
        assert kept["orders"] == json.loads(body)
        assert kept["open"] == {"extra": "1"} | json.loads(body)


async def test_get_and_head_change_nothing(database_url: str, secret: str) -> None:
    async with outside(database_url, note, worker=False) as made:
        await bind(made.node, "bound")
        for topic in ("bound", "open"):
            await hook(made.node, topic, topic, "note")
        who = made.anonymous()
        answers = set()
        for topic in ("bound", "open", "unknown"):
            for method in ("GET", "HEAD"):
                answer = await who.request(method, DOOR + topic + "?x=1")
                assert answer.headers["allow"] == "POST"
                answers.add((answer.status_code, method, answer.text))
        # The same words whether the topic is bound, open or unknown.
        assert len(answers) == 2
        assert {one[0] for one in answers} == {405}
        assert await hook_runs(made.node) == []


async def test_a_get_is_an_event_where_the_operator_said_so(database_url: str, secret: str) -> None:
    settings = {"webhook_get_topics": ("open", "bound", "shared")}
    async with outside(database_url, note, worker=False, **settings) as made:
        await bind(made.node, "bound")
        await bind(made.node, "shared", "shared_secret", header="X-Secret")
        for topic in ("bound", "open", "shared"):
            await hook(made.node, topic, topic, "note")
        who = made.anonymous()
        assert (await who.get(DOOR + "open?a=1&a=2&b=3")).json()["status"] == "accepted"
        assert (await who.get(DOOR + "bound?a=1", headers=signed(b""))).status_code in (401, 405)
        assert (await who.get(DOOR + "shared?c=4")).status_code == 401
        assert (await who.get(DOOR + "shared?c=4", headers={"x-secret": secret})).status_code == 200
        assert (await who.head(DOOR + "open?a=1")).status_code == 405
        kept = {one["topic"]: one["payload"] for one in await hook_runs(made.node)}
        assert kept == {"open": {"a": ["1", "2"], "b": "3"}, "shared": {"c": "4"}}


async def test_what_nothing_runs_on_fills_no_disk(database_url: str, secret: str) -> None:
    async with outside(database_url, worker=False) as made:
        answer = await made.anonymous().post(DOOR + "unknown", content=b"anything")
        assert (answer.status_code, answer.json()) == (200, {"status": "accepted", "topic": "unknown"})
        assert await deliveries(made) == 0
        await bind(made.node, "orders")
        assert (await send(made.anonymous(), "orders", event())).json()["status"] == "accepted"
        assert await deliveries(made) == 1


async def test_an_open_topic_takes_only_so_much_that_is_not_done(database_url: str, secret: str) -> None:
    settings = {"webhook_open_topic_max_outstanding": 3}
    async with outside(database_url, note, worker=False, **settings) as made:
        await bind(made.node, "bound")
        for topic in ("bound", "open"):
            await hook(made.node, topic, topic, "note")
        sent = [(await made.anonymous().post(DOOR + "open", content=b"{}")).status_code for _ in range(5)]
        assert sent == [200, 200, 200, 503, 503]
        full = await made.anonymous().post(DOOR + "open", content=b"{}")
        assert full.json()["code"] == "topic-full"
        # Who proves who they are is not kept out by who does not.
        signed_ones = [(await send(made.anonymous(), "bound", event())).status_code for _ in range(5)]
        assert signed_ones == [200] * 5


@pytest.mark.parametrize("topic", ["Upper", "a.b", "-a", "a" * 121, "%C3%A9"])
async def test_what_cannot_be_a_topic_is_named(database_url: str, topic: str) -> None:
    async with outside(database_url, worker=False) as made:
        answer = await made.anonymous().post(DOOR + topic, content=b"{}")
        assert (answer.status_code, answer.json()["field"]) == (400, "topic")


async def test_without_a_public_row_the_door_is_closed(database_url: str) -> None:
    async with outside(database_url, worker=False) as made:
        await made.node.database.execute("DELETE FROM rejoinder.public_route")
        answers = [await made.anonymous().post(DOOR + topic, content=b"{}") for topic in ("a", "b")]
        assert {one.status_code for one in answers} == {403}
        assert len({one.text for one in answers}) == 1


async def test_a_topic_that_is_bound_while_an_event_comes_in_takes_no_unproven_one(
    database_url: str, secret: str
) -> None:
    async with outside(database_url, note, worker=False) as made:
        await hook(made.node, "one", "orders", "note")

        read = made.node.kept.binding

        async def bound_meanwhile(topic: str) -> object:
            before = await read(topic)
            await bind(made.node, "orders")
            return before

        made.node.kept.binding = bound_meanwhile  # type: ignore[method-assign,assignment]
        answer = await made.anonymous().post(DOOR + "orders", content=b"{}")
        assert answer.status_code == 401
        assert await hook_runs(made.node) == []


async def test_a_store_that_is_away_takes_nothing_and_the_sender_sends_again(
    database_url: str, secret: str
) -> None:
    async with outside(database_url, note, worker=False) as made:
        await bind(made.node, "orders")
        await hook(made.node, "one", "orders", "note")
        body = event()

        async def away() -> None:
            raise NotReadyError("gone")

        for point, status in (("delivery.verified", "accepted"), ("delivery.kept", "already_seen")):
            pause.arm(point, away)
            failed = await send(made.anonymous(), "orders", body)
            assert failed.status_code == 503
            assert failed.json()["error"].startswith("accept failed")
            pause.disarm()
            if point == "delivery.verified":
                assert await hook_runs(made.node) == []
                assert await seen(made) == 0
                assert (await send(made.anonymous(), "orders", body)).json()["status"] == status
                body = event()
            else:
                # It was kept before the reply was lost.
                assert (await send(made.anonymous(), "orders", body)).json()["status"] == status
        assert len(await hook_runs(made.node)) == 2


async def test_nothing_is_half_kept(database_url: str, secret: str) -> None:
    async with outside(database_url, note, worker=False) as made:
        await bind(made.node, "orders")
        await hook(made.node, "one", "orders", "note")
        await made.node.database.execute(
            "ALTER TABLE rejoinder.hook_run ADD CONSTRAINT no CHECK (hook <> 'one')"
        )
        body = event()
        assert (await send(made.anonymous(), "orders", body)).status_code == 500
        assert (await seen(made), await deliveries(made)) == (0, 0)
        await made.node.database.execute("ALTER TABLE rejoinder.hook_run DROP CONSTRAINT no")
        assert (await send(made.anonymous(), "orders", body)).json()["status"] == "accepted"


async def test_a_copy_that_was_fresh_when_it_was_verified_is_seen_however_slowly_it_is_kept(
    database_url: str, secret: str, clock: MovableClock
) -> None:
    async with outside(database_url, note, worker=False) as made:
        await bind(made.node, "orders")
        await hook(made.node, "one", "orders", "note")
        # A minute is left to both.
        body, at = event(), int(time.time()) - 240
        assert (await send(made.anonymous(), "orders", body, at=at)).json()["status"] == "accepted"

        async def slowly() -> None:
            pause.disarm()
            await clock.advance(90)

        pause.arm("delivery.verified", slowly)
        assert (await send(made.anonymous(), "orders", body, at=at)).json()["status"] == "already_seen"
        assert len(await hook_runs(made.node)) == 1


async def test_a_stale_signature_is_refused(database_url: str, secret: str) -> None:
    async with outside(database_url, worker=False) as made:
        await bind(made.node, "orders")
        old = await send(made.anonymous(), "orders", event(), at=int(time.time()) - 3600)
        assert old.status_code == 401
