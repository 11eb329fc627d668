"""Which connections a real Gateway takes, and what the client says of those it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rejoinder.openclaw.client import GatewayClient
from rejoinder.openclaw.device import Device
from rejoinder.openclaw.errors import CallFailed, NotConnected, Refused
from rejoinder.openclaw.handshake import ADMIN, READ, WRITE
from tests.live.rig import places
from tests.live.rig.gateway import Gateway
from tests.live.rig.hearing import Hearing


async def test_the_client_is_greeted_and_told_the_sessions(gateway: Gateway) -> None:
    heard = Hearing()
    async with gateway.client(heard) as client:
        hello = await client.ready(10)
        assert hello.version == gateway.version == places.gateway_version()
        assert hello.boot_id
        assert set(hello.scopes) == {READ, WRITE, ADMIN}
        _, sessions, rebooted = await heard.hello(1)
        assert not rebooted
        listed = await client.call("sessions.list", {"limit": 200})
        assert [row.key for row in sessions] == [row["key"] for row in listed["sessions"]]
    with pytest.raises(NotConnected):
        await client.call("sessions.list", {})


@pytest.mark.parametrize(
    ("client_id", "mode", "signed"),
    [("gateway-client", "backend", False), ("gateway-client", "backend", True), ("cli", "cli", True)],
)
async def test_these_clients_are_taken_with_all_they_ask_for(
    gateway: Gateway, client_id: str, mode: str, signed: bool
) -> None:
    device = Device.new() if signed else None
    async with GatewayClient(gateway.access(client_id=client_id, mode=mode, device=device)) as client:
        hello = await client.ready(30)
        assert set(hello.scopes) == {READ, WRITE, ADMIN}
        assert await client.call("sessions.list", {"limit": 1}) is not None


async def test_a_paired_device_keeps_its_token_and_may_come_again_with_it(gateway: Gateway) -> None:
    device = Device.new()
    access = gateway.access(client_id="cli", mode="cli", device=device)
    async with GatewayClient(access) as client:
        assert (await client.ready(30)).device_token
    assert device.token
    async with GatewayClient(replace(access, token="")) as client:
        assert set((await client.ready(30)).scopes) >= {READ}


@pytest.mark.parametrize(
    ("given", "kind", "word"),
    [
        ({"token": "wrong"}, "token", "token"),
        ({"client_id": "webchat-ui", "mode": "webchat"}, "origin", "allowedOrigins"),
        ({"client_id": "my-bridge"}, "client", "gateway-client"),
        ({"client_id": "test", "mode": "test"}, "scopes", "approve"),
        ({"url": "ws://127.0.0.1:1"}, "unreachable", "127.0.0.1:1"),
    ],
)
async def test_a_refusal_says_why_and_what_to_do(
    gateway: Gateway, given: dict[str, Any], kind: str, word: str
) -> None:
    async with GatewayClient(gateway.access(**given)) as client:
        with pytest.raises(Refused) as refused:
            await client.ready(10)
    assert refused.value.kind == kind
    assert word in f"{refused.value.message} {refused.value.advice}"
    assert gateway.token not in str(refused.value)


async def test_a_call_without_the_scope_fails_with_the_gateways_words(gateway: Gateway) -> None:
    async with GatewayClient(gateway.access(scopes=(READ,))) as client:
        await client.ready(30)
        with pytest.raises(CallFailed) as failed:
            await client.call(
                "chat.send", {"sessionKey": "agent:main:x", "message": "x", "idempotencyKey": "x"}
            )
    assert WRITE in str(failed.value)
