"""Calls are answered, fail in words, or fail at once when the line breaks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rejoinder.openclaw import calls
from rejoinder.openclaw.errors import CallFailed, Dropped, NotConnected, TimedOut
from rejoinder.openclaw.history import HISTORY_SECONDS, read_history
from rejoinder.openclaw.sessions import describe_session, list_sessions
from tests.fake_gateway import (
    NEVER,
    FakeGateway,
    Fault,
    HandClock,
    Twice,
)
from tests.integration.openclaw.ears import KEY, Ears, client_of, hello_of, number
from tests.support import assert_eventually


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


async def test_texts_that_the_gateway_cut_are_read_in_full(gateway: FakeGateway, clock: HandClock) -> None:
    whole = "a long answer " * 50_000
    cut = {
        "role": "assistant",
        "content": [{"type": "text", "text": whole[:500_000] + "\n...(truncated)..."}],
        "__openclaw": {"id": "m1", "runId": "r"},
    }
    lost = {**cut, "__openclaw": {"id": "m2", "runId": "r"}}
    asked: list[dict[str, Any]] = []

    def history(params: dict[str, Any]) -> Any:
        asked.append(params)
        return {"sessionKey": KEY, "messages": [cut, lost]}

    def message(params: dict[str, Any]) -> Any:
        if params["messageId"] == "m2":
            return {"ok": False, "unavailableReason": "oversized"}
        return {"ok": True, "message": {**cut, "content": [{"type": "text", "text": whole}]}}

    gateway.handlers["chat.history"] = history
    gateway.handlers["chat.message.get"] = message
    async with client_of(gateway, clock) as client:
        await client.ready(10)
        found = await read_history(client, KEY)
        assert found.rows[0]["content"][0]["text"] == whole
        assert found.rows[0]["__openclaw"] == cut["__openclaw"]
        assert found.rows[1] == lost
        assert asked[0]["maxChars"] == 500_000
        # A Gateway that does not know the call.
        del gateway.handlers["chat.message.get"]
        assert list((await read_history(client, KEY)).rows) == [cut, lost]
