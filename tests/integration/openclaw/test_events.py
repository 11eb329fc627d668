"""What a Gateway tells reaches its listeners in order, and nothing is lost silently."""

from __future__ import annotations

from typing import Any

from rejoinder.openclaw import calls
from rejoinder.openclaw.frames import Event
from rejoinder.openclaw.sessions import list_sessions
from rejoinder.openclaw.streams import STREAM_EVENTS, Gap
from tests.fake_gateway import (
    FakeGateway,
    HandClock,
)
from tests.integration.openclaw.ears import KEY, Ears, client_of, hello_of, number
from tests.support import assert_eventually


async def test_hello_comes_with_the_list_in_one_request(gateway: FakeGateway, clock: HandClock) -> None:
    gateway.sessions = [{"key": KEY, "hasActiveRun": True, "activeRunIds": ["r"]}]
    ears = Ears()
    async with client_of(gateway, clock, ears) as client:
        await hello_of(ears)
        connection = await gateway.connected()
        assert [method for method, _ in connection.requests] == ["sessions.subscribe"]
        assert connection.requests[0][1]["limit"] > 0
        hello, keys, rebooted = ears.hellos[0]
        assert keys == [KEY]
        assert not rebooted
        assert hello.boot_id == gateway.boot_id
        assert client.hello == hello


async def test_a_long_list_is_read_to_its_end(gateway: FakeGateway, clock: HandClock) -> None:
    gateway.sessions = [{"key": f"agent:main:{place}"} for place in range(450)]
    gateway.page_rows = 100
    ears = Ears()
    async with client_of(gateway, clock, ears) as client:
        await hello_of(ears)
        assert ears.hellos[0][1] == [row["key"] for row in gateway.sessions]
        assert [row.key for row in await list_sessions(client)] == ears.hellos[0][1]


async def test_events_come_in_order_with_and_without_numbers(gateway: FakeGateway, clock: HandClock) -> None:
    ears = Ears()
    async with client_of(gateway, clock, ears):
        connection = await gateway.connected()
        for value in range(20):
            connection.tell("chat", {"number": value}, numbered=value % 3 > 0)
        await assert_eventually(lambda: len(ears.numbers()) == 20)
        assert ears.numbers() == list(range(20))
        assert ears.gaps == 0


async def test_a_number_that_is_missing_is_a_gap_told_before_what_follows(
    gateway: FakeGateway, clock: HandClock
) -> None:
    ears = Ears()
    async with client_of(gateway, clock, ears) as client:
        connection = await gateway.connected()
        await hello_of(ears)
        stream = client.claim("r")
        number(connection, 1)
        number(connection, 2)
        connection.skip()
        number(connection, 4)
        number(connection, 5)
        await assert_eventually(lambda: len(ears.numbers()) == 4)
        assert ears.order == ["hello", "1", "2", "gap", "4", "5"]
        stream.close()
        found = [item if isinstance(item, Gap) else item.payload["number"] async for item in stream]
        assert found == [1, 2, Gap("sequence"), 4, 5]


async def test_frames_that_come_twice_are_heard_once(gateway: FakeGateway, clock: HandClock) -> None:
    ears = Ears()
    async with client_of(gateway, clock, ears):
        connection = await gateway.connected()
        frames = [number(connection, value) for value in range(3)]
        for frame in frames:
            connection.again(frame)
        number(connection, 3)
        await assert_eventually(lambda: 3 in ears.numbers())
        assert ears.numbers() == [0, 1, 2, 3]
        assert ears.gaps == 0


async def test_the_first_number_may_be_any(gateway: FakeGateway, clock: HandClock) -> None:
    ears = Ears()
    async with client_of(gateway, clock, ears):
        connection = await gateway.connected()
        for _ in range(7):
            connection.skip()
        number(connection, 8)
        await assert_eventually(lambda: ears.numbers() == [8])
        assert ears.gaps == 0


async def test_a_listener_that_fails_stops_nobody(gateway: FakeGateway, clock: HandClock) -> None:
    class Broken(Ears):
        def on_event(self, event: Event) -> None:
            super().on_event(event)
            raise ValueError("a listener's own fault")

    ears = Broken()
    async with client_of(gateway, clock, ears) as client:
        connection = await gateway.connected()
        stream = client.claim("r")
        number(connection, 1)
        number(connection, 2)
        await assert_eventually(lambda: ears.numbers() == [1, 2])
        assert len(stream) == 2
        assert client.connected


async def test_a_burst_reaches_the_others_while_one_follower_sleeps(
    gateway: FakeGateway, clock: HandClock
) -> None:
    ears = Ears()
    count = STREAM_EVENTS + 2_000
    async with client_of(gateway, clock, ears) as client:
        connection = await gateway.connected()
        blocked, other = client.claim("blocked"), client.claim("other")
        for value in range(count):
            number(connection, value, "blocked")
            if value == 1_000:
                number(connection, -1, "other")
        number(connection, -2, "other")
        heard = [await anext(other), await anext(other)]
        assert [item.payload["number"] for item in heard if isinstance(item, Event)] == [-1, -2]
        # The calls go through as well, and the socket is the same.
        assert await list_sessions(client) == []
        assert len(gateway.connections) == 1
        blocked.close()
        kept = [item async for item in blocked]
        assert kept[0] == Gap("overflow")
        last = kept[-1]
        assert isinstance(last, Event)
        assert last.payload["number"] == count - 1
        assert len(kept) <= STREAM_EVENTS
        assert len(ears.numbers()) == count + 2


async def test_events_before_the_claim_are_kept_for_it(gateway: FakeGateway, clock: HandClock) -> None:
    ears = Ears()

    def send(params: dict[str, Any]) -> Any:
        # Its first events are faster than the answer.
        connection = gateway.connections[0]
        number(connection, 1, params["idempotencyKey"])
        number(connection, 2, params["idempotencyKey"])
        return {"runId": params["idempotencyKey"], "status": "started"}

    gateway.handlers["chat.send"] = send
    async with client_of(gateway, clock, ears) as client:
        await client.ready(10)
        sent = await calls.send_chat(client, KEY, "hello", "run-1")
        assert sent == calls.Sent("run-1", "started")
        stream = client.claim(sent.run_id)
        number(gateway.connections[0], 3, "run-1")
        items = [await anext(stream) for _ in range(3)]
        assert [item.payload["number"] for item in items if isinstance(item, Event)] == [1, 2, 3]
