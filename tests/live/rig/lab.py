"""The lab pipe inside a running Host: what a Function may do there, on a test's order."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from tests.live.rig.host import Host

_SOURCE = Path(__file__).with_name("lab_pipe.py")
MODEL = "lab.main"


class Lab:
    """An installed lab pipe."""

    def __init__(self, host: Host) -> None:
        self.host = host

    @classmethod
    async def install(cls, host: Host) -> Lab:
        models = await host.install("lab", _SOURCE.read_text("utf-8"))
        assert MODEL in models
        return cls(host)

    async def order(self, name: str, **given: Any) -> str:
        """Have the pipe do something, without a chat."""
        return await self.host.ask(MODEL, json.dumps({"do": name, **given}))

    async def chat(self) -> tuple[str, str]:
        """A chat with one question and its answer; the ids of the chat and of the answer."""
        chat_id = await self.host.new_chat(MODEL)
        _, reply = await self.host.send(chat_id, MODEL, "first question")
        await self.host.finished(chat_id, reply)
        return chat_id, reply

    async def begin(self, chat_id: str, message: str | None = None) -> tuple[str, str]:
        """Begin a message that nobody asked for; its id and the gate that lets it end."""
        message, gate = message or str(uuid.uuid4()), str(uuid.uuid4())
        given = {"chat": chat_id, "message": message, "user": self.host.user_id, "gate": gate}
        await self.order("write", **given)
        return message, gate

    async def release(self, gate: str) -> None:
        await self.order("release", gate=gate)

    async def notes(self) -> list[list[str]]:
        """What the writers noted: `[written | stopped | claimed already, message]`."""
        found: list[list[str]] = json.loads(await self.order("notes"))
        return found
