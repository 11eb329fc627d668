"""What a person reads in the chat where the Gateway does not take the connection or the message."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rejoinder.openclaw.device import Device
from rejoinder.openclaw.handshake import Access
from rejoinder.openwebui.bridge import Bridge
from rejoinder.openwebui.turn import TurnError, reply
from tests.fake_gateway import (
    BAD_SIGNATURE,
    ORIGIN,
    TOKEN,
    TOKEN_MISMATCH,
    UNKNOWN_CLIENT,
    FakeGateway,
    Fault,
    not_paired,
)
from tests.integration.openwebui.conftest import Connect
from tests.integration.openwebui.hosts import World, key_of, stub, user_says
from tests.integration.openwebui.test_bridge import asked_by, done, hosted, remember, sent, tell, text
from tests.unit.turns.script import Frames


async def refused(world: World, bridge: Bridge, **asked: Any) -> str:
    """What the request of a person's message ends with; the chat is as before and the request's stream is empty."""
    message = stub()
    chat_id = await world.chat(user_says("hello"), message)

    async def quiet(words: str, over: bool) -> None:
        pass

    with pytest.raises(TurnError) as caught:
        await anext(reply(bridge, asked_by(world, chat_id, message["id"], **asked), quiet))
    assert bridge.messages.sink(message["id"]) is None
    return str(caught.value)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (TOKEN_MISMATCH, ["GATEWAY_TOKEN", "gateway.auth.token"]),
        (BAD_SIGNATURE, ["DEVICE_IDENTITY", "clocks"]),
        (UNKNOWN_CLIENT, ["gateway-client/backend"]),
        (ORIGIN, ["gateway.controlUi.allowedOrigins"]),
        (not_paired(request_id="req-9"), ["`openclaw devices list`", "`openclaw devices approve req-9`"]),
        (not_paired("scope-upgrade", "req-8"), ["fewer scopes", "`openclaw devices approve req-8`"]),
    ],
)
async def test_a_refused_connection_says_what_to_do(
    gateway: FakeGateway, world: World, tmp_path: Path, fault: Fault, words: list[str]
) -> None:
    gateway.refusals.extend([fault] * 5)
    device = Device.load(tmp_path / "device.json")
    bridge = Bridge(world.host, Access(gateway.url, token=TOKEN, device=device))
    bridge.start()
    try:
        told = await refused(world, bridge)
    finally:
        await bridge.close()
    assert all(one in told for one in words), told
    assert TOKEN not in told
    if "approve" in words[-1]:
        assert device.id in told


async def test_a_message_after_the_approval_is_sent_at_once(gateway: FakeGateway, world: World) -> None:
    gateway.refusals.extend([not_paired()] * 5)
    bridge = Bridge(world.host, Access(gateway.url, token=TOKEN))
    bridge.start()
    message = stub()
    chat_id = await world.chat(user_says("hello"), message)
    try:
        await refused(world, bridge)
        gateway.refusals.clear()
        # The client itself would try again half a minute later.
        request = asyncio.ensure_future(hosted(world, bridge, asked_by(world, chat_id, message["id"])))
        first = await sent(gateway)
        assert first["message"] == "hello"
        key = key_of(world, chat_id)
        f = Frames(first["idempotencyKey"], key)
        remember(gateway, key, f.asked(), f.said("Hi."))
        tell(gateway, *f.begin(), f.row(f.asked()), f.says("Hi.", "Hi.", "i"), *f.final("Hi."), f.settled())
        await request
        (only,) = await done(world, chat_id, 1)
        assert text(only) == "Hi."
    finally:
        await bridge.close()


@pytest.mark.parametrize(
    ("method", "said", "asked", "words"),
    [
        (
            "chat.send",
            'Agent "main" no longer exists in configuration',
            {},
            ["no agent named main", "AGENT_ID"],
        ),
        ("chat.send", "attachments: too large", {}, ["attachments: too large"]),
        ("sessions.patch", 'Unknown provider "no".', {"model": "no/thing"}, ["no/thing", "DEFAULT_MODEL"]),
    ],
)
async def test_a_refused_message_says_why(
    gateway: FakeGateway,
    world: World,
    connect: Connect,
    method: str,
    said: str,
    asked: dict[str, Any],
    words: list[str],
) -> None:
    gateway.handlers[method] = lambda _: Fault({"code": "INVALID_REQUEST", "message": said})
    told = await refused(world, await connect(), **asked)
    assert all(one in told for one in words), told
