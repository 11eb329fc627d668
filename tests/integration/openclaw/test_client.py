"""The client against a Gateway over a real socket: it comes back, loses nothing silently, and waits for nobody."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from rejoinder.openclaw import calls
from rejoinder.openclaw.client import LONGEST_PAUSE, GatewayClient
from rejoinder.openclaw.connection import CONNECT_SECONDS, RECEIVE_SECONDS, Drop
from rejoinder.openclaw.device import Device
from rejoinder.openclaw.errors import CallFailed, Dropped, NotConnected, Refused, TimedOut
from rejoinder.openclaw.frames import Event
from rejoinder.openclaw.handshake import READ, WRITE, Access, Hello
from rejoinder.openclaw.history import HISTORY_SECONDS, read_history
from rejoinder.openclaw.sessions import Row, describe_session, list_sessions
from rejoinder.openclaw.streams import STREAM_EVENTS, Gap
from tests.fake_gateway import (
    BAD_SIGNATURE,
    NEVER,
    STARTING,
    TOKEN,
    TOKEN_MISMATCH,
    FakeConnection,
    FakeGateway,
    Fault,
    HandClock,
    Twice,
    not_paired,
)
from tests.support import assert_eventually

KEY = "agent:main:chat"


class Ears:
    """A listener that keeps what it heard, in its order."""

    def __init__(self) -> None:
        self.hellos: list[tuple[Hello, list[str], bool]] = []
        self.events: list[Event] = []
        self.gaps = 0
        self.drops: list[Drop] = []
        self.refusals: list[Refused] = []
        self.order: list[str] = []

    def on_hello(self, hello: Hello, sessions: Sequence[Row], rebooted: bool) -> None:
        self.hellos.append((hello, [row.key for row in sessions], rebooted))
        self.order.append("hello")

    def on_event(self, event: Event) -> None:
        self.events.append(event)
        self.order.append(str(event.payload.get("number", event.name)))

    def on_gap(self) -> None:
        self.gaps += 1
        self.order.append("gap")

    def on_drop(self, drop: Drop) -> None:
        self.drops.append(drop)
        self.order.append("drop")

    def on_refused(self, refused: Refused) -> None:
        self.refusals.append(refused)
        self.order.append("refused")

    def numbers(self) -> list[int]:
        return [event.payload["number"] for event in self.events if "number" in event.payload]


@pytest.fixture
async def gateway() -> AsyncIterator[FakeGateway]:
    async with FakeGateway() as server:
        yield server


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@contextlib.asynccontextmanager
async def client_of(
    gateway: FakeGateway, clock: HandClock, ears: Ears | None = None, **access: Any
) -> AsyncIterator[GatewayClient]:
    given = {"url": gateway.url, "token": TOKEN, **access}
    async with GatewayClient(Access(**given), ears, clock=clock) as client:
        yield client


async def hello_of(ears: Ears, count: int = 1) -> None:
    await assert_eventually(lambda: len(ears.hellos) >= count, f"there was no hello number {count}")


async def resting(clock: HandClock, seconds: float) -> None:
    """Wait until the client pauses for so long, then let the time pass."""
    await assert_eventually(lambda: seconds in clock.pauses, f"nobody waits for {seconds} s")
    clock.advance(seconds)


def number(connection: FakeConnection, value: int, run_id: str = "r") -> dict[str, Any]:
    payload = {"runId": run_id, "sessionKey": KEY, "state": "delta", "number": value}
    return connection.tell("chat", payload)


# The list and the events.


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


# Calls.


async def test_calls_that_wait_fail_at_once_when_the_line_breaks(
    gateway: FakeGateway, clock: HandClock
) -> None:
    gateway.handlers["chat.history"] = lambda params: NEVER
    ears = Ears()
    async with client_of(gateway, clock, ears) as client:
        await hello_of(ears)
        connection = await gateway.connected()
        waiting = [asyncio.ensure_future(read_history(client, KEY)) for _ in range(5)]
        await assert_eventually(lambda: len(connection.requests) == 6)
        connection.abort()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(result, Dropped) for result in results), results
        assert [drop.why for drop in ears.drops] == ["lost"]
        with pytest.raises(NotConnected):
            await client.call("sessions.list", {})


async def test_a_call_that_is_not_answered_times_out_and_its_late_answer_is_nobodys(
    gateway: FakeGateway, clock: HandClock
) -> None:
    gateway.handlers["chat.history"] = lambda params: NEVER
    async with client_of(gateway, clock) as client:
        await client.ready(10)
        connection = await gateway.connected()
        waiting = asyncio.ensure_future(read_history(client, KEY))
        await assert_eventually(lambda: len(connection.requests) == 2)
        connection.tell("tick", {"ts": 1})
        await assert_eventually(lambda: HISTORY_SECONDS in clock.pauses)
        clock.advance(HISTORY_SECONDS)
        with pytest.raises(TimedOut):
            await waiting
        connection.answer({"type": "res", "id": "3", "ok": True, "payload": {"messages": []}})
        assert await list_sessions(client) == []


async def test_an_error_answer_is_told_in_the_gateways_words(gateway: FakeGateway, clock: HandClock) -> None:
    async with client_of(gateway, clock) as client:
        await client.ready(10)
        with pytest.raises(CallFailed, match=r"unknown method: no\.such\.method") as caught:
            await client.call("no.such.method")
        assert caught.value.code == "INVALID_REQUEST"
        assert not caught.value.retryable


async def test_a_draining_gateway_refuses_calls_while_its_events_flow(
    gateway: FakeGateway, clock: HandClock
) -> None:
    ears = Ears()
    async with client_of(gateway, clock, ears) as client:
        await hello_of(ears)
        gateway.draining = True
        with pytest.raises(CallFailed) as caught:
            await calls.abort_chat(client, KEY)
        assert caught.value.restarting
        assert (caught.value.retryable, caught.value.retry_after) == (True, 1.0)
        connection = gateway.connections[0]
        number(connection, 1)
        connection.tell("shutdown", {"reason": "gateway restarting", "restartExpectedMs": 1500})
        await assert_eventually(lambda: client.shutdown is not None)
        await connection.drop(1012, "service restart")
        await assert_eventually(lambda: bool(ears.drops))
        assert ears.drops[0].why == "restart"
        assert ears.drops[0].shutdown == {"reason": "gateway restarting", "restartExpectedMs": 1500}
        assert ears.numbers() == [1]


async def test_an_agents_call_is_answered_twice(gateway: FakeGateway, clock: HandClock) -> None:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    gateway.handlers["agent"] = lambda params: Twice(
        {"runId": params["idempotencyKey"], "status": "accepted"}, done
    )
    async with client_of(gateway, clock) as client:
        await client.ready(10)
        call = await calls.run_agent(client, KEY, "hello", "run-1")
        assert call.accepted["runId"] == "run-1"
        assert not call.done.done()
        done.set_result({"runId": "run-1", "status": "ok"})
        assert (await call.done)["status"] == "ok"


@pytest.mark.parametrize("accepted_first", [True, False])
async def test_an_agents_call_that_fails_says_so(
    gateway: FakeGateway, clock: HandClock, accepted_first: bool
) -> None:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    fault = Fault({"code": "UNAVAILABLE", "message": "the agent is away"})
    gateway.handlers["agent"] = lambda params: (
        Twice({"status": "accepted"}, done) if accepted_first else fault
    )
    async with client_of(gateway, clock) as client:
        await client.ready(10)
        if not accepted_first:
            with pytest.raises(CallFailed, match="the agent is away"):
                await calls.run_agent(client, KEY, "hello", "run-1")
            return
        call = await calls.run_agent(client, KEY, "hello", "run-1")
        done.set_result(fault)
        with pytest.raises(CallFailed, match="the agent is away"):
            await call.done


async def test_an_agents_call_breaks_with_the_line(gateway: FakeGateway, clock: HandClock) -> None:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    gateway.handlers["agent"] = lambda params: Twice({"status": "accepted"}, done)
    async with client_of(gateway, clock) as client:
        await client.ready(10)
        call = await calls.run_agent(client, KEY, "hello", "run-1")
        gateway.connections[0].abort()
        with pytest.raises(Dropped):
            await call.done


async def test_the_typed_calls_say_and_read_what_the_gateway_speaks(
    gateway: FakeGateway, clock: HandClock
) -> None:
    asked: dict[str, dict[str, Any]] = {}

    def answers(method: str, reply: Any) -> None:
        def handler(params: dict[str, Any]) -> Any:
            asked[method] = params
            return reply

        gateway.handlers[method] = handler

    answers("chat.send", {"runId": "r", "status": "in_flight", "interruptedActiveRun": True})
    answers("chat.abort", {"ok": True, "aborted": True, "runIds": ["r"]})
    answers("models.list", {"models": [{"id": "m.1", "provider": "p", "name": "Model"}, {"id": 3}]})
    answers("sessions.describe", {"session": {"key": KEY, "status": "done"}})
    answers("cron.list", {"jobs": [{"id": "j"}]})
    answers("cron.add", {"id": "j"})
    answers("cron.run", {"ok": True, "enqueued": True, "runId": "manual:j:1:1"})
    answers("cron.remove", {"ok": True})
    async with client_of(gateway, clock) as client:
        await client.ready(10)
        sent = await calls.send_chat(
            client, KEY, "hi", "r", queue_mode="interrupt", thinking="low", receipt="who"
        )
        assert sent == calls.Sent("r", "in_flight", interrupted=True)
        assert asked["chat.send"] == {
            "sessionKey": KEY,
            "message": "hi",
            "idempotencyKey": "r",
            "queueMode": "interrupt",
            "thinking": "low",
            "systemProvenanceReceipt": "who",
        }
        assert await calls.abort_chat(client, KEY, "r") == calls.Aborted(True, ("r",))
        assert asked["chat.abort"] == {"sessionKey": KEY, "runId": "r"}
        assert [(model.ref, model.name) for model in await calls.list_models(client)] == [("p/m.1", "Model")]
        described = await describe_session(client, KEY)
        assert described is not None
        assert (described.status, described.has_active_run) == ("done", None)
        assert await calls.list_jobs(client) == [{"id": "j"}]
        assert await calls.add_job(client, {"name": "x"}) == "j"
        assert await calls.run_job(client, "j") == "manual:j:1:1"
        await calls.remove_job(client, "j")
        assert asked["cron.run"] == {"id": "j", "mode": "force"}


async def test_a_history_is_read_to_its_beginning_and_names_the_run_in_flight(
    gateway: FakeGateway, clock: HandClock
) -> None:
    rows = [{"role": "assistant", "content": str(place)} for place in range(5)]

    def history(params: dict[str, Any]) -> Any:
        offset = params.get("offset", 0)
        end = len(rows) - offset
        start = max(0, end - 2)
        return {
            "sessionKey": KEY,
            "sessionId": "s",
            "messages": rows[start:end],
            "hasMore": start > 0,
            "nextOffset": offset + 2 if start > 0 else None,
            "sessionInfo": {"hasActiveRun": True, "status": "running"},
            "inFlightRun": {"runId": "r", "text": "so far", "events": [{"stream": "tool"}], "startedAt": 7},
        }

    gateway.handlers["chat.history"] = history
    async with client_of(gateway, clock) as client:
        await client.ready(10)
        found = await read_history(client, KEY, limit=2)
        assert list(found.rows) == rows
        assert found.in_flight is not None
        assert (found.in_flight.run_id, found.in_flight.text, found.in_flight.started_at) == (
            "r",
            "so far",
            7,
        )
        assert found.session is not None
        assert found.session.has_active_run
        newest = await read_history(client, KEY, limit=2, pages=1)
        assert list(newest.rows) == rows[-2:]


# Coming back.


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


# Refusals.


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
