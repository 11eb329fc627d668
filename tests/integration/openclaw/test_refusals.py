"""Each refusal reaches a person with its advice; what passes by itself is waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rejoinder.openclaw.client import LONGEST_PAUSE
from rejoinder.openclaw.device import Device
from rejoinder.openclaw.errors import NotConnected, Refused
from rejoinder.openclaw.handshake import READ, WRITE
from tests.fake_gateway import (
    BAD_SIGNATURE,
    STARTING,
    TOKEN_MISMATCH,
    FakeGateway,
    HandClock,
    not_paired,
)
from tests.integration.openclaw.ears import Ears, client_of, hello_of, resting
from tests.support import assert_eventually


async def test_a_starting_gateway_is_tried_again_when_it_says(gateway: FakeGateway, clock: HandClock) -> None:
    gateway.refusals.extend([STARTING, STARTING])
    ears = Ears()
    async with client_of(gateway, clock, ears):
        await resting(clock, 0.5)
        await resting(clock, 0.5)
        await hello_of(ears)
        assert [refused.kind for refused in ears.refusals] == ["starting"]


async def test_a_draining_gateway_answers_with_503(gateway: FakeGateway, clock: HandClock) -> None:
    gateway.draining = True
    ears = Ears()
    async with client_of(gateway, clock, ears):
        await resting(clock, 1.0)
        await assert_eventually(lambda: 2.0 in clock.pauses)
        gateway.draining = False
        await resting(clock, 2.0)
        await hello_of(ears)
        assert [refused.kind for refused in ears.refusals] == ["draining"]


async def test_the_pairing_loop_is_slow_says_it_once_and_keeps_the_identity(
    gateway: FakeGateway, clock: HandClock
) -> None:
    device = Device.new()
    device.keep_token("stale-device-token")
    gateway.refusals.extend(
        [not_paired(request_id="a"), not_paired(request_id="b"), not_paired("scope-upgrade"), TOKEN_MISMATCH]
    )
    ears = Ears()
    async with client_of(gateway, clock, ears, device=device, token="") as client:
        with pytest.raises(Refused) as caught:
            await client.ready(10)
        assert caught.value.kind == "pairing"
        assert device.id in str(caught.value)
        assert "openclaw devices approve a" in str(caught.value)
        for _ in range(3):
            await resting(clock, LONGEST_PAUSE)
        await assert_eventually(lambda: len(ears.refusals) == 2)
        assert [refused.kind for refused in ears.refusals] == ["pairing", "token"]
        assert device.token is None  # of no use any more
        assert {attempt["device"]["id"] for attempt in gateway.attempts} == {device.id}
        gateway.token = None
        client.retry()  # somebody approved it: not half a minute later
        await hello_of(ears)


async def test_an_issued_device_token_is_kept_and_serves_alone(
    gateway: FakeGateway, clock: HandClock
) -> None:
    device = Device.new()
    gateway.device_token = "issued-by-the-gateway"
    async with client_of(gateway, clock, device=device) as client:
        await client.ready(10)
    assert device.token == "issued-by-the-gateway"
    async with client_of(gateway, clock, device=device, token="") as client:
        await client.ready(10)
    assert gateway.attempts[-1]["auth"] == {"token": "issued-by-the-gateway"}


@pytest.mark.parametrize(
    ("access", "kind"),
    [
        ({"token": "wrong"}, "token"),
        ({"token": ""}, "token"),
        ({"client_id": "my-bridge"}, "client"),
        ({"client_id": "webchat-ui", "mode": "webchat"}, "origin"),
        ({"client_id": "test", "mode": "test"}, "scopes"),
        ({"scopes": (READ,), "needed": (READ, WRITE)}, "scopes"),
    ],
)
async def test_each_refusal_reaches_the_person_with_its_advice(
    gateway: FakeGateway, clock: HandClock, access: dict[str, Any], kind: str
) -> None:
    ears = Ears()
    async with client_of(gateway, clock, ears, **access) as client:
        with pytest.raises(Refused) as caught:
            await client.ready(10)
        assert caught.value.kind == kind
        assert caught.value.advice
        await assert_eventually(lambda: LONGEST_PAUSE in clock.pauses)
        assert [refused.kind for refused in ears.refusals] == [kind]
        with pytest.raises(NotConnected):
            await client.call("sessions.list", {})


async def test_a_device_whose_signature_does_not_hold_is_told(gateway: FakeGateway, clock: HandClock) -> None:
    class Forged(Device):
        def sign(self, client: Any, **told: Any) -> dict[str, Any]:
            return super().sign(client, **{**told, "scopes": ["operator.admin"]})

    async with client_of(gateway, clock, device=Forged.new()) as client:
        with pytest.raises(Refused) as caught:
            await client.ready(10)
        assert caught.value.code == BAD_SIGNATURE.error["details"]["code"]


async def test_ready_says_why_not_in_time(gateway: FakeGateway, clock: HandClock) -> None:
    await gateway.stop()
    async with client_of(gateway, clock) as client:
        waiting = asyncio.ensure_future(client.ready(5))
        await resting(clock, 1.0)
        await assert_eventually(lambda: 2.0 in clock.pauses)
        clock.advance(4.5)
        with pytest.raises(Refused, match="No Gateway answers"):
            await waiting
