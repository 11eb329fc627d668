"""The bridge in a run of its own: what it is made of there, and what it finds out of the database."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder import tool
from rejoinder.runs.tools import Tool
from rejoinder.tools.bridge import VARIABLE, Bridge
from rejoinder.tools.reconciling import Found, reconcile
from tests.integration.doors.edge import served
from tests.integration.external.outside import GOOD, SCHEMA, UNLIMITED, Outside
from tests.integration.nodes import ANN, running
from tests.support import free_port

BOUND = {
    "verifier": "shared_secret",
    "config": {"header": "X-TAI-Bridge-Secret", "secret_env": "TAI_BRIDGE_CALLBACK_SECRET"},
}
PUBLIC: dict[str, Any] = {"interactions_public_base_url": "https://ask.example.org"}


@tool
async def make() -> str:
    return Bridge.of_run().base


@pytest.mark.parametrize(
    ("settings", "secret", "named"),
    [
        (PUBLIC, None, "TAI_BRIDGE_CALLBACK_SECRET"),
        (PUBLIC, "", "TAI_BRIDGE_CALLBACK_SECRET"),
        ({}, "4711", "INTERACTIONS_PUBLIC_BASE_URL"),
        ({}, None, "INTERACTIONS_PUBLIC_BASE_URL, TAI_BRIDGE_CALLBACK_SECRET"),
    ],
)
async def test_what_it_lacks_is_named(
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    secret: str | None,
    named: str,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if secret is not None:
        monkeypatch.setenv(VARIABLE, secret)
    async with running(database_url, make, **settings) as node:
        with pytest.raises(Exception, match=f"not set in this process: {named}$"):
            await node.run_service.call("make", {}, by=ANN, door="test")


async def test_what_has_its_answer_by_whichever_way_it_came_is_not_posted_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "only the two know it")
    system, posted = Outside(), []
    signed = system.tool("sign", schema=SCHEMA, verifier=BOUND)

    @tool
    async def recover(urls: list[str]) -> dict[str, Any]:
        bridge = Bridge.of_run()
        outbound = bridge.outbound
        send = outbound.send

        async def counted(method: str, url: str, **more: Any) -> Any:
            posted.append(url)
            return await send(method, url, **more)

        monkeypatch.setattr(outbound, "send", counted)
        found = [Found(url[-6:], url, GOOD) for url in urls]
        return (await reconcile(bridge, found, interval=0)).as_json()

    port = free_port()
    tools: tuple[Tool, ...] = (signed, recover)
    async with served(
        database_url,
        *tools,
        port=port,
        interactions_public_base_url=f"http://127.0.0.1:{port}",
        tai_rate_limit_families=UNLIMITED,
    ) as e:
        asked = [await e.call("sign", {}) for _ in range(2)]
        urls = list(system.urls)

        async def recovered() -> Any:
            call = {"tool_name": "recover", "arguments": {"urls": urls}}
            return (await e.owner.post("/api/run-tool", json=call)).json()["data"]["result"]

        first = await recovered()
        assert (first["selected"], first["answered"], len(posted)) == (2, 2, 2)
        for one in asked:
            assert (await one.call).json()["data"]["result"]["answer"] == GOOD
        again = await recovered()
        assert (again["selected"], again["already_answered"], len(posted)) == (2, 2, 2)
