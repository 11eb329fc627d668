"""What becomes of requests when a server stops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rejoinder.launch.drain import Drain, Message, Receive, Scope, Send


class Caller:
    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    async def receive(self) -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    def call(self, drain: Drain) -> asyncio.Task[None]:
        return asyncio.create_task(drain({"type": "http"}, self.receive, self.send))

    @property
    def status(self) -> Any:
        return self.messages[0].get("status")


async def _answer(send: Send, body: bytes = b"done") -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def test_a_request_that_ends_in_time_is_answered_and_later_ones_are_refused() -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        entered.set()
        await go_on.wait()
        await _answer(send)

    drain, early, late = Drain(app), Caller(), Caller()
    first = early.call(drain)
    await entered.wait()
    stopping = asyncio.create_task(drain.stop(60))
    await asyncio.sleep(0)
    await late.call(drain)
    assert late.status == 503
    go_on.set()
    await first
    await stopping
    assert early.status == 200


@pytest.mark.parametrize("grace", [0.0, 60.0])
async def test_a_stream_ends_at_once_and_whole(grace: float) -> None:
    entered = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"frame", "more_body": True})
        entered.set()
        await asyncio.Event().wait()

    drain, caller = Drain(app), Caller()
    streaming = caller.call(drain)
    await entered.wait()
    await drain.stop(grace)
    await streaming
    assert caller.messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_a_request_that_waits_is_cancelled_and_its_caller_told() -> None:
    entered, cleaned = asyncio.Event(), asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    drain, caller = Drain(app), Caller()
    waiting = caller.call(drain)
    await entered.wait()
    await drain.stop(0)
    await waiting
    assert cleaned.is_set()
    assert caller.status == 503
    assert b'"code":"stopping"' in caller.messages[1]["body"]


async def test_a_cancellation_that_is_not_ours_goes_on() -> None:
    entered = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        entered.set()
        await asyncio.Event().wait()

    drain, caller = Drain(app), Caller()
    waiting = caller.call(drain)
    await entered.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert caller.messages == []
