"""A connection that ends is built anew, and what happened meanwhile is read."""

from __future__ import annotations

import asyncio

import pytest

from rejoinder.openclaw.client import LONGEST_PAUSE, GatewayClient
from rejoinder.openclaw.connection import CONNECT_SECONDS, RECEIVE_SECONDS
from rejoinder.openclaw.errors import Dropped, Refused
from rejoinder.openclaw.handshake import Access
from rejoinder.openclaw.history import read_history
from rejoinder.openclaw.streams import Gap
from tests.fake_gateway import (
    NEVER,
    TOKEN,
    FakeGateway,
    Fault,
    HandClock,
)
from tests.integration.openclaw.ears import KEY, Ears, client_of, hello_of, number, resting
from tests.support import assert_eventually


@pytest.mark.parametrize(
    ("code", "reason", "why"),
    [
        (1008, "slow consumer", "slow"),
        (1012, "service restart", "restart"),
        (1013, "gateway starting", "refused"),
        (1000, "", "closed"),
        (1011, "internal error", "lost"),
    ],
)
async def test_a_closed_connection_is_built_anew_and_its_list_read(
    gateway: FakeGateway, clock: HandClock, code: int, reason: str, why: str
) -> None:
    ears = Ears()
    async with client_of(gateway, clock, ears) as client:
        connection = await gateway.connected()
        await hello_of(ears)
        stream = client.claim("r")
        number(connection, 1)
        await connection.drop(code, reason)
        await assert_eventually(lambda: bool(ears.drops))
        assert (ears.drops[0].why, ears.drops[0].code) == (why, code)
        gateway.sessions = [{"key": "agent:main:new"}]
        await resting(clock, 1.0)
        await hello_of(ears, 2)
        assert ears.hellos[1][1] == ["agent:main:new"]
        assert not ears.hellos[1][2]
        number(gateway.connections[1], 2)
        items = [await anext(stream) for _ in range(3)]
        assert items[1] == Gap("drop")
        assert ears.order == ["hello", "1", "drop", "hello", "2"]


async def test_a_restart_is_known_by_its_boot_id(gateway: FakeGateway, clock: HandClock) -> None:
    ears = Ears()
    async with client_of(gateway, clock, ears):
        await hello_of(ears)
        await gateway.restart()
        await resting(clock, 1.0)
        await hello_of(ears, 2)
        assert [rebooted for _, _, rebooted in ears.hellos] == [False, True]


async def test_a_killed_gateway_is_waited_for_longer_and_longer(
    gateway: FakeGateway, clock: HandClock
) -> None:
    ears = Ears()
    async with client_of(gateway, clock, ears):
        await hello_of(ears)
        await gateway.kill()
        for seconds in (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0):
            await resting(clock, seconds)
        assert [refused.kind for refused in ears.refusals] == ["unreachable"]  # once, however often
        await assert_eventually(lambda: LONGEST_PAUSE in clock.pauses)
        await gateway.start()
        await resting(clock, LONGEST_PAUSE)
        await hello_of(ears, 2)
        await gateway.connections[-1].drop()
        await resting(clock, 1.0)  # a connection that worked begins anew
        await hello_of(ears, 3)


async def test_a_silent_connection_is_dead_after_three_ticks(gateway: FakeGateway, clock: HandClock) -> None:
    ears = Ears()
    async with client_of(gateway, clock, ears):
        await hello_of(ears)
        connection = gateway.connections[0]
        clock.advance(RECEIVE_SECONDS - 1)
        connection.tell("tick", {"ts": 1})
        await assert_eventually(lambda: bool(ears.events))
        clock.advance(2)  # 91 seconds after the hello, 2 after the tick
        await assert_eventually(lambda: RECEIVE_SECONDS - 2 in clock.pauses)
        assert not ears.drops
        clock.advance(RECEIVE_SECONDS - 2)
        await assert_eventually(lambda: bool(ears.drops))
        assert ears.drops[0].why == "silent"
        await resting(clock, 1.0)
        await hello_of(ears, 2)


async def test_a_gateway_that_does_not_greet_is_tried_again(gateway: FakeGateway, clock: HandClock) -> None:
    gateway.silent_connects = 1
    ears = Ears()
    async with client_of(gateway, clock, ears):
        await assert_eventually(lambda: len(gateway.attempts) == 1)
        await resting(clock, CONNECT_SECONDS)
        await assert_eventually(lambda: bool(ears.refusals))
        assert ears.refusals[0].kind == "timeout"
        await resting(clock, 1.0)
        await hello_of(ears)


async def test_what_is_no_gateway_is_said_to_be_none(clock: HandClock) -> None:
    async def shop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(shop, "127.0.0.1", 0)
    address = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, GatewayClient(Access(address), clock=clock) as client:
        with pytest.raises(Refused, match="HTTP 404"):
            await client.ready(10)


async def test_nonsense_ends_the_connection_and_a_new_one_is_built(
    gateway: FakeGateway, clock: HandClock
) -> None:
    ears = Ears()
    async with client_of(gateway, clock, ears):
        await hello_of(ears)
        await gateway.connections[0].socket.send("not a frame")
        await assert_eventually(lambda: bool(ears.drops))
        assert ears.drops[0].why == "nonsense"
        await resting(clock, 1.0)
        await hello_of(ears, 2)


async def test_a_list_that_fails_is_no_hello(gateway: FakeGateway, clock: HandClock) -> None:
    faults = [Fault({"code": "UNAVAILABLE", "message": "not yet", "retryable": True})]
    gateway.handlers["sessions.subscribe"] = lambda params: (
        faults.pop() if faults else {"subscribed": True, "list": {"sessions": []}}
    )
    ears = Ears()
    async with client_of(gateway, clock, ears):
        await assert_eventually(lambda: bool(ears.drops))
        assert not ears.hellos
        await resting(clock, 1.0)
        await hello_of(ears)


async def test_closing_ends_everything_in_good_order(gateway: FakeGateway, clock: HandClock) -> None:
    gateway.handlers["chat.history"] = lambda params: NEVER
    ears = Ears()
    before = asyncio.all_tasks()
    client = GatewayClient(Access(gateway.url, token=TOKEN), ears, clock=clock)
    async with client:
        await hello_of(ears)
        stream = client.claim("r")
        connection = gateway.connections[0]
        waiting = asyncio.ensure_future(read_history(client, KEY))
        await assert_eventually(lambda: len(connection.requests) == 2)
    with pytest.raises(Dropped):
        await waiting
    assert [item async for item in stream] == []
    await connection.socket.wait_closed()
    assert connection.socket.close_code == 1000
    assert not client.connected
    await assert_eventually(lambda: not {t for t in asyncio.all_tasks() - before if "_run" in repr(t)})
    await client.close()  # again is no fault
