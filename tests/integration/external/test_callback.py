"""The callback door: what each kind of question takes, in which order it looks, and what it never tells."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest

from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.verifiers.registry import Verifiers
from rejoinder.verifiers.shared_secret import SharedSecret
from tests.integration.core.support import assert_sound
from tests.integration.external.outside import (
    BASE,
    DOOR,
    GOOD,
    NOT_FOUND,
    SECRET,
    outside,
    proof,
    result,
    with_ticket,
)
from tests.support import MovableClock

STRICT = {"cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}


async def test_an_outside_system_answers(database_url: str) -> None:
    async with outside(database_url) as (e, system):
        asked = await e.call("sign", {})
        assert system.urls[0].startswith(BASE + DOOR)
        async with e.anonymous() as client:
            sent = {"signed": True, "pages": [1, 2], "nested": {"é": None}, "big": 2**70}
            reply = await client.post(system.door, content=json.dumps(sent))
            assert reply.status_code == 200
            assert reply.json() == {"data": {"interaction_id": asked.id, "status": "answered"}}
            assert STRICT.items() <= dict(reply.headers).items()
            assert await result(asked) == {"answer": sent, "reply_to": None, "params": None}
            # Repeated: told so, and nothing is done twice, whatever is sent.
            for again in (sent, {"signed": False}, None):
                reply = await client.post(system.door, content=b"" if again is None else json.dumps(again))
                assert reply.json() == {"data": {"status": "already_answered"}}
        shown = (await e.owner.get(f"/api/interactions/{asked.id}")).json()["data"]
        assert shown["answer"] == sent
        assert (shown["closed_by"], shown["closed_via"]) == ("external-callback", "callback")
    await assert_sound(database_url)


QUERIES: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    ("decision=confirmed&by=ann", {"decision": "confirmed", "by": "ann"}),
    ("a=1&b=2&a=3", {"a": ["1", "3"], "b": "2"}),
    ("note=&x=%C3%A9+y", {"note": "", "x": "é y"}),
]


async def test_without_a_body_the_query_answers(database_url: str) -> None:
    async with outside(database_url) as (e, system), e.anonymous() as client:
        for query, value in QUERIES:
            asked = await e.call("sign", {})
            assert (await client.post(f"{system.door}?{query}")).status_code == 200
            assert (await result(asked))["answer"] == value


async def test_a_body_wins_over_the_query(database_url: str) -> None:
    async with outside(database_url) as (e, system):
        asked = await e.call("sign", {})
        async with e.anonymous() as client:
            await client.post(f"{system.door}?a=1", content=b'{"b": 2}')
        assert (await result(asked))["answer"] == {"b": 2}


BAD_BODIES: list[tuple[bytes, str, str | None]] = [
    (b'{"decision": "declined"}', "answer does not match schema at decision: ", "decision"),
    (b'{"decision": "confirmed", "count": "x"}', "answer does not match schema at count: ", "count"),
    (b"{}", "answer does not match schema at decision: ", "decision"),
    (b"[]", "the body must be a JSON object", "body"),
    (b'"confirmed"', "the body must be a JSON object", "body"),
    (b"null", "the body must be a JSON object", "body"),
    (b"decision=confirmed", "invalid JSON", None),
    (b"\xff", "invalid JSON", None),
    (b'{"decision": "confirmed", "decision": "confirmed"}', "invalid JSON", None),
    (b'{"decision": "confirmed", "x": NaN}', "invalid JSON", None),
    (b'{"decision": "confirmed", "x": "\\ud800"}', "answer cannot be", None),
    (b'{"decision": "confirmed", "x": ' + b"[" * 100 + b"]" * 100 + b"}", "answer cannot be", None),
]


async def test_what_does_not_fit_leaves_the_ticket_as_good_as_it_was(database_url: str, secret: None) -> None:
    async with outside(database_url) as (e, system):
        for name, headers in (("checked", {}), ("bound", proof())):
            asked = await e.call(name, {})
            async with e.anonymous() as client:
                for body, told, field in BAD_BODIES:
                    reply = await client.post(system.door, content=body, headers=headers)
                    assert reply.status_code == 400, (body, reply.text)
                    assert reply.json()["error"].startswith(told), (body, reply.text)
                    assert reply.json().get("field") == field
                    assert await e.state(asked.id) == "pending"
                assert (await client.post(f"{system.door}?a=%ff", headers=headers)).status_code == 400
                await client.post(system.door, json=GOOD, headers=headers)
            assert (await result(asked))["answer"] == GOOD


# The order of the looks


async def test_size_comes_first(database_url: str, secret: None) -> None:
    async with outside(database_url, interactions_callback_max_body_bytes=1000) as (e, system):
        asked = await e.call("bound", {})
        async with e.anonymous() as client:
            for path in (system.door, DOOR + "x", DOOR + "x" * 43):
                assert (await client.post(path, content=b"x" * 1001)).status_code == 413
                assert (await client.post(f"{path}?{'x' * 1001}")).status_code == 413

                async def chunks() -> Any:
                    for _ in range(11):
                        yield b"x" * 100

                assert (await client.post(path, content=chunks())).status_code == 413
            filled = json.dumps(GOOD | {"note": "x" * 900}).encode()
            assert (await client.post(system.door, content=filled, headers=proof())).status_code == 200
        await result(asked)


async def dead_tickets(e: Any, system: Any, name: str, clock: MovableClock) -> dict[str, str]:
    """Paths of tickets whose questions have ended, each in its own way."""
    paths = {}
    expired = await e.call(name, {})
    paths["expired"] = system.door
    await clock.advance(3601)
    await asyncio.wait_for(expired.call, 20)
    cancelled = await e.call(name, {})
    paths["cancelled"] = system.door
    await e.owner.post(f"/api/interactions/{cancelled.id}/cancel")
    await asyncio.wait_for(cancelled.call, 20)
    late = await e.call(name, {})
    paths["past its deadline"] = system.door
    await e.node.database.execute(
        "UPDATE rejoinder.question SET timeout_at = rejoinder.clock() WHERE id::text = $1", late.id
    )
    answered = await e.call(name, {})
    async with e.anonymous() as client:
        await client.post(system.door, json=GOOD, headers=proof())
    await result(answered)
    paths["forgotten"] = system.door
    await e.node.database.execute(
        "UPDATE rejoinder.question SET closed_at = closed_at - interval '2 days' WHERE id::text = $1",
        answered.id,
    )
    gone = await e.call(name, {})
    paths["deleted"] = system.door
    await e.owner.post(f"/api/interactions/{gone.id}/cancel")
    await asyncio.wait_for(gone.call, 20)
    await e.node.database.execute("DELETE FROM rejoinder.question WHERE id::text = $1", gone.id)
    return paths


async def test_every_dead_ticket_is_the_same_404(database_url: str, clock: MovableClock) -> None:
    async with outside(database_url) as (e, system):
        dead = await dead_tickets(e, system, "sign", clock)
        other = await e.node.office.make(None)
        dead |= {"never given out": DOOR + other, "junk": DOOR + "x" * 43, "short": DOOR + "x"}
        posted, shown = {}, {}
        async with e.anonymous() as client:
            for kind, path in dead.items():
                reply = await client.post(path, json=GOOD)
                posted[kind] = (reply.status_code, reply.content, varying(reply.headers))
                for method in ("GET", "HEAD"):
                    reply = await client.request(method, path)
                    shown[kind, method] = (reply.status_code, reply.text, varying(reply.headers))
        assert {status for status, _, _ in posted.values()} == {404}
        assert {content for _, content, _ in posted.values()} == {
            json.dumps(NOT_FOUND, separators=(",", ":")).encode()
        }
        assert len({str(one) for one in posted.values()}) == 1
        assert {one[:2] for (_, method), one in shown.items() if method == "GET"} == {(404, "Not Found")}
        assert len({str(one) for (_, method), one in shown.items() if method == "GET"}) == 1
        assert len({str(one) for (_, method), one in shown.items() if method == "HEAD"}) == 1


def varying(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in ("x-request-id", "date")}


async def test_no_oracle_on_tickets_with_a_verifier(
    database_url: str, secret: None, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the secret, a ticket that is live, answered, over or was never recorded is one and the same, and the
    database is not even asked."""
    async with outside(database_url) as (e, system):
        paths = await dead_tickets(e, system, "bound", clock)
        answered = await e.call("bound", {})
        paths["answered"] = system.door
        async with e.anonymous() as client:
            await client.post(system.door, json=GOOD, headers=proof())
        await result(answered)
        live = await e.call("bound", {})
        paths["live"] = system.door
        binding = (await e.node.office.open(system.ticket)).binding  # type: ignore[union-attr]
        paths["never recorded"] = DOOR + await e.node.office.make(binding)

        asked = 0
        row = e.node.database.row

        async def counting(*given: Any) -> Any:
            nonlocal asked
            asked += 1
            return await row(*given)

        monkeypatch.setattr(e.node.database, "row", counting)
        told: dict[str, set[str]] = {}
        async with e.anonymous() as client:
            for kind, path in paths.items():
                for headers in ({}, {"x-bridge": "wrong"}, {"x-bridge": ""}, {"x-bridge": SECRET[:-1]}):
                    for body in (b"", b"junk", json.dumps(GOOD).encode()):
                        reply = await client.post(path, content=body, headers=headers)
                        told.setdefault(kind, set()).add(
                            f"{reply.status_code} {reply.content!r} {varying(reply.headers)}"
                        )
                for method in ("GET", "HEAD"):
                    reply = await client.request(method, path, headers=proof())
                    assert reply.status_code == 404
                    told[kind].add(f"{method} {reply.content!r} {varying(reply.headers)}")
        assert len({frozenset(one) for one in told.values()}) == 1
        assert len(told["live"]) == 3  # one POST, one GET, one HEAD
        assert any("401" in one and "webhook verification failed" in one for one in told["live"])
        assert asked == 0
        # With it the door tells what there is to tell.
        async with e.anonymous() as client:
            statuses = {
                kind: (await client.post(path, json=GOOD, headers=proof())).status_code
                for kind, path in paths.items()
                if kind != "live"
            }
            again = await client.post(paths["answered"], json={"anything": 1}, headers=proof())
            assert again.json() == {"data": {"status": "already_answered"}}
        assert statuses.pop("answered") == 200
        assert set(statuses.values()) == {404}
        await live.end()


class Panic(BaseException):
    """As libraries raise that are written in Rust: no Exception."""


@pytest.mark.parametrize("error", [Panic, SystemExit])
async def test_a_verifier_that_panics_is_a_fault_with_an_id(
    database_url: str,
    secret: None,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    error: type[BaseException],
) -> None:
    async def panic(*_: object) -> None:
        raise error(SECRET)

    async def deep(*_: object) -> None:
        raise Panic(SECRET)

    async with outside(database_url) as (e, system):
        asked = await e.call("bound", {})
        async with e.anonymous() as client:
            with monkeypatch.context() as patched:
                patched.setattr(SharedSecret, "verify", panic)
                reply = await client.post(system.door, json=GOOD, headers=proof())
            assert (reply.status_code, reply.json()["error"]) == (500, "webhook verification error")
            assert reply.json()["id"] == reply.headers["x-request-id"]
            assert SECRET not in reply.text
            logged = [line for line in capfd.readouterr().err.splitlines() if reply.json()["id"] in line]
            assert any("a callback could not be verified" in line for line in logged), logged
            # And where nothing expects one, as deep inside as that may be.
            with monkeypatch.context() as patched:
                patched.setattr(Verifiers, "verify", deep)
                reply = await client.post(system.door, json=GOOD, headers=proof())
            assert (reply.status_code, reply.json()["code"]) == (500, "internal")
            assert reply.json()["id"] == reply.headers["x-request-id"]
            assert (await client.post(system.door, json=GOOD, headers=proof())).status_code == 200
        await asked.call


async def test_a_verifier_that_cannot_run_is_a_fault_even_when_answered(
    database_url: str, secret: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outside(database_url) as (e, system):
        asked = await e.call("bound", {})
        monkeypatch.delenv("BRIDGE_SECRET")
        async with e.anonymous() as client:
            for _ in range(2):
                reply = await client.post(system.door, json=GOOD, headers=proof())
                assert reply.status_code == 500
                assert reply.json()["error"] == "webhook verification error"
                assert reply.json()["id"]
                assert "BRIDGE_SECRET" not in reply.text
                assert (await client.get(system.door)).status_code == 404
                if not asked.call.done():
                    assert await e.state(asked.id) == "pending"
                    monkeypatch.setenv("BRIDGE_SECRET", SECRET)
                    assert (await client.post(system.door, json=GOOD, headers=proof())).status_code == 200
                    await result(asked)
                    monkeypatch.delenv("BRIDGE_SECRET")


async def test_a_caller_ask_is_not_answered_here(database_url: str) -> None:
    async with outside(database_url) as (e, _):
        asked, path = await with_ticket(e, answer_format="confirm")
        await e.node.database.execute(
            "UPDATE rejoinder.question SET to_kind = 'caller' WHERE id::text = $1", asked.id
        )
        async with e.anonymous() as client:
            assert (await client.post(path, json={"answer": True})).status_code == 409
            assert (await client.get(path)).text == "Not Found"
        await asked.end()


# Answers that a channel forwards


CHANNEL_BODIES: list[tuple[dict[str, Any], Any, Any]] = [
    ({"answer_format": "text"}, {"answer": "hello"}, "hello"),
    ({"answer_format": "confirm"}, {"answer": False}, False),
    ({"answer_format": "confirm"}, None, True),
    ({"answer_format": "select", "options": ["a", "b"]}, {"answer": "b"}, "b"),
    (
        {"answer_format": "form", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        {"answer": {"n": 3}},
        {"n": 3},
    ),
]


async def test_channel_bodies(database_url: str) -> None:
    async with outside(database_url) as (e, _), e.anonymous() as client:
        for asked, body, value in CHANNEL_BODIES:
            question, path = await with_ticket(e, **asked)
            reply = await client.post(path, content=b"" if body is None else json.dumps(body))
            assert reply.json() == {"data": {"interaction_id": question.id, "status": "answered"}}
            assert await result(question) == {"answer": value, "reply_to": None, "params": None}


async def test_what_a_channel_tells_beside_the_answer_reaches_the_asker(database_url: str) -> None:
    params = {f"media_{i}": "x" * 20 for i in range(16)}
    async with outside(database_url) as (e, _):
        question, path = await with_ticket(e, answer_format="confirm")
        body = {"answer": True, "params": params, "medium_message_id": "7", "reply_to_medium_message_id": "6"}
        async with e.anonymous() as client:
            assert (await client.post(path, json=body)).status_code == 200
        kept = await e.node.database.value(
            "SELECT reply FROM rejoinder.question WHERE id::text = $1", question.id
        )
        assert kept["message_id"] == "7"
        assert await result(question) == {
            "answer": True,
            "reply_to": {"message_id": "6", "status": "not_found", "text": None},
            "params": params,
        }


BAD_CHANNEL_BODIES: list[tuple[Any, str]] = [
    ({}, "answer"),
    ([], "body"),
    ({"answer": True, "more": 1}, "body"),
    ({"answer": True, "params": []}, "params"),
    ({"answer": True, "params": {str(i): "" for i in range(17)}}, "params"),
    ({"answer": True, "params": {"a b": ""}}, "params"),
    ({"answer": True, "params": {"": ""}}, "params"),
    ({"answer": True, "params": {"a" * 65: ""}}, "params"),
    ({"answer": True, "params": {"a": 1}}, "params"),
    ({"answer": True, "params": {"a": "x" * 513}}, "params"),
    ({"answer": True, "params": {"a": "\x00"}}, "params"),
    ({"answer": True, "params": {str(i): "x" * 500 for i in range(5)}}, "params"),
    ({"answer": True, "medium_message_id": 1}, "medium_message_id"),
    ({"answer": True, "reply_to_medium_message_id": ""}, "reply_to_medium_message_id"),
    ({"answer": True, "reply_to_medium_message_id": "x" * 513}, "reply_to_medium_message_id"),
]


async def test_a_channel_is_told_to_ask_again_in_place(database_url: str) -> None:
    async with outside(database_url) as (e, _):
        question, path = await with_ticket(e, answer_format="confirm")
        async with e.anonymous() as client:
            for body, field in BAD_CHANNEL_BODIES:
                reply = await client.post(path, json=body)
                assert (reply.status_code, reply.json().get("field")) == (400, field), (body, reply.text)
                assert reply.json()["retry_in_place"] is True
            reply = await client.post(path, json={"answer": "yes"})
            assert reply.json() == {
                "error": "answer must be a boolean",
                "code": "answer-mismatch",
                "retry_in_place": True,
            }
        await question.end()
        form, path = await with_ticket(
            e,
            answer_format="form",
            schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        )
        async with e.anonymous() as client:
            reply = await client.post(path, json={"answer": {"n": "x"}})
            assert reply.json()["field"] == "n"
            assert set(reply.json()["errors"]) == {"n"}
            assert (await client.post(path, content=b"")).status_code == 400
        await form.end()


# Once


async def test_of_twenty_racing_callbacks_one_wins(database_url: str, secret: None) -> None:
    async with outside(database_url) as (e, system):
        for name in ("checked", "bound"):
            asked = await e.call(name, {})
            async with e.anonymous() as client:
                replies = await asyncio.gather(
                    *(
                        client.post(
                            system.door, json=GOOD | {"count": i}, headers=proof(**{"x-forwarded": str(i)})
                        )
                        for i in range(20)
                    )
                )
            said = [reply.json()["data"]["status"] for reply in replies]
            assert sorted(said) == ["already_answered"] * 19 + ["answered"]
            assert (await result(asked))["answer"]["count"] == said.index("answered")
    await assert_sound(database_url)


async def test_a_delivery_counts_once_whatever_ticket_it_comes_with(database_url: str, secret: None) -> None:
    verifier = {
        "verifier": "shared_secret",
        "config": {"header": "X-Bridge", "secret_env": "BRIDGE_SECRET", "id_header": "X-Id"},
    }
    async with outside(database_url) as (e, system):
        once = system.tool("once", verifier=verifier)
        e.node.registry.add(once)
        first = await e.call("once", {})
        first_door = system.door
        second = await e.call("once", {})
        second_door = system.door
        async with e.anonymous() as client:
            # What did not fit has not counted.
            assert (
                await client.post(first_door, content=b"[]", headers=proof(**{"x-id": "1"}))
            ).status_code == 400
            replies = await asyncio.gather(
                *(
                    client.post(door, json=GOOD, headers=proof(**{"x-id": "1"}))
                    for door in [first_door, second_door] * 5
                )
            )
            said = [reply.json()["data"]["status"] for reply in replies]
            assert said.count("answered") == 1
            assert said.count("already_answered") == 4
            assert said.count("already_seen") == 5
            assert (
                await client.post(first_door, json=GOOD, headers=proof())
            ).status_code == 401  # no id, no proof
            states = {await e.state(one.id) for one in (first, second)}
            assert states == {"answered", "pending"}
            for door in (first_door, second_door):
                await client.post(door, json=GOOD, headers=proof(**{"x-id": "2"}))
        await result(first)
        await result(second)
    await assert_sound(database_url)


async def test_two_systems_may_number_their_deliveries_alike(
    database_url: str, secret: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_SECRET", "another")
    async with outside(database_url) as (e, system):
        for name, variable, value in (("one", "BRIDGE_SECRET", SECRET), ("two", "OTHER_SECRET", "another")):
            config = {"header": "X-Bridge", "secret_env": variable, "id_header": "X-Id"}
            e.node.registry.add(system.tool(name, verifier={"verifier": "shared_secret", "config": config}))
            asked = await e.call(name, {})
            async with e.anonymous() as client:
                reply = await client.post(system.door, json=GOOD, headers={"x-bridge": value, "x-id": "1"})
            assert reply.json()["data"]["status"] == "answered"
            await result(asked)


async def test_a_delivery_is_forgotten_to_the_second(
    database_url: str, secret: None, clock: MovableClock
) -> None:
    verifier = {
        "verifier": "shared_secret",
        "config": {
            "header": "X-Bridge",
            "secret_env": "BRIDGE_SECRET",
            "id_header": "X-Id",
            "replay_window_seconds": 60,
        },
    }
    async with outside(database_url) as (e, system):
        e.node.registry.add(system.tool("once", verifier=verifier))
        await clock.hold()
        asked = await e.call("once", {})
        async with e.anonymous() as client:
            await client.post(system.door, json=GOOD, headers=proof(**{"x-id": "1"}))
            await result(asked)
            asked = await e.call("once", {})
            await clock.advance(59.999)
            reply = await client.post(system.door, json=GOOD, headers=proof(**{"x-id": "1"}))
            assert reply.json()["data"]["status"] == "already_seen"
            assert await e.node.tickets.prune() == 0
            await clock.advance(0.001)
            reply = await client.post(system.door, json=GOOD, headers=proof(**{"x-id": "1"}))
            assert reply.json()["data"]["status"] == "answered"
            await clock.advance(59.999)
            assert await e.node.tickets.prune() == 0
            await clock.advance(0.001)
            assert await e.node.tickets.prune() == 1
        await result(asked)


async def test_an_answer_stays_answered_for_the_idle_time(database_url: str, clock: MovableClock) -> None:
    async with outside(database_url, interactions_idle_ttl_seconds=100) as (e, system):
        await clock.hold()
        asked = await e.call("sign", {})
        async with e.anonymous() as client:
            await client.post(system.door, json=GOOD)
            await result(asked)
            await clock.advance(100)
            assert (await client.post(system.door, json=GOOD)).json()["data"]["status"] == "already_answered"
            assert (await client.get(system.door)).status_code == 200
            await clock.advance(0.001)
            assert (await client.post(system.door, json=GOOD)).status_code == 404


async def test_the_deadline_decides_to_the_millisecond(database_url: str, clock: MovableClock) -> None:
    async with outside(database_url) as (e, system):
        await clock.hold()
        first = await e.call("sign", {})
        door = system.door
        second = await e.call("sign", {})
        await clock.advance(3599.999)
        async with e.anonymous() as client:
            assert (await client.post(door, json=GOOD)).status_code == 200
            await clock.advance(0.001)
            assert (await client.post(system.door, json=GOOD)).status_code == 404
        await result(first)
        assert (await asyncio.wait_for(second.call, 20)).status_code == 504


async def test_a_sensitive_answer_is_kept_nowhere(database_url: str) -> None:
    async with outside(database_url) as (e, system):
        from rejoinder import ask, tool

        @tool
        async def secret_sign() -> int:
            answer = await ask("?", answer_format="external", link=system.page, sensitive=True)
            return len(answer.answer.reveal()["code"])

        e.node.registry.add(secret_sign)
        asked = await e.call("secret_sign", {})
        async with e.anonymous() as client:
            await client.post(system.door, json={"code": "zqxj"})
        assert await result(asked) == 4
        kept = await e.node.database.value(
            "SELECT q::text FROM rejoinder.question q WHERE id::text = $1", asked.id
        )
        assert "zqxj" not in kept


async def test_the_inbox_door_refuses_an_external_answer(database_url: str) -> None:
    async with outside(database_url) as (e, system):
        asked = await e.call("sign", {})
        reply = await e.owner.post(f"/api/interactions/{asked.id}/answer", json={"answer": GOOD})
        assert reply.status_code == 400
        assert reply.json()["error"] == "external interactions are answered via their callback URL"
        await asked.end()
        assert system.urls


async def test_a_delivery_to_nobody_has_not_counted(database_url: str, secret: None) -> None:
    """A race that the answer loses leaves no claim behind."""
    async with outside(database_url) as (e, _):
        done = await e.node.tickets.answer(
            uuid4(),
            by="x",
            via="callback",
            answer={},
            sealed=None,
            digest=b"",
            reply=None,
            delivery=b"1",
            window=60,
        )
        assert done.status == "closed"
        assert await e.node.database.value("SELECT count(*) FROM rejoinder.seen_delivery") == 0
        assert LOCAL_OWNER.name
