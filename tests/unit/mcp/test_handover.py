"""Whether an end has left on its request's stream, by what the server and the connection say."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from starlette.types import Message

from rejoinder.mcp.handover import Handover

RESULT = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
ERROR = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}'
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"result":1,"error":2}}'
ASKS = b'{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"result"}}'


def frame(data: bytes) -> Message:
    return body(b"event: message\r\ndata: " + data + b"\r\n\r\n", more=True)


def body(data: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


class Connection:
    """What is sent, and a client that closes."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.gone = asyncio.Event()
        self.heard = asyncio.Event()
        self.stuck: asyncio.Event | None = None

    async def send(self, message: Message) -> None:
        if self.stuck is not None:
            await self.stuck.wait()
        self.sent.append(message)

    async def receive(self) -> Message:
        self.heard.set()
        await self.gone.wait()
        return {"type": "http.disconnect"}


@pytest.mark.parametrize(
    "result", [frame(RESULT), frame(ERROR), body(RESULT)], ids=["frame", "error", "whole"]
)
async def test_a_result_that_was_sent_has_left(result: Message) -> None:
    connection, handover = Connection(), Handover()
    say, hear = handover.sending(connection.send), handover.hearing(connection.receive)
    assert not handover.failed
    handover.telling = uuid4()
    assert handover.failed
    await say(result)
    assert not handover.failed
    # A client that has what it wanted closes, and has it all the same.
    connection.gone.set()
    await hear()
    await say(body(b""))
    assert handover.closed
    assert not handover.failed


@pytest.mark.parametrize(
    "other",
    [
        {"type": "http.response.start", "status": 200, "headers": []},
        frame(PROGRESS),
        frame(ASKS),
        body(b": ping\r\n\r\n", more=True),
        body(b""),
        frame(b"[1]"),
        frame(b"no json"),
    ],
)
async def test_nothing_else_is_a_result(other: Message) -> None:
    connection, handover = Connection(), Handover()
    say = handover.sending(connection.send)
    handover.telling = uuid4()
    await say(other)
    assert handover.failed
    assert connection.sent == [other]


async def test_a_result_of_which_nobody_was_told_is_passed_on() -> None:
    connection, handover = Connection(), Handover()
    await handover.sending(connection.send)(frame(RESULT))
    assert connection.sent == [frame(RESULT)]
    assert not handover.failed


async def test_a_result_behind_a_closed_connection_has_not_left() -> None:
    """A server drops what is sent to a closed connection, and says nothing."""
    connection, handover = Connection(), Handover()
    hearing: asyncio.Task[Any] = asyncio.create_task(_hear(handover, connection))
    handover.telling = uuid4()
    await connection.heard.wait()
    # Heard in the very turn in which the result is sent.
    connection.gone.set()
    await handover.sending(connection.send)(frame(RESULT))
    assert handover.failed
    await hearing


async def test_a_connection_that_closes_while_the_result_waits_to_be_sent() -> None:
    connection, handover = Connection(), Handover()
    connection.stuck = asyncio.Event()
    hearing: asyncio.Task[Any] = asyncio.create_task(_hear(handover, connection))
    handover.telling = uuid4()
    sending = asyncio.ensure_future(handover.sending(connection.send)(frame(RESULT)))
    connection.gone.set()
    await hearing
    connection.stuck.set()
    await sending
    assert handover.failed


async def _hear(handover: Handover, connection: Connection) -> None:
    await handover.hearing(connection.receive)()
