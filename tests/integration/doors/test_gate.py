"""Who may do what: every route, every grant, cookies, other sites, host names."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from fastapi import APIRouter
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import Route

from rejoinder.access import gate
from rejoinder.contract.errors import ConfigurationError
from rejoinder.contract.identity import LOCAL_OWNER, Identity
from rejoinder.contract.settings import Settings
from rejoinder.doors.admission import Door, grant_of, needs
from rejoinder.doors.app import check_grants
from tests.integration.doors.edge import Edge, edge

ID = "00000000-0000-0000-0000-000000000000"
#: What each grant opens.
OPENS = {
    "public": {"nobody", "none", "read", "write", "admin"},
    "any": {"none", "read", "write", "admin"},
    "read": {"read", "admin"},
    "write": {"write", "admin"},
    "admin": {"admin"},
}


def doors(e: Edge) -> list[tuple[str, str, str]]:
    """(method, path, grant) of every route of ours but the stream, which does not end, and the pages; the sign-in page
    is public, and refuses by rules of its own."""
    found: list[tuple[str, str, str]] = []
    for route in e.app.routes:
        grant = grant_of(route)
        if grant == "own" or route.path.endswith(("/stream", "/sign-in")):  # type: ignore[attr-defined]
            continue
        path = route.path.replace("{interaction_id}", ID).replace("{run_id}", ID).replace("{name}", "x")  # type: ignore[attr-defined]
        found += [(method, path, grant) for method in sorted(route.methods)]  # type: ignore[attr-defined]
    return found


async def open_the_doors_of_outside_systems(e: Edge) -> None:
    """They answer everybody 403 until an admin opens them."""
    for pattern in ("/universal_webhook/*", "/trigger/*"):
        await e.node.public_routes.pin(pattern, by=LOCAL_OWNER)


async def test_every_door_takes_exactly_the_grants_it_declares(database_url: str) -> None:
    async with edge(database_url) as e:
        await open_the_doors_of_outside_systems(e)
        people: dict[str, httpx2.AsyncClient] = {"nobody": e.anonymous()}
        for grant in ("read", "write", "admin"):
            people[grant] = await e.client(grant, grant)
        # Owned by a key that may only read, it keeps none of its own grants.
        people["none"] = await e.client("none", "write", owner="read")
        walked = doors(e)
        assert len(walked) > 20
        for method, path, grant in walked:
            for name, person in people.items():
                reply = await person.request(method, path)
                opened = reply.status_code not in (401, 403)
                assert opened == (name in OPENS[grant]), f"{name}: {method} {path} gave {reply.status_code}"
                if name == "nobody" and not opened:
                    assert reply.status_code == 401
                    assert reply.headers["www-authenticate"].startswith("Bearer")
                    if method != "HEAD":
                        assert reply.json() == {"error": "Authentication required", "code": "unauthenticated"}


async def test_the_stream_takes_readers_only(database_url: str) -> None:
    async with edge(database_url) as e:
        assert (await e.anonymous().get("/api/interactions/stream")).status_code == 401
        assert (await (await e.client("w", "write")).get("/api/interactions/stream")).status_code == 403


async def test_a_route_that_declares_nothing_is_not_built(database_url: str) -> None:
    with pytest.raises(ConfigurationError, match="/open"):
        check_grants([Route("/open", lambda _request: Response(b""))])
    api = APIRouter(route_class=Door)
    with pytest.raises(ConfigurationError, match="/open"):
        api.add_api_route("/open", lambda: None)
    with pytest.raises(ConfigurationError, match="/open"):
        api.add_api_route("/open", lambda: None, openapi_extra=needs("everybody"))  # type: ignore[arg-type]
    async with edge(database_url) as e, e.anonymous() as nobody:
        with pytest.raises(ConfigurationError, match="/open"):
            e.app.get("/open")(lambda: None)
        assert (await nobody.get("/open")).status_code == 404


async def test_reading_changes_no_row(database_url: str) -> None:
    async with edge(database_url) as e:
        await open_the_doors_of_outside_systems(e)
        asked = await e.ask()
        tables = [
            row["t"]
            for row in await e.node.database.rows(
                "SELECT format('%I.%I', schemaname, tablename) AS t FROM pg_tables "
                "WHERE schemaname = 'rejoinder' AND tablename NOT IN ('process', 'flood')"
            )
        ]

        async def sums() -> dict[str, str]:
            return {
                table: await e.node.database.value(
                    f"SELECT count(*) || ':' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM {table} AS t"
                )
                for table in tables
            }

        assert len(tables) >= 8
        before = await sums()
        for route in e.app.routes:
            path: str = route.path  # type: ignore[attr-defined]
            if "GET" not in (getattr(route, "methods", None) or ()) or path.endswith("/stream"):
                continue
            for name in ("interaction_id", "id"):
                path = path.replace("{%s}" % name, asked.id)  # noqa: UP031
            path = path.replace("{run_id}", ID).replace("{name}", "x")
            for method in ("GET", "HEAD"):
                for agent in ("Mozilla/5.0", "SafeLinks", "Slackbot-LinkExpanding 1.0"):
                    await e.owner.request(
                        method, path, headers={"user-agent": agent}, params={"token": "rjs_x", "seconds": "0"}
                    )
        assert await sums() == before
        await asked.end()


async def test_a_refused_grant_is_in_the_trail(database_url: str) -> None:
    async with edge(database_url) as e:
        reader = await e.client("reader", "read")
        asked = await e.ask()
        refused = await reader.post(f"/api/interactions/{asked.id}/answer", json={"answer": "x"})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        await reader.post("/api/run-tool", json={"tool_name": "ask"})
        trail = (await e.owner.get("/api/audit", params={"actor": "reader"})).json()["data"]["items"]
        assert [(one["kind"], one["reason"]) for one in trail] == [
            ("access.refused", "no write grant"),
            ("answer.refused", "no write grant"),
        ]
        assert trail[1]["interaction_id"] == asked.id
        assert trail[0]["detail"] == {"route": "/api/run-tool"}
        await asked.end()


# Proofs


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Bearer rjk_",
        "Bearer rjk_" + "x" * 43,
        "Bearer rjk_" + "x" * 50_000,
        "Basic cmprXzp4",
        "rjk_abc",
        "Bearer rjc_abc",
        "Bearer rjk_é",
        "bearer\trjk_x",
    ],
)
async def test_a_proof_that_proves_nothing(database_url: str, header: str) -> None:
    async with edge(database_url) as e:
        cookie = await session(e)
        for cookies in ({}, {b"cookie": f"rejoinder={cookie}".encode()}):
            refused = await e.anonymous().get(
                "/api/interactions",
                headers={b"authorization": header.encode("latin-1"), **cookies},
            )
            assert refused.status_code == 401
            assert refused.json() == {"error": "Authentication required", "code": "unauthenticated"}


async def test_a_key_counts_until_it_is_revoked(database_url: str) -> None:
    async with edge(database_url) as e:
        ann = await e.client("ann", "read")
        assert (await ann.get("/api/interactions")).status_code == 200
        assert (await e.owner.delete("/api/keys/ann")).json()["data"]["revoked"] == ["ann"]
        assert (await ann.get("/api/interactions")).status_code == 401


async def session(e: Edge) -> str:
    identity = await e.node.access.identify(e.owner.headers["authorization"].partition(" ")[2])
    cookie, _ = await e.node.access.sign_in(await e.node.access.create_sign_in(identity))
    return cookie


OWN = {"origin": "http://127.0.0.1"}


@pytest.mark.parametrize(
    ("headers", "token", "status"),
    [
        ({}, True, 403),
        (OWN, True, 404),
        ({"sec-fetch-site": "same-origin"}, True, 404),
        (OWN | {"sec-fetch-site": "same-origin"}, True, 404),
        (OWN, False, 403),
        ({"origin": "http://evil.example"}, True, 403),
        ({"origin": "https://127.0.0.1"}, True, 403),
        ({"origin": "http://127.0.0.1:81"}, True, 403),
        ({"origin": "http://127.0.0.1.evil.example"}, True, 403),
        ({"origin": "null"}, True, 403),
        ({"origin": "http://[::1"}, True, 403),
        (OWN | {"sec-fetch-site": "cross-site"}, True, 403),
        (OWN | {"sec-fetch-site": "same-site"}, True, 403),
    ],
)
async def test_a_session_changes_things_only_from_our_own_pages(
    database_url: str, headers: dict[str, str], token: bool, status: int
) -> None:
    async with edge(database_url) as e:
        cookie = await session(e)
        browser = e.anonymous(cookie=f"rejoinder={cookie}")
        assert (await browser.get("/api/interactions")).status_code == 200
        form = {"x-rejoinder-form": gate.form_token(cookie)} if token else {}
        reply = await browser.post(f"/api/interactions/{ID}/cancel", headers=headers | form)
        assert reply.status_code == status
        if status == 403:
            assert reply.json()["code"] == "cross-site"
        other = {"x-rejoinder-form": gate.form_token(await session(e))}
        assert (await browser.post(f"/api/interactions/{ID}/cancel", headers=OWN | other)).status_code == 403


async def test_a_cookie_of_the_other_name_or_an_ended_session_is_none(database_url: str) -> None:
    async with edge(database_url) as e:
        cookie = await session(e)
        secure = e.anonymous(cookie=f"__Host-rejoinder={cookie}")
        assert (await secure.get("/api/interactions")).status_code == 401
        assert (await secure.get("https://127.0.0.1/api/interactions")).status_code == 200
        await e.node.access.sign_out(cookie)
        assert (await secure.get("https://127.0.0.1/api/interactions")).status_code == 401


async def test_with_the_gate_off_a_page_of_another_site_changes_nothing(database_url: str) -> None:
    async with edge(database_url, access_control_enable=False) as e:
        anybody = e.anonymous()
        path = f"/api/interactions/{ID}/cancel"
        assert (await anybody.post(path)).status_code == 404
        assert (await anybody.post(path, headers=OWN)).status_code == 404
        for headers in (
            {"origin": "http://evil.example"},
            {"sec-fetch-site": "cross-site"},
            {"origin": "null"},
        ):
            assert (await anybody.post(path, headers=headers)).status_code == 403


@pytest.mark.parametrize(
    ("host", "passes"),
    [
        ("localhost", True),
        ("LOCALHOST:8642", True),
        ("127.0.0.1:8642", True),
        ("[::1]:8642", True),
        ("desk.example", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example:8642", False),
        ("10.0.0.1", False),
        ("[::2]", False),
        ("", False),
    ],
)
async def test_with_the_gate_off_only_known_host_names_are_served(
    database_url: str, host: str, passes: bool
) -> None:
    async with edge(database_url, access_control_enable=False, rejoinder_allowed_hosts="desk.example") as e:
        reply = await e.anonymous().get("/api/interactions", headers={"host": host})
        assert reply.status_code == (200 if passes else 421)


async def test_with_the_gate_off_another_machine_is_nobody(database_url: str) -> None:
    async with edge(database_url, access_control_enable=False) as e:
        far = httpx2.ASGITransport(app=e.app, client=("192.0.2.1", 1234))
        async with httpx2.AsyncClient(transport=far, base_url="http://127.0.0.1") as client:
            assert (await client.get("/api/interactions")).status_code == 401


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("192.0.2.1", False),
        ("example.org", False),
        ("2130706433", False),
    ],
)
def test_an_open_gate_is_bound_to_this_machine_only(host: str, own: bool) -> None:
    assert gate.is_loopback(host) is own
    gate.refuse_open_gate(Settings.load(access_control_enable=True), host)
    shut = Settings.load(access_control_enable=False)
    if own:
        gate.refuse_open_gate(shut, host)
    else:
        with pytest.raises(ConfigurationError, match="ACCESS_CONTROL_ENABLE"):
            gate.refuse_open_gate(shut, host)


def connection(scheme: str, host: str, **scope: Any) -> HTTPConnection:
    return HTTPConnection(
        {
            "type": "http",
            "scheme": scheme,
            "headers": [(b"host", host.encode())],
            "path": "/",
            "query_string": b"",
        }
        | scope
    )


def test_the_cookie_is_as_narrow_as_the_connection_allows() -> None:
    secure = gate.set_cookie(connection("https", "desk.example"), "rjc_x", 60)
    assert secure == "__Host-rejoinder=rjc_x; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure"
    local = gate.set_cookie(connection("http", "localhost:8642"), "rjc_x", 60)
    assert local == "rejoinder=rjc_x; Path=/; Max-Age=60; HttpOnly; SameSite=Lax"
    assert gate.may_hold_session(connection("http", "localhost:8642"))
    assert gate.may_hold_session(connection("https", "desk.example"))
    assert not gate.may_hold_session(connection("http", "desk.example"))


def test_a_form_s_token_is_its_session_s() -> None:
    ann = gate.Caller(Identity("ann"), "session", "rjc_a")
    gate.check_form_token(ann, ann.form_token)
    gate.check_form_token(gate.Caller(LOCAL_OWNER, "key"), None)
    for wrong in (None, "", "é", gate.form_token("rjc_b"), ann.form_token + "x", b"x", 1):
        with pytest.raises(gate.CrossSiteError):
            gate.check_form_token(ann, wrong)
