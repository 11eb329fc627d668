"""External questions in other places: the command line, another process of the deployment, after a change of keys."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import httpx2
import pytest

from rejoinder.asks.tickets import PURPOSE, TicketOffice
from rejoinder.contract.verifiers import Binding
from rejoinder.doors.app import create_app
from rejoinder.store import sealing
from rejoinder.store.database import Database
from rejoinder.store.sealing import SealingKeys
from tests.integration.cli.conftest import Shell
from tests.integration.doors.edge import BASE as HERE
from tests.integration.doors.edge import served
from tests.integration.external.outside import BASE, GOOD, UNLIMITED, Outside, outside, proof, result
from tests.integration.nodes import running
from tests.support import assert_eventually

BINDING = Binding("shared_secret", {"header": "X", "secret_env": "Y"})


async def test_on_the_command_line(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    system = Outside()
    given: dict[str, Any] = {"interactions_public_base_url": BASE, "tai_rate_limit_families": UNLIMITED}
    async with served(database_url, system.tool("sign"), **given) as e:
        monkeypatch.setenv("REJOINDER_SERVER", e.base)
        monkeypatch.setenv("REJOINDER_API_KEY", e.owner.headers["authorization"].split()[1])
        shell = Shell(monkeypatch)
        asked = await e.call("sign", {})
        refused = await shell("interactions", "answer", asked.id, "yes")
        assert refused.code == 2
        assert f"rejoinder interactions open {asked.id}" in refused.err
        refused = await shell("interactions", "answer", asked.id, "--answer", "{}")
        assert refused.code == 1
        assert "callback URL" in refused.err
        shown = await shell("interactions", "show", asked.id)
        assert system.ticket not in shown.out
        opened = await shell("interactions", "open", asked.id[:8])
        assert opened.code == 0
        path = opened.out.strip().partition(BASE)[2]
        assert (
            (await shell("interactions", "open", asked.id, "--json")).json["url"].startswith("https://sign")
        )
        async with e.anonymous() as client:
            assert (await client.post(path, json=GOOD)).status_code == 200
        await result(asked)
        assert (await shell("interactions", "open", asked.id)).code == 1
        listed = await shell("hooks", "verifiers")
        assert "shared_secret" in listed.out
        assert {one["name"] for one in (await shell("hooks", "verifiers", "--json")).json["items"]} >= {
            "stripe"
        }


async def test_any_process_takes_the_answer(database_url: str, secret: None) -> None:
    """One process asks, and wakes; the callback comes to another one, which never heard of the tool."""
    async with (
        outside(database_url) as (e, system),
        running(database_url, tai_rate_limit_families=UNLIMITED) as other,
    ):
        transport = httpx2.ASGITransport(create_app(other), raise_app_exceptions=False)
        async with httpx2.AsyncClient(base_url=HERE, transport=transport) as client:
            for name in ("sign", "bound"):
                asked = await e.call(name, {})
                assert (await client.post(system.door, json=GOOD, headers=proof())).status_code == 200
                assert (await result(asked))["answer"] == GOOD


async def test_a_question_whose_asker_goes_away_takes_its_ticket_along(database_url: str) -> None:
    async with outside(database_url) as (e, system):
        asked = await e.call("sign", {})
        await asked.end()

        async def withdrawn() -> bool:
            return await e.state(asked.id) == "cancelled"

        await assert_eventually(withdrawn)
        async with e.anonymous() as client:
            assert (await client.post(system.door, json=GOOD)).status_code == 404


async def test_a_key_is_changed_under_tickets_that_are_out(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "LOOK_AGAIN", 0)
    one, other = (TicketOffice(SealingKeys(database, PURPOSE)) for _ in range(2))
    before = [await one.make(None), await one.make(BINDING)]
    assert all([await other.open(ticket) for ticket in before])
    await database.execute(
        "INSERT INTO rejoinder.sealing_key (purpose, number, secret) VALUES ($1, 2, $2)",
        PURPOSE,
        os.urandom(32),
    )
    after = [await one.make(None), await one.make(BINDING)]
    for office in (one, other, TicketOffice(SealingKeys(database, PURPOSE))):
        for ticket in (*before, *after):
            assert await office.open(ticket), ticket
    await database.execute("DELETE FROM rejoinder.sealing_key WHERE number = 1")
    fresh = TicketOffice(SealingKeys(database, PURPOSE))
    assert [await fresh.open(ticket) for ticket in before] == [None, None]
    assert all([await fresh.open(ticket) for ticket in after])


async def test_junk_does_not_make_us_read_keys(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    office = TicketOffice(SealingKeys(database, PURPOSE))
    ticket = await office.make(BINDING)
    looked = 0
    rows = database.rows

    async def counting(*given: object) -> object:
        nonlocal looked
        looked += 1
        return await rows(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(database, "rows", counting)
    for number in range(200):
        # Each names a key of another number, which nobody has.
        assert await office.open(ticket[:2] + f"{number:02d}"[-2:] + ticket[4:]) is None
    assert looked <= 1


def test_two_first_processes_agree_on_one_key(database_url: str) -> None:
    async def both() -> None:
        opened = [Database(database_url) for _ in range(4)]
        for one in opened:
            await one.open()
        offices = [TicketOffice(SealingKeys(one, PURPOSE)) for one in opened]
        tickets = await asyncio.gather(*(office.make(BINDING) for office in offices))
        for office in offices:
            for ticket in tickets:
                assert await office.open(ticket)
        for one in opened:
            await one.close()

    asyncio.run(both())
