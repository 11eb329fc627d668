"""Attacks on the callback door: whoever fetches, repeats, forges, floods it with junk or listens at its walls."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import io
import itertools
import json
import logging
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
import stripe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rejoinder import ask, tool
from rejoinder.asks.tickets import TicketOffice
from rejoinder.contract.identity import Identity
from rejoinder.contract.verifiers import Binding
from rejoinder.observe import logs
from tests.abuse.test_doors import BODIES, HEADERS, MARK, changes
from tests.integration.core.support import assert_sound
from tests.integration.doors.edge import Edge
from tests.integration.external.outside import (
    DOOR,
    GOOD,
    SCHEMA,
    SECRET,
    VARIABLE,
    outside,
    proof,
    result,
    with_ticket,
)
from tests.integration.web.browser import signed_in
from tests.support import MovableClock

OWNER = Identity(name="owner", grants=frozenset(("read", "write", "admin")))

AGENTS = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile Safari/604.1",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "Slack-ImgProxy (+https://api.slack.com/robots)",
    "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "WhatsApp/2.24.20 A",
    "TelegramBot (like TwitterBot)",
    "Twitterbot/1.0",
    "Discordbot/2.0 (+https://discordapp.com)",
    "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
    "SkypeUriPreview Preview/0.5",
    "Microsoft Office/16.0 (Microsoft Outlook 16.0)",
    "Mozilla/5.0 (compatible; Barracuda Sentinel)",
    "Mimecast-URL-Protect",
    "ProofpointURLDefense",
    "curl/8.5.0",
    "python-requests/2.32",
    "",
]
PREFETCHING = [
    {},
    {"purpose": "prefetch"},
    {"sec-purpose": "prefetch;prerender"},
    {"x-purpose": "preview"},
    {"x-moz": "prefetch"},
    {"sec-fetch-mode": "navigate", "sec-fetch-user": "?1", "sec-fetch-site": "none"},
    {"x-http-method-override": "POST", "x-method-override": "POST"},
]


async def test_fetching_changes_nothing_whoever_fetches(database_url: str, secret: None) -> None:
    async with outside(database_url) as (e, system):
        kept, paths = [], []
        for name in ("sign", "checked", "bound"):
            kept.append(await e.call(name, {}))
            paths.append(system.door)
        for asked in ({"answer_format": "confirm"}, {"answer_format": "form", "schema": SCHEMA}):
            question, path = await with_ticket(e, **asked)
            kept.append(question)
            paths.append(path)
        before = await changes(e)
        async with e.anonymous() as client:
            for path, agent, extra in itertools.product(paths, AGENTS, PREFETCHING):
                query = "?decision=confirmed&_method=POST&answer=true"
                for method in ("HEAD", "GET"):
                    reply = await client.request(method, path + query, headers={"user-agent": agent, **extra})
                    assert reply.status_code in (200, 404)
            for path, method in itertools.product(
                paths, ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
            ):
                reply = await client.request(method, path, json=GOOD, headers=proof())
                assert reply.status_code == 405
        assert await changes(e) == before
        for question in kept:
            await question.end()
    await assert_sound(database_url)


async def test_junk_with_a_good_ticket_and_a_good_secret(database_url: str, secret: None) -> None:
    async with outside(database_url) as (e, system):
        kept, targets = [], []
        for name in ("checked", "bound"):
            kept.append(await e.call(name, {}))
            targets.append(system.door)
        question, path = await with_ticket(e, answer_format="confirm")
        kept.append(question)
        targets.append(path)
        before = await changes(e)
        async with e.anonymous() as client:
            for target, body in itertools.product(targets, BODIES):
                if target == path and not body:
                    continue  # a plain yes
                for kind in (
                    "application/json",
                    "application/x-www-form-urlencoded",
                    "multipart/form-data; boundary=b",
                ):
                    reply = await client.post(target, content=body, headers=proof(**{"content-type": kind}))
                    assert 400 <= reply.status_code < 500, (target[:40], body[:40], kind, reply.text)
                    quiet(reply)
            for target, headers in itertools.product(targets, HEADERS):
                merged = {b"x-bridge": SECRET.encode()} | headers
                reply = await client.request("POST", target, content=b"[]", headers=merged)
                assert 400 <= reply.status_code < 500
                quiet(reply)
        assert await changes(e) == before
        for question in kept:
            await question.end()


async def test_junk_without_the_secret(database_url: str, secret: None) -> None:
    junk: list[bytes] = [
        b"", b"\x00", b"\xff" * 20, b"wrong", SECRET.encode()[:-1], SECRET.encode() + b" x", SECRET.upper().encode(),
        b"x" * 50_000, b"' OR 1=1", "пароль".encode(),
    ]  # fmt: skip
    async with outside(database_url) as (e, system):
        asked = await e.call("bound", {})
        before = await changes(e)
        async with e.anonymous() as client:
            for value, body in itertools.product(
                junk, [b"", json.dumps(GOOD).encode(), b"\xff", b"[" * 1000]
            ):
                reply = await client.post(system.door, content=body, headers={b"x-bridge": value})
                assert reply.status_code == 401
                quiet(reply)
            twice = [(b"x-bridge", SECRET.encode()), (b"x-bridge", SECRET.encode())]
            assert (await client.post(system.door, json=GOOD, headers=twice)).status_code == 401
        assert await changes(e) == before
        await asked.end()


def quiet(reply: httpx2.Response) -> None:
    for inner in (MARK, "Traceback", "<class", "Error(", "asyncpg", "/src/", SECRET, VARIABLE):
        assert inner not in reply.text, reply.text


async def test_a_flood_at_one_ticket_locks_nobody_else_out(database_url: str, secret: None) -> None:
    """Everybody here comes from one address, as behind one proxy of an office."""
    async with outside(database_url, tai_rate_limit_families={}) as (e, system):
        e.app.state.flood._now = lambda: 1_900_000_020.0  # the windows do not turn meanwhile
        e.app.state.flood.windows._now = e.app.state.flood._now
        doors = {}
        kept = []
        for name in ("sign", "bound", "checked"):
            kept.append(await e.call(name, {}))
            doors[name] = system.door
        async with e.anonymous() as client:
            for junk in (DOOR + "x" * 58, doors["sign"], doors["bound"]):
                said = [(await client.post(junk, content=b"[]")).status_code for _ in range(14)]
                assert said[-1] == 429
                assert 429 not in said[:10]
            assert (await client.post(doors["checked"], json=GOOD)).status_code == 200
            assert (await client.post(doors["bound"], json=GOOD, headers=proof())).status_code == 429
        await result(kept.pop())
        for one in kept:
            await one.end()


# Tickets that nobody was given


async def test_no_change_of_a_ticket_is_a_ticket(database_url: str, secret: None) -> None:
    async with outside(database_url) as (e, system):
        kept, tickets = [], []
        for name in ("sign", "bound"):
            kept.append(await e.call(name, {}))
            tickets.append(system.ticket)
        async with e.anonymous() as client:
            for ticket in tickets:
                forged = {
                    ticket[:-1],
                    ticket + "A",
                    ticket + "=",
                    ticket.swapcase(),
                    ticket[::-1],
                    ticket[1:],
                    ticket * 40,
                }
                for place in range(0, len(ticket), 7):
                    forged.add(ticket[:place] + ("A" if ticket[place] != "A" else "B") + ticket[place + 1 :])
                for one in forged:
                    assert await e.node.office.open(one) is None  # nothing is looked up for it
                    reply = await client.post(DOOR + one, json=GOOD, headers=proof())
                    assert (reply.status_code, reply.json()["code"]) == (404, "not-found"), one
                for spelled in (f"%{ord(ticket[0]):02X}{ticket[1:]}",):
                    # The same ticket, written otherwise: the same answer.
                    assert (
                        await client.post(DOOR + spelled, content=b"[]", headers=proof())
                    ).status_code == 400
        assert {await e.state(asked.id) for asked in kept} == {"pending"}
        for asked in kept:
            await asked.end()


class NoKeys:
    async def get(self, _number: int) -> bytes | None:
        return b"k" * 32

    def known(self, _number: int) -> bytes | None:
        return b"k" * 32

    async def current(self) -> tuple[int, bytes]:
        return 1, b"k" * 32


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=200) | st.binary(max_size=300).map(lambda b: base64.urlsafe_b64encode(b).decode()))
def test_any_text_is_opened_or_refused(text: str) -> None:
    office = TicketOffice(NoKeys())  # type: ignore[arg-type]
    assert asyncio.run(office.open(text)) is None
    assert not office.knows(text)


@given(
    st.text(max_size=60),
    st.dictionaries(st.text(max_size=20), st.text(max_size=40) | st.integers(), max_size=4),
)
def test_a_ticket_says_what_was_sealed_in_it(name: str, config: dict[str, Any]) -> None:
    office = TicketOffice(NoKeys())  # type: ignore[arg-type]

    async def there_and_back() -> None:
        binding = Binding(name, config)
        ticket = await office.make(binding)
        opened = await office.open(ticket)
        assert opened is not None
        assert opened.binding == binding
        assert ticket != await office.make(binding)
        assert office.knows(ticket)

    try:
        json.dumps(config).encode()
        name.encode()
    except UnicodeEncodeError:
        return
    asyncio.run(there_and_back())


# Deliveries of Stripe's own making


def signed(body: str, at: float | None = None, secret: str = SECRET) -> dict[str, str]:
    made = stripe.WebhookSignature.generate_signature_header(body, secret, None if at is None else int(at))
    return {"stripe-signature": made}


async def test_deliveries_of_stripe(database_url: str, secret: None, clock: MovableClock) -> None:
    verifier = {"verifier": "stripe", "config": {"secret_env": VARIABLE}}
    body = json.dumps({"id": "evt_1", "type": "done", **GOOD})
    async with outside(database_url) as (e, system):
        e.node.registry.add(system.tool("pay", verifier=verifier))
        await clock.hold()
        first, first_door = await e.call("pay", {}), system.door
        second, second_door = await e.call("pay", {}), system.door
        async with e.anonymous() as client:

            async def sent(door: str, content: str, headers: dict[str, str]) -> Any:
                reply = await client.post(door, content=content, headers=headers)
                return reply.status_code if reply.status_code != 200 else reply.json()["data"]["status"]

            old = time.time() - 301
            assert await sent(first_door, body, signed(body, old)) == 401
            assert await sent(first_door, body + " ", signed(body)) == 401
            assert await sent(first_door, body, signed(body, secret="another")) == 401
            assert await sent(f"{first_door}?decision=confirmed", "", signed("")) == 401  # no event, so no id
            assert (await client.get(first_door, headers=signed(""))).status_code == 404
            captured = signed(body)
            said = await asyncio.gather(*(sent(first_door, body, captured) for _ in range(5)))
            assert sorted(said) == ["already_answered"] * 4 + ["answered"]
            # Captured, and sent to another question that the same system guards: it has counted.
            assert await sent(second_door, body, captured) == "already_seen"
            assert await sent(second_door, body, signed(body)) == "already_seen"
            odd = body.replace("evt_1", "\\ud800")
            assert await sent(second_door, odd, signed(odd)) == 400  # half of a character is no text to keep
            assert await e.state(second.id) == "pending"
            other = body.replace("evt_1", "evt_2")
            assert await sent(second_door, other, signed(other)) == "answered"
        assert (await result(first))["answer"]["id"] == "evt_1"
        assert (await result(second))["answer"]["id"] == "evt_2"
    await assert_sound(database_url)


async def test_a_signed_door_takes_no_query(database_url: str, secret: None) -> None:
    verifier = {"verifier": "github", "config": {"secret_env": VARIABLE}}
    async with outside(database_url) as (e, system):
        e.node.registry.add(system.tool("push", verifier=verifier))
        asked = await e.call("push", {})
        headers = {
            "x-hub-signature-256": "sha256=" + hmac.new(SECRET.encode(), b"", hashlib.sha256).hexdigest()
        }
        async with e.anonymous() as client:
            reply = await client.post(f"{system.door}?decision=confirmed", headers=headers)
            assert reply.status_code == 400
            assert reply.json()["error"] == "verified callback requires a signed request body"
        assert await e.state(asked.id) == "pending"
        await asked.end()


# Listening at the walls


@pytest.fixture
def log_lines() -> Iterator[io.StringIO]:
    """All that is logged, at the most talkative level, as an operator would have it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    logs.configure("debug", "json")
    heard = io.StringIO()
    for handler in root.handlers:
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(heard)
    yield heard
    logs.configure("info", "text")
    root.handlers[:] = handlers
    root.setLevel(level)


async def test_a_ticket_is_told_to_nobody(database_url: str, secret: None, log_lines: io.StringIO) -> None:
    """Through a whole life of questions, and every surface that others read: lists, streams, pages, trail, metrics,
    logs at their most talkative, and every row of the database."""
    async with outside(database_url) as (e, system):

        @tool
        async def blurts() -> None:
            async def link(url: str) -> str:
                system.urls.append(url)
                raise RuntimeError(
                    f"cannot reach {url} nor https://x.example/?next={url.replace('/', '%2F')}"
                )

            await ask("?", answer_format="external", link=link)

        e.node.registry.add(blurts)
        heard: list[bytes] = []

        async def listen() -> None:
            async with e.node.tail.subscribe(OWNER, None) as (_, subscriber):
                ready.set()
                while True:
                    heard.append(await subscriber.next(20) or b"")

        ready = asyncio.Event()
        listening = asyncio.create_task(listen())
        await ready.wait()
        await e.owner.post("/api/run-tool", json={"tool_name": "blurts", "arguments": {}})
        kept = [await e.call(name, {}) for name in ("sign", "checked", "bound")]
        texts = [await surfaces(e, one.id) for one in kept]
        async with e.anonymous() as client:
            for url in system.urls:
                path = urlsplit(url).path
                knocks = itertools.product((b"junk", b"[]", json.dumps(GOOD).encode()), ({}, proof()))
                texts += [(await client.post(path, content=body, headers=sent)).text for body, sent in knocks]
                texts.append((await client.get(path)).text)
        for one in kept:
            await result(one)
        texts += [await surfaces(e, one.id) for one in kept]
        texts.append(await rows(e))
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        told = "\n".join(texts) + b"".join(heard).decode()
        logged = log_lines.getvalue()
        assert "cannot reach" in logged  # the log was listened to
        assert "Sign the contract?" in told
        for url in system.urls:
            ticket = url.rpartition("/")[2]
            for place, text in (("surface", told), ("log", logged)):
                assert ticket not in text, place
                assert ticket[4:40] not in text, place


async def surfaces(e: Edge, identifier: str) -> str:
    run = await e.node.database.value("SELECT run_id FROM rejoinder.question WHERE id::text = $1", identifier)
    doors = [
        "/api/interactions",
        "/api/interactions/pending",
        f"/api/interactions/{identifier}",
        "/api/audit?limit=1000",
        "/api/tool-runs",
        f"/api/tool-runs/{run}",
        "/api/tools",
        "/metrics",
        "/openapi.json",
    ]
    question = f"/inbox/{identifier}"
    pages = ["/inbox", "/inbox/queue", question, f"{question}/pane", "/runs", f"/runs/{run}", "/audit"]
    found = [(await e.owner.get(path)).text for path in doors]
    async with signed_in(e.node, f"reader-{len(await e.node.access.keys())}") as browser:
        found += [(await browser.http.get(path)).text for path in pages]
    return "\n".join(found)


async def rows(e: Edge) -> str:
    names = await e.node.database.rows("SELECT tablename AS t FROM pg_tables WHERE schemaname = 'rejoinder'")
    found = []
    for row in names:
        found += [
            str(r["t"])
            for r in await e.node.database.rows(f"SELECT t::text AS t FROM rejoinder.{row['t']} AS t")
        ]
    return "\n".join(found)
