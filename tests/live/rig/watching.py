"""A chat's session on a real Gateway: it is talked to, recorded, and replayed; what must come out is its transcript."""

from __future__ import annotations

import asyncio
import contextlib
import io
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from rejoinder.openclaw.client import GatewayClient
from rejoinder.openclaw.history import read_history
from rejoinder.openclaw.record import record
from rejoinder.openclaw.recording import Recorder, parse
from rejoinder.openclaw.replay import Message, replay
from tests.live.rig.gateway import Gateway
from tests.live.rig.hearing import Hearing
from tests.live.rig.model import Step, prompt
from tests.support import assert_eventually

#: A message as a test expects it: its text's words, and its cards as "name status".
Shown = tuple[str, list[str]]


class Session:
    """One chat's session: its key, and messages of a user with the ids of their replies."""

    def __init__(self) -> None:
        self.chat = str(uuid.uuid4())
        self.key = f"agent:main:openwebui-{uuid.uuid4()}-{self.chat}"

    def reply(self) -> tuple[str, str]:
        """A new message's id, and the id of the run that is its reply."""
        message = str(uuid.uuid4())
        return message, f"msg-{self.chat}-{message}-1"


class Watch:
    """A client that talks (``client``, ``heard``), and the product's own recording of everything beside it."""

    def __init__(self, client: GatewayClient, heard: Hearing) -> None:
        self.client = client
        self.heard = heard
        self.output = io.StringIO()
        self.stop = asyncio.Event()
        self.recorded = asyncio.Event()
        self.recording: asyncio.Task[None] | None = None

    @property
    def version(self) -> str:
        """The Gateway's."""
        return self.client.hello.version if self.client.hello else ""

    def listen(self, words: str) -> None:
        """What the recording says to the person who makes it."""
        if words.startswith("Connected"):
            self.recorded.set()
        elif words.startswith("The connection ended"):
            self.recorded.clear()

    async def send(
        self, session: Session, *steps: Step, lead: str = "Please go on.", **more: Any
    ) -> tuple[str, str]:
        """A user's message; its reply's id and run id."""
        message, run = session.reply()
        params = {"sessionKey": session.key, "idempotencyKey": run, "message": prompt(*steps, lead=lead)}
        await self.client.call("chat.send", {**params, **more})
        return message, run

    async def ask(self, session: Session, *steps: Step, **more: Any) -> tuple[str, Mapping[str, Any]]:
        """A run of the agent's own, and wait for its end; its id and the second answer."""
        run, done = await self.begin(session, *steps, **more)
        return run, await asyncio.wait_for(done, 60)

    async def begin(self, session: Session, *steps: Step, **more: Any) -> tuple[str, asyncio.Future[Any]]:
        """A run of the agent's own; its id and its end."""
        run = str(uuid.uuid4())
        params = {
            "sessionKey": session.key,
            "idempotencyKey": run,
            "message": prompt(*steps),
            "deliver": False,
        }
        call = await self.client.call_long("agent", {**params, **more})
        return run, call.done

    async def idle(self, session: Session) -> None:
        """Until the Gateway lists the session as one in which nothing runs."""

        async def quiet() -> bool:
            listed = await self.client.call("sessions.list", {"limit": 200})
            row = next((one for one in listed["sessions"] if one["key"] == session.key), None)
            return row is not None and not row.get("hasActiveRun") and row.get("status") != "running"

        await assert_eventually(quiet, "the session did not come to rest", 60)

    async def ended_beside(self, session: Session) -> None:
        """Until a sub-agent of the session has ended."""

        async def over() -> bool:
            listed = await self.client.call("sessions.list", {"limit": 200})
            children = [one for one in listed["sessions"] if one.get("spawnedBy") == session.key]
            return any(one.get("status") == "done" for one in children)

        await assert_eventually(over, "no sub-agent ended", 60)

    async def said(self, session: Session, words: str) -> None:
        """Until the transcript has these words of the agent's, and nothing runs any more."""

        async def there() -> bool:
            history = await read_history(self.client, session.key)
            own = [row for row in history.rows if row.get("role") == "assistant"]
            return any(words in str(row.get("content")) for row in own)

        await assert_eventually(there, f"“{words}” is not in the transcript", 60)
        await self.idle(session)

    async def replayed(self, session: Session) -> list[Message]:
        """End the recording and replay it; the session's messages."""
        await asyncio.wait_for(self.recorded.wait(), 60)
        self.stop.set()
        assert self.recording is not None
        await self.recording
        found: list[Message] = list(replay(parse(self.output.getvalue().split("\n"))).get(session.key, ()))
        assert len({one.id for one in found}) == len(found)
        assert all(one.done for one in found)
        history = await read_history(self.client, session.key)
        _same_as_transcript(found, history.rows)
        return found


def shown(messages: Sequence[Message]) -> list[Shown]:
    """The messages as a test expects them."""
    return [
        (" ".join(one.text.split()), [f"{card.name} {card.status}" for card in one.cards]) for one in messages
    ]


def _same_as_transcript(messages: Sequence[Message], rows: Sequence[Mapping[str, Any]]) -> None:
    """Read in the plainest way: every call of a tool is a card, in order; every word is in a message."""
    called: list[str] = []
    words = " ".join(" ".join(one.text.split()) for one in messages)
    for row in rows:
        if row.get("role") != "assistant" or not isinstance(row.get("content"), list):
            continue
        for block in row["content"]:
            if block.get("type") == "toolCall":
                called.append(block["name"])
            text = " ".join(str(block.get("text") or "").split())
            assert text == "NO_REPLY" or text in words
    assert [card.name for one in messages for card in one.cards] == called


@contextlib.asynccontextmanager
async def watching(gateway: Gateway, *, url: str | None = None) -> AsyncIterator[Watch]:
    """Talk to the Gateway and record it. ``url``: by another way, such as a wire."""
    access = gateway.access(url=url or gateway.url)
    heard = Hearing()
    async with GatewayClient(access, heard) as client:
        await client.ready(60)
        watch = Watch(client, heard)
        watch.recording = asyncio.create_task(
            record(access, Recorder(watch.output), watch.stop, say=watch.listen)
        )
        try:
            await asyncio.wait_for(watch.recorded.wait(), 60)
            yield watch
        finally:
            watch.recording.cancel()
            await asyncio.wait((watch.recording,))
