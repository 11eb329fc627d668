"""A Gateway and a Host for each test. With Open WebUI installed the same tests run on its real classes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from rejoinder.openclaw.handshake import Access
from rejoinder.openwebui.bridge import Bridge
from tests.fake_gateway import TOKEN, FakeGateway
from tests.integration.openwebui.hosts import World, a_world


@pytest.fixture
async def gateway() -> AsyncIterator[FakeGateway]:
    async with FakeGateway() as server:
        server.handlers["chat.send"] = lambda params: {
            "runId": params["idempotencyKey"],
            "status": "started",
        }
        server.handlers["chat.abort"] = lambda params: {"ok": True, "aborted": True, "runIds": []}
        yield server


@pytest.fixture
async def world() -> World:
    return await a_world()


Connect = Callable[[], Awaitable[Bridge]]


@pytest.fixture
async def connect(gateway: FakeGateway, world: World) -> AsyncIterator[Connect]:
    """Make a bridge that is connected and has listed."""
    bridges: list[Bridge] = []

    async def make() -> Bridge:
        bridge = Bridge(world.host, Access(gateway.url, token=TOKEN), send_stop=False)
        bridges.append(bridge)
        bridge.start()
        await bridge.client.ready(10)
        await bridge.greeted_after(0)
        return bridge

    yield make
    for bridge in bridges:
        await bridge.close()
