"""Floods at the public doors: each is limited, for all processes together, and nobody else pays for it."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from rejoinder.access.declared import keeps_own_gate, open_to_all
from rejoinder.contract.errors import ConfigurationError, NotReadyError
from rejoinder.contract.settings import Settings
from rejoinder.doors import app as application
from rejoinder.doors.admission import grant_of
from rejoinder.doors.clients import Clients
from rejoinder.doors.flood import TICKET, Flood, family_of
from rejoinder.doors.problems import problem_of, render
from rejoinder.doors.windows import Windows
from rejoinder.store.database import Database
from rejoinder.store.flood import Hit, Hits
from tests.abuse.test_doors import ID, filled
from tests.integration.doors.edge import Edge, edge

PEER = ("203.0.113.9", 4711)


class Watch:
    """A clock that stands still, at the beginning of a minute."""

    def __init__(self) -> None:
        self.now = 1_900_000_020.0

    def __call__(self) -> float:
        return self.now


def flood_of(database: Database, watch: Watch, **settings: Any) -> Flood:
    return Flood(Hits(database), Settings.load(**settings), now=watch)


async def fine(request: Request) -> Response:
    return PlainTextResponse("fine")


def caller(route: Route, host: str = PEER[0]) -> httpx2.AsyncClient:
    """A client at this address, with the route in front of it and refusals worded as the application words them."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await route(scope, receive, send)
        except Exception as error:
            problem = problem_of(error, "x")
            assert problem is not None
            status, headers, content = render(problem)
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": content})

    transport = httpx2.ASGITransport(app=app, client=(host, 1))
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1")


def stand_still(e: Edge) -> None:
    """No window ends while a test counts."""
    e.app.state.flood._now = e.app.state.flood.windows._now = Watch()


async def until_refused(
    client: httpx2.AsyncClient, path: str, most: int = 1_000
) -> tuple[int, httpx2.Response]:
    """How many requests were let in, and the first refusal."""
    for count in range(most):
        reply = await client.get(path)
        if reply.status_code == 429:
            return count, reply
    raise AssertionError(f"{most} requests and no refusal")


# What is limited


def public_routes(e: Edge) -> list[Route]:
    return [r for r in e.app.routes if isinstance(r, Route) and grant_of(r) == "public"]


async def test_every_route_open_to_all_says_so_and_is_limited(database_url: str) -> None:
    async with edge(database_url, tai_rate_limit_default_burst=3) as e:
        stand_still(e)
        anonymous = e.anonymous(accept="*/*")
        for route in e.app.routes:
            assert isinstance(route, Route)
            path = filled(route.path, ID)
            for method in sorted(route.methods or {"POST"}):
                reply = await anonymous.request(method, path)
                to_sign_in = reply.headers.get("location", "").startswith("/sign-in")
                let_in = reply.status_code != 401 and not to_sign_in
                if grant_of(route) != "public":
                    assert not let_in, (
                        f"{method} {route.path} lets everybody in and does not declare itself public"
                    )
        for route in public_routes(e):
            replies = [await anonymous.get(filled(route.path, ID)) for _ in range(31)]
            assert replies[-1].status_code in (429, 405), f"{route.path} is public and not limited"


async def test_doors_behind_the_gate_are_never_limited(database_url: str) -> None:
    async with edge(database_url, tai_rate_limit_default_limit=1, tai_rate_limit_default_burst=1) as e:
        stand_still(e)
        for _ in range(20):
            assert (await e.owner.get("/api/interactions")).status_code == 200
        assert await e.node.database.value("SELECT count(*) FROM rejoinder.flood") == 0


async def test_the_refusal_says_when_and_head_counts_with_get(database_url: str) -> None:
    async with edge(database_url, tai_rate_limit_default_burst=4) as e:
        stand_still(e)
        anonymous = e.anonymous()
        for method in ("GET", "HEAD", "GET", "HEAD"):
            assert (await anonymous.request(method, "/health")).status_code == 200
        reply = await anonymous.get("/health")
        assert (reply.status_code, reply.json()["error"]) == (429, "rate limit exceeded")
        assert 1 <= int(reply.headers["retry-after"]) <= 10
        assert reply.headers["cache-control"] == "no-store"
        assert (await anonymous.head("/health")).status_code == 429
        # A family by itself: the others are as they were.
        assert (await anonymous.get("/ready")).status_code == 200
        assert b'rejoinder_requests_limited_total{family="health"}' in (await e.owner.get("/metrics")).content


async def test_a_person_is_told_on_a_page(database_url: str) -> None:
    one = {"burst": 1}
    async with edge(
        database_url, tai_rate_limit_families={"sign_in": one, "interactions_callback": one}
    ) as e:
        stand_still(e)
        anonymous = e.anonymous(accept="text/html,*/*")
        for path in ("/sign-in?token=zqxj", "/api/interactions/callback/zqxj"):
            assert (await anonymous.get(path)).status_code in (200, 404)
            reply = await anonymous.get(path)
            assert reply.status_code == 429
            assert reply.headers["content-type"].startswith("text/html")
            assert "zqxj" not in reply.text
            assert reply.headers["retry-after"] in reply.text
            assert "<html lang=en>" in reply.text
            german = await anonymous.get(path, headers={"accept-language": "de-AT, en;q=0.5"})
            assert (german.status_code, german.headers["retry-after"] in german.text) == (429, True)
            assert "<html lang=de>" in german.text
            assert "Aus Ihrem Netz" in german.text
            assert (await anonymous.head(path)).status_code == 429


@pytest.mark.parametrize(
    ("path", "family"),
    [
        ("/api/interactions/callback/{ticket}", "interactions_callback"),
        ("/api/interactions/callback/{ticket}/react", "interactions_callback"),
        ("/api/interactions/media/{id}", "interactions_media"),
        ("/universal_webhook/{topic}", "universal_webhook"),
        ("/trigger/{token}", "trigger"),
        ("/sign-in", "sign_in"),
        ("/openapi.json", "openapi_json"),
        ("/", "home"),
        ("/api/{id}", "home"),
    ],
)
def test_a_family_is_a_paths_stem(path: str, family: str) -> None:
    assert family_of(path) == family


# Budgets


def opened(path: str = "/door/{ticket}", budget: tuple[int, int] | None = None) -> Route:
    return open_to_all(Route(path, fine, methods=["GET"]), budget)


async def test_both_windows_count_and_begin_anew(database: Database) -> None:
    watch, route = Watch(), opened(budget=(7, 3))
    flood_of(database, watch).protect([route])
    async with caller(route) as client:
        let_in, reply = await until_refused(client, "/door/a")
        assert (let_in, reply.headers["retry-after"]) == (3, "10")
        watch.now += 9.5
        assert (await client.get("/door/a")).headers["retry-after"] == "1"
        watch.now += 0.5
        assert (await until_refused(client, "/door/a"))[0] == 3
        watch.now += 10
        let_in, reply = await until_refused(client, "/door/a")
        assert (let_in, reply.headers["retry-after"]) == (1, "40")
        watch.now += 40
        assert (await until_refused(client, "/door/a"))[0] == 3


async def test_what_an_operator_sets_counts(database: Database) -> None:
    settings = {"tai_rate_limit_families": {"DOOR": {"limit": 5, "burst": 5}, "window": {"burst": 1}}}
    door, window = opened(budget=(60, 10)), opened("/window", budget=(60, 10))
    other = opened("/other")
    flood = flood_of(database, Watch(), tai_rate_limit_default_burst=2, **settings)
    assert flood.protect([door, window, other]) == {"door": (5, 5), "window": (60, 1), "other": (600, 2)}


async def test_two_doors_of_one_family_agree_or_nothing_starts(database: Database) -> None:
    flood = flood_of(database, Watch())
    assert flood.protect([opened("/a/b/{x}", (60, 10)), opened("/a/b/{x}/c")]) == {"a_b": (60, 10)}
    with pytest.raises(ConfigurationError, match=r"/a/b/\{x\}/c"):
        flood.protect([opened("/a/b/{x}", (60, 10)), opened("/a/b/{x}/c", (61, 10))])


async def test_an_override_opens_no_door(database: Database) -> None:
    guarded = keeps_own_gate(Route("/inside", fine, methods=["GET"]))
    before = guarded.app
    flood = flood_of(database, Watch(), tai_rate_limit_families={"inside": {"limit": 1, "burst": 1}})
    assert flood.protect([guarded]) == {}
    assert guarded.app is before
    assert grant_of(guarded) == "own"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TAI_RATE_LIMIT_DEFAULT_LIMIT", "0"),
        ("TAI_RATE_LIMIT_DEFAULT_BURST", "-1"),
        ("TAI_RATE_LIMIT_DEFAULT_ENABLED", "false"),
        ("TAI_RATE_LIMIT_FAMILIES", "{"),
        ("TAI_RATE_LIMIT_FAMILIES", '{"trigger": 5}'),
        ("TAI_RATE_LIMIT_FAMILIES", '{"trigger": {"limit": 0}}'),
        ("TAI_RATE_LIMIT_FAMILIES", '{"trigger": {"enabled": false}}'),
        ("TAI_RATE_LIMIT_FAMILIES__TRIGGER__LIMIT", "many"),
        ("TRUSTED_PROXIES", "10.0.0.0/99"),
        ("TRUSTED_HOPS", "-1"),
    ],
)
def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=name.split("__")[0]):
        Settings.load()


def test_a_family_may_be_set_name_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAI_RATE_LIMIT_FAMILIES", json.dumps({"Trigger": {"limit": 9, "burst": 3}}))
    monkeypatch.setenv("TAI_RATE_LIMIT_FAMILIES__SIGN_IN__BURST", "4")
    families = Settings.load().tai_rate_limit_families
    assert families is not None
    assert {name: (one.limit, one.burst) for name, one in families.items()} == {
        "trigger": (9, 3),
        "sign_in": (None, 4),
    }


# Who is counted


async def test_processes_count_together(database: Database) -> None:
    watch = Watch()
    floods = [flood_of(database, watch) for _ in range(3)]
    routes = [opened(budget=(60, 10)) for _ in floods]
    for flood, route in zip(floods, routes, strict=True):
        flood.protect([route])
    statuses = []
    for turn in range(30):
        async with caller(routes[turn % 3]) as client:
            statuses.append((await client.get("/door/a")).status_code)
        await floods[turn % 3].windows.settled()
    # Each learns of the others with its own first request, which it lets in.
    assert 10 <= statuses.count(200) <= 12
    assert statuses[13:] == [429] * 17
    assert await database.value("SELECT max(hits) FROM rejoinder.flood") == statuses.count(200)


async def test_a_neighbours_flood_is_its_own(database: Database) -> None:
    route = opened(budget=(60, 10))
    flood_of(database, Watch()).protect([route])
    async with caller(route, "198.51.100.7") as stranger, caller(route, "198.51.100.8") as answerer:
        assert (await until_refused(stranger, "/door/mine"))[0] == 10
        assert (await until_refused(answerer, "/door/mine"))[0] == 10


async def test_behind_one_address_a_genuine_ticket_has_a_budget_of_its_own(database: Database) -> None:
    async def endpoint(request: Request) -> Response:
        return PlainTextResponse("fine")

    def genuine(scope: Any) -> str | None:
        ticket: str = scope["path_params"]["ticket"]
        return ticket if ticket.startswith("sealed-") else None

    setattr(endpoint, TICKET, genuine)
    route = open_to_all(Route("/door/{ticket}", endpoint, methods=["GET"]), (60, 10))
    flood_of(database, Watch()).protect([route])
    async with caller(route) as client:
        refused = [(await client.get(f"/door/guess-{n}")).status_code for n in range(50)].count(429)
        assert refused == 40
        assert (await until_refused(client, "/door/sealed-theirs"))[0] == 10
        # After all that, from the same address:
        assert (await client.get("/door/sealed-mine")).status_code == 200


PROXY = "10.0.0.5"


@pytest.mark.parametrize(
    ("peer", "header", "settings", "bucket"),
    [
        ("198.51.100.7", None, {}, "198.51.100.7"),
        ("198.51.100.7", "1.2.3.4", {}, "198.51.100.7"),
        ("::ffff:198.51.100.7", None, {}, "198.51.100.7"),
        ("2001:db8:1:2:3:4:5:6", None, {}, "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", None, {}, "2001:db8:1:2::/64"),
        ("fe80::1%eth0", None, {}, "fe80::/64"),
        ("testclient", None, {}, "unknown"),
        (PROXY, "1.2.3.4", {"trusted_proxies": "10.0.0.0/8"}, "1.2.3.4"),
        (PROXY, "9.9.9.9, 1.2.3.4", {"trusted_proxies": "10.0.0.0/8"}, "1.2.3.4"),
        (PROXY, "9.9.9.9, 1.2.3.4, 10.0.0.6", {"trusted_proxies": "10.0.0.0/8"}, "1.2.3.4"),
        (
            PROXY,
            "9.9.9.9, 1.2.3.4, 10.0.0.6",
            {"trusted_proxies": "10.0.0.0/8", "trusted_hops": "1"},
            "10.0.0.6",
        ),
        ("198.51.100.7", "1.2.3.4", {"trusted_proxies": "10.0.0.0/8"}, "198.51.100.7"),
        ("198.51.100.7", "1.2.3.4", {"trusted_proxies": "10.0.0.0/8", "trusted_hops": "2"}, "198.51.100.7"),
        ("198.51.100.7", "9.9.9.9, 1.2.3.4", {"trusted_hops": "1"}, "1.2.3.4"),
        ("198.51.100.7", "9.9.9.9, 1.2.3.4, 5.6.7.8", {"trusted_hops": "2"}, "1.2.3.4"),
        (PROXY, "1.2.3.4:5678", {"trusted_proxies": PROXY}, "1.2.3.4"),
        (PROXY, "[2001:db8::7]:5678", {"trusted_proxies": PROXY}, "2001:db8::/64"),
        (PROXY, "2001:db8::7", {"trusted_proxies": PROXY}, "2001:db8::/64"),
        (PROXY, "", {"trusted_proxies": PROXY}, PROXY),
        (PROXY, "zqxj", {"trusted_proxies": PROXY}, PROXY),
        (PROXY, "1.2.3.4, zqxj", {"trusted_proxies": PROXY}, PROXY),
        (PROXY, "1.2.3.4,", {"trusted_proxies": PROXY}, PROXY),
    ],
)
def test_a_client_is_the_last_address_that_can_be_believed(
    peer: str, header: str | None, settings: dict[str, Any], bucket: str
) -> None:
    loaded = Settings.load(**settings)
    headers = [] if header is None else [(b"x-forwarded-for", header.encode())]
    scope = {"type": "http", "client": (peer, 1), "headers": headers}
    assert Clients(loaded.trusted_proxies, loaded.trusted_hops).bucket(scope) == bucket


@given(
    st.lists(st.binary(max_size=30) | st.sampled_from([b"1.2.3.4", b"10.0.0.5", b",", b"::1"]), max_size=5)
)
def test_no_header_breaks_it_or_is_believed_from_a_stranger(values: list[bytes]) -> None:
    headers = [(b"x-forwarded-for", value) for value in values]
    scope = {"type": "http", "client": PEER, "headers": headers}
    loaded = Settings.load(trusted_proxies="10.0.0.0/8", trusted_hops=3)
    assert Clients(loaded.trusted_proxies, loaded.trusted_hops).bucket(scope) == PEER[0]
    trusting = Settings.load(trusted_proxies="203.0.113.0/24,10.0.0.0/8")
    assert Clients(trusting.trusted_proxies).bucket(scope)


# When the database is away, and when there are many


class Away(Hits):
    def __init__(self) -> None:
        self.calls = 0

    async def add(self, hits: Any) -> dict[bytes, int]:
        self.calls += 1
        raise NotReadyError()


async def test_without_the_database_each_process_keeps_the_limit() -> None:
    watch, away, route = Watch(), Away(), opened(budget=(60, 10))
    flood = Flood(away, Settings.load(), now=watch)
    flood.protect([route])
    async with caller(route) as client:
        assert (await until_refused(client, "/door/a"))[0] == 10
        await flood.windows.settled()
        assert (await client.get("/door/a")).status_code == 429
        watch.now += 10
        assert (await until_refused(client, "/door/a"))[0] == 10
    assert away.calls > 0


async def test_what_was_refused_costs_no_statement(database: Database) -> None:
    class Counting(Hits):
        sent = 0

        async def add(self, hits: Any) -> dict[bytes, int]:
            Counting.sent += sum(count for _, count, _ in hits)
            return await super().add(hits)

    route = opened(budget=(60, 10))
    flood = Flood(Counting(database), Settings.load(), now=Watch())
    flood.protect([route])
    async with caller(route) as client:
        for _ in range(200):
            await client.get("/door/a")
    await flood.windows.settled()
    assert Counting.sent == 20  # ten requests in two windows


async def test_many_addresses_fit_into_a_bounded_memory(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rejoinder.doors.windows.MAX_WINDOWS", 50)
    watch = Watch()
    windows = Windows(Hits(database), now=watch)
    for number in range(400):
        await windows.incr(f"client {number}", 60)
        assert len(windows._windows) <= 50
        if number % 20 == 19:
            await windows.settled()
    # The first one is forgotten here. The row knows it, and so does this process after its next request.
    assert await windows.incr("client 0", 60) == 1
    await windows.settled()
    assert await windows.get("client 0") == 2
    assert await database.value("SELECT count(*) FROM rejoinder.flood") == 400
    # What waits for a database that does not answer is bounded too.
    for number in range(400):
        await windows.incr(f"stranger {number}", 60)
    assert len(windows._dirty) <= 50


async def test_rows_of_windows_that_ended_are_taken_away(database: Database) -> None:
    hits, now = Hits(database), time.time()
    old: list[Hit] = [(bytes([n]), 1, now - 120) for n in range(5)]
    await hits.add([*old, (b"going", 1, now + 60)])
    assert await hits.prune() == 5
    assert await database.value("SELECT count(*) FROM rejoinder.flood") == 1
    assert await hits.add([(b"going", 3, now + 60)]) == {b"going": 4}


def test_a_route_that_says_nothing_stops_the_start() -> None:
    with pytest.raises(ConfigurationError, match="does not say"):
        application.check_grants([Route("/bare", fine)])
