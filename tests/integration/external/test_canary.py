"""The look from outside at the callback door: up only where a door of this very deployment answers, GET and POST."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from rejoinder import housekeeping
from rejoinder.asks.canary import check_route
from rejoinder.asks.tickets import PURPOSE, TicketOffice
from rejoinder.launch.doctor import examine
from rejoinder.launch.serve import bind, serving
from rejoinder.net.guard import Guard
from rejoinder.net.outbound import Outbound
from rejoinder.observe.metrics import metrics
from rejoinder.store.database import Database
from rejoinder.store.sealing import SealingKeys
from tests.integration.doors.edge import served
from tests.integration.external.outside import DOOR, UNLIMITED
from tests.support import assert_eventually, free_port

App = Callable[[Scope, Receive, Send], Awaitable[None]]


@asynccontextmanager
async def upstream(status: dict[str, int], body: Any, behind: Sequence[App] = ()) -> AsyncIterator[str]:
    """Another program at the public address: a status for each method, and one body, until it leads to the one
    ``behind`` it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if behind:
            await behind[0](scope, receive, send)
            return
        content = json.dumps(body).encode()
        headers = [(b"content-type", b"application/json"), (b"location", b"/elsewhere")]
        await send({"type": "http.response.start", "status": status[scope["method"]], "headers": headers})
        await send({"type": "http.response.body", "body": content})

    address = bind("127.0.0.1", 0)
    async with serving(app, address, grace=0):
        yield address.url


async def looked(office: TicketOffice, url: str) -> tuple[bool, str]:
    outbound = Outbound(Guard(["127.0.0.1"]))
    try:
        route = await check_route(office, outbound, url)
    finally:
        await outbound.stop()
    return route.up, route.what


async def test_only_a_door_of_this_deployment_is_up(database_url: str, database: Database) -> None:
    async with served(database_url, tai_rate_limit_families=UNLIMITED) as e:
        up, what = await looked(e.node.office, e.base)
        assert up, what
        # Another deployment's canary is a ticket that this one never made.
        other = TicketOffice(SealingKeys(database, "of another deployment"))
        up, what = await looked(other, e.base)
        assert not up
        assert "answered with 404" in what
        assert (
            await e.node.database.value("SELECT count(*) FROM rejoinder.event WHERE kind LIKE 'answer.%'")
            == 0
        )


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        ({"GET": 404, "POST": 404}, {"error": "not found", "code": "not-found"}, "GET .* answered with 404"),
        ({"GET": 200, "POST": 200}, {"data": {"canary": "0" * 32}}, "GET .* answered with 200"),
        ({"GET": 200, "POST": 200}, {"data": []}, "answered with 200"),
        ({"GET": 200, "POST": 200}, "hello", "answered with 200"),
        ({"GET": 301, "POST": 301}, {}, "answered with 301"),
        ({"GET": 502, "POST": 502}, {}, "answered with 502"),
    ],
)
async def test_whatever_else_answers_is_down(
    database: Database, status: dict[str, int], body: Any, told: str
) -> None:
    async with upstream(status, body) as url:
        up, what = await looked(TicketOffice(SealingKeys(database, PURPOSE)), url)
        assert not up
        assert re.search(told, what), what


async def test_nobody_there(database: Database) -> None:
    up, what = await looked(TicketOffice(SealingKeys(database, PURPOSE)), f"http://127.0.0.1:{free_port()}")
    assert not up
    assert "was not answered" in what


async def test_a_canary_opens_nothing(database_url: str) -> None:
    async with served(database_url, tai_rate_limit_families=UNLIMITED) as e:
        ticket, proof = await e.node.office.make_canary()
        async with e.anonymous() as client:
            for method in ("GET", "POST"):
                reply = await client.request(method, DOOR + ticket)
                assert reply.json() == {"data": {"canary": proof}}
            reply = await client.request("HEAD", DOOR + ticket)
            assert (reply.status_code, reply.content) == (200, b"")
            assert (await client.get(DOOR + ticket[:-1])).status_code == 404


async def test_servers_keep_looking(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "CANARY_FIRST_SECONDS", 0)
    monkeypatch.setattr(housekeeping, "CANARY_SECONDS", 0.02)
    behind: list[App] = []
    async with (
        upstream({"GET": 404, "POST": 404}, {}, behind) as url,
        served(database_url, interactions_public_base_url=url, tai_rate_limit_families=UNLIMITED) as e,
    ):
        await assert_eventually(lambda: "rejoinder_callback_route_up 0.0" in metrics.render().decode())
        behind.append(e.app)
        await assert_eventually(lambda: "rejoinder_callback_route_up 1.0" in metrics.render().decode())


async def test_doctor_tells_a_dead_route(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REJOINDER_DATABASE_URL", database_url)

    async def found(url: str) -> str | None:
        monkeypatch.setenv("INTERACTIONS_PUBLIC_BASE_URL", url)
        findings = await examine(tmp_path)
        return next((one.level for one in findings if one.check == "callback route"), None)

    nobody = f"http://127.0.0.1:{free_port()}"
    assert await found(nobody) is None  # no server ever ran on this database
    async with served(database_url) as e:
        assert await found(e.base) == "ok"
        assert await found(nobody) == "fail"
