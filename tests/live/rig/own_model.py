"""A model for the Host's own connection, on the loop of the one who times it: it says the words of a turn."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self

from tests.live.rig.talk import Told, Turn, spoken

#: Its only model, as the Host lists it.
OWN = "plain"


class OwnModel:
    """An OpenAI-compatible server. The last message of a request is the name of the turn that it is to say."""

    def __init__(self, told: Told) -> None:
        self.turns: dict[str, Turn] = {}
        self.url = ""
        self._told = told

    @classmethod
    @contextlib.asynccontextmanager
    async def serving(cls, told: Told) -> AsyncIterator[Self]:
        model = cls(told)
        server = await asyncio.start_server(model._serve, "127.0.0.1", 0)
        model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        try:
            yield model
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            size = next(
                (
                    int(line.partition(":")[2])
                    for line in head.split("\r\n")
                    if line.lower().startswith("content-length:")
                ),
                0,
            )
            body = json.loads(await reader.readexactly(size)) if size else {}
            if " /v1/chat/completions " in head:
                await self._say(writer, body)
            else:
                listed = json.dumps({"object": "list", "data": [{"id": OWN, "object": "model"}]}).encode()
                writer.write(_head("application/json", f"Content-Length: {len(listed)}\r\n") + listed)
        writer.close()

    async def _say(self, writer: asyncio.StreamWriter, body: Mapping[str, Any]) -> None:
        turn = self.turns[body["messages"][-1]["content"]]
        writer.write(_head("text/event-stream"))

        def send(delta: Mapping[str, Any], finish: str | None = None) -> None:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            chunk = {
                "id": "x",
                "object": "chat.completion.chunk",
                "created": 0,
                "model": OWN,
                "choices": [choice],
            }
            writer.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

        async for word in spoken(turn):
            self._told.say(word)
            send({"content": word})
            await writer.drain()
        send({}, "stop")
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()
        turn.over = True


def _head(kind: str, more: str = "") -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n{more}\r\n".encode()
