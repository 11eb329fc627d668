"""Two real servers and one client that knocks at both: they keep one limit, and a server that is killed keeps it too."""

from __future__ import annotations

import json
import time

import asyncpg
import httpx2
import pytest

from tests.acceptance.conftest import SHORT
from tests.support import Process, Processes, assert_eventually, client

pytestmark = pytest.mark.timeout(240)

LIMIT = 12
DOOR = "/api/interactions/callback/nobody-s"
ENVIRONMENT = SHORT | {
    "TAI_RATE_LIMIT_FAMILIES": json.dumps({"interactions_callback": {"limit": LIMIT, "burst": LIMIT}}),
    # So that a test is another client each time it begins anew.
    "TRUSTED_PROXIES": "127.0.0.1",
}


class Knocking:
    """One client, from an address of its own."""

    def __init__(self, url: str, address: str) -> None:
        self._url = url
        self._headers = {"x-forwarded-for": address}

    async def let_in(self, http: httpx2.AsyncClient) -> bool:
        """Whether it was; then the rows have counted it, in the minute and in the ten seconds."""
        before = await self._counted()
        reply = await http.get(DOOR, headers=self._headers)
        if reply.status_code == 429:
            assert 1 <= int(reply.headers["retry-after"]) <= 60
            return False
        assert reply.status_code == 404

        async def counted() -> bool:
            return await self._counted() >= before + 2

        await assert_eventually(counted, "a request was let in and not counted")
        return True

    async def _counted(self) -> int:
        connection = await asyncpg.connect(self._url)
        try:
            return int(await connection.fetchval("SELECT COALESCE(sum(hits), 0) FROM rejoinder.flood"))
        finally:
            await connection.close()


async def test_two_servers_keep_one_limit_and_a_killed_one_keeps_it_too(
    database_url: str, processes: Processes
) -> None:
    def start() -> Process:
        return processes.start("serve", database_url=database_url, env=ENVIRONMENT)

    servers = [start(), start()]
    for server in servers:
        await server.wait_ready()
    # The windows are the clock's minutes. What a minute ends in the middle of says nothing, and begins anew.
    for attempt in range(1, 6):
        began = int(time.time()) // 60
        knocking = Knocking(database_url, f"203.0.113.{attempt}")
        async with client(servers[0].url) as one, client(servers[1].url) as two:
            admitted, refused = 0, 0
            while refused < 4 and admitted <= 2 * LIMIT:
                if await knocking.let_in((one, two)[(admitted + refused) % 2]):
                    admitted, refused = admitted + 1, 0
                else:
                    refused += 1
        servers[0].kill()
        servers[0] = start()
        await servers[0].wait_ready()
        async with client(servers[0].url) as anew:
            # It knows nothing yet of this client: its first request brings what the rows know.
            again = [await knocking.let_in(anew) for _ in range(4)]
        if int(time.time()) // 60 == began:
            break
    else:
        raise AssertionError("five attempts did not fit into a minute each")
    # Each server hears of the other's with its own next one: at most one more is let in.
    assert LIMIT <= admitted <= LIMIT + 1
    assert again[1:] == [False, False, False]
