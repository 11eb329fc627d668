"""A server of ours with questions of every kind, for a real browser. Also: ``python -m tests.live.demo`` to look at."""

from __future__ import annotations

import asyncio
import base64
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from rejoinder.contract.answers import SuspendedInteraction
from rejoinder.contract.identity import GRANTS, LOCAL_OWNER, Identity
from rejoinder.contract.questions import Question
from rejoinder.doors.app import create_app
from rejoinder.launch.serve import bind
from rejoinder.launch.serve import serving as server_of
from rejoinder.node import Node
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from tests.integration.nodes import running
from tests.support import assert_eventually

AGENT = Identity(name="release-bot", grants=frozenset(("read", "write")))


def picture(width: int = 320, height: int = 120) -> str:
    """A small PNG with a slope of colours, as a data: URL."""
    rows = b"".join(
        b"\0" + b"".join(bytes((20 + x * 90 // width, 110 + y, 120)) for x in range(width))
        for y in range(height)
    )

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    png = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(png).decode()


FORM: dict[str, Any] = {
    "type": "object",
    "required": ["reviewer", "decision", "at", "items"],
    "properties": {
        "reviewer": {"type": "string", "title": "Reviewer's e-mail", "format": "email"},
        "decision": {"title": "Decision", "enum": ["Approve", "Approve with changes", "Reject"]},
        "at": {
            "type": "string",
            "format": "date-time",
            "title": "Deploy at",
            "description": "When the window opens.",
        },
        "replicas": {"type": "integer", "title": "Replicas", "minimum": 1, "maximum": 12, "default": 3},
        "notify": {"type": "boolean", "title": "Tell the customers"},
        "regions": {
            "type": "array",
            "title": "Regions",
            "items": {"enum": ["eu-central", "us-east", "ap-south"]},
            "minItems": 1,
        },
        "window": {
            "type": "object",
            "title": "Maintenance window",
            "required": ["minutes"],
            "properties": {
                "minutes": {"type": "integer", "title": "Length in minutes", "minimum": 5},
                "note": {"type": "string", "title": "Note", "maxLength": 400},
            },
        },
        "items": {
            "type": "array",
            "title": "Changes",
            "minItems": 1,
            "items": {
                "type": "object",
                "title": "Change",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "title": "Name"},
                    "risk": {"title": "Risk", "enum": ["low", "medium", "high"]},
                },
            },
        },
    },
}


@tool(title="Deploy")
async def deploy(version: str) -> SuspendedInteraction:
    """Park on a confirmation."""
    return await ask(
        f"Deploy {version} to production?\n\n14 services change, 2 of them restart. Last deploy: 3 days ago.",
        answer_format="confirm",
        mode="async",
        expiry_at=datetime.now(UTC) + timedelta(days=2),
    )


@deploy.continuation
async def _deployed(answers: dict[Any, Any]) -> dict[str, Any]:
    return {"deployed": all(one.answer for one in answers.values())}


@tool(title="Vault")
async def unlock() -> bool:
    """Ask for a secret."""
    return bool(
        (await ask("The passphrase of the signing key?", sensitive=True, timeout=900)).answer.reveal()
    )


QUESTIONS: list[dict[str, Any]] = [
    {"question": "Delete the branch feature/old-login? It was merged 41 days ago and has no open pull request.",
     "answer_format": "confirm", "timeout": 420},
    {"question": "Which customers should get the incident mail?", "answer_format": "select", "timeout": 2400,
     "options": ["All of them", "Only those with an open ticket", "Those in eu-central", "Nobody yet"]},
    {"question": "What should the release note say about the slow imports?", "timeout": 5400,
     "options": ["Imports are up to four times faster.", "Nothing; it is internal."]},
    {"question": "Release 4.2: who reviews it, and when does it go out?", "answer_format": "form", "schema": FORM,
     "timeout": 14000},
    {"question": "Is this chart right for the front page?", "answer_format": "confirm", "timeout": 20000,
     "media": [{"kind": "image", "url": "PICTURE", "caption": "Sign-ups by week"},
               {"kind": "document", "url": "https://files.example.com/q3.pdf", "filename": "q3.pdf"},
               {"kind": "link", "url": "https://example.com/dashboards/7"}]},
    {"question": "Pick a time zone for the report", "answer_format": "select", "timeout": 90000,
     "options": [f"UTC{n:+d}" for n in range(-11, 13)]},
    {"question": "Pay invoice\u202e 0001\u202c of ACME <b>now</b>?\u200b See https://evil.example/approve",
     "answer_format": "confirm", "audience": "finance", "timeout": 100000},
    {"question": "Read the whole log before you answer: is it safe to go on?\n\n" + "\n".join(
        f"{n:03d} worker-{n % 7} finished batch {n} in {n * 37 % 900} ms" for n in range(120)), "timeout": 150000},
]  # fmt: skip


class Live:
    """The server under test: its node, its address, and the calls that wait."""

    def __init__(self, node: Node, url: str) -> None:
        self.node = node
        self.url = url
        self._calls: list[asyncio.Task[Any]] = []

    async def ask(self, question: str = "May I?", *, tool: str = "ask", **arguments: Any) -> Question:
        """Ask and leave the call waiting; the question as it was recorded."""
        given = {"question": question, **arguments} if tool == "ask" else arguments
        known = {one.id for one in await self.node.asks.page(by=AGENT, limit=200)}
        call = asyncio.create_task(self.node.run_service.call(tool, given, by=AGENT, door="test"))
        self._calls.append(call)

        async def recorded() -> Question | None:
            if call.done():
                call.result()
            return next(
                (q for q in await self.node.asks.page(by=AGENT, limit=200) if q.id not in known), None
            )

        found = await assert_eventually(recorded, "no question was asked")
        assert found is not None
        return found

    async def result(self, number: int = -1) -> Any:
        return (await self._calls[number]).result["answer"]

    async def fill(self) -> None:
        """One question of each kind."""
        for one in QUESTIONS:
            given = dict(one)
            for item in given.get("media", ()):
                item["url"] = picture() if item["url"] == "PICTURE" else item["url"]
            await self.ask(given.pop("question"), **given)
        await self.ask(tool="unlock")
        await self.node.run_service.start_background("deploy", {"version": "4.2.0"}, by=AGENT)

    async def key(self, name: str, **given: Any) -> str:
        _, secret = await self.node.access.create_key(
            name=name, by=LOCAL_OWNER, **({"grants": list(GRANTS)} | given)
        )
        return secret

    async def close(self) -> None:
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)


@asynccontextmanager
async def serving(database_url: str, *, port: int | None = None) -> AsyncIterator[Live]:
    async with running(database_url, deploy, unlock, worker=True) as node:
        address = bind("127.0.0.1", port or 0)
        async with server_of(create_app(node), address, grace=0):
            live = Live(node, f"http://localhost:{address.port}")
            try:
                yield live
            finally:
                await live.close()


async def _main() -> None:
    import tempfile
    from pathlib import Path

    from rejoinder.launch.embedded import EmbeddedServer
    from rejoinder.launch.paths import DataFolder
    from rejoinder.store.database import Database
    from rejoinder.store.migrate import migrate

    folder = Path(tempfile.mkdtemp(prefix="rj-", dir="/tmp"))
    folder.chmod(0o711)
    server = EmbeddedServer(DataFolder(folder))
    url = await asyncio.to_thread(server.start)
    try:
        await migrate(Database(url))
        async with serving(url) as live:
            await live.fill()
            print(live.url, await live.key("ann"), flush=True)
            await asyncio.Event().wait()
    finally:
        server.stop()


if __name__ == "__main__":
    asyncio.run(_main())
