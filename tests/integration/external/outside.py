"""What the tests of external questions share: tools that ask them, and an outside system that keeps their links."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from rejoinder import ask, tool
from rejoinder.asks.tickets import digest_of
from rejoinder.runs.tools import Tool
from tests.integration.doors.edge import Asked, Edge, edge

BASE = "https://ask.example.org"
DOOR = "/api/interactions/callback/"
SECRET = "the bridge's own secret"
VARIABLE = "BRIDGE_SECRET"
SHARED = {"verifier": "shared_secret", "config": {"header": "X-Bridge", "secret_env": VARIABLE}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"decision": {"const": "confirmed"}, "count": {"type": "integer"}},
    "required": ["decision"],
}
GOOD = {"decision": "confirmed"}
#: These tests are one client that knocks very often.
UNLIMITED = {"interactions_callback": {"limit": 100_000, "burst": 100_000}}
NOT_FOUND = {"error": "not found", "code": "not-found"}


class Outside:
    """An outside system: it was told callback URLs, and sends people to pages of its own."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    async def page(self, callback_url: str) -> str:
        self.urls.append(callback_url)
        return f"https://sign.example/documents/{len(self.urls)}?back={callback_url}"

    @property
    def ticket(self) -> str:
        return self.urls[-1].rpartition("/")[2]

    @property
    def door(self) -> str:
        return DOOR + self.ticket

    def tool(self, name: str, **asked: Any) -> Tool:
        """A tool that asks an external question whose link this system makes."""
        given: dict[str, Any] = {"answer_format": "external", "link": self.page} | asked

        async def sign() -> Any:
            answer: Any = await ask("Sign the contract?", **given)
            return answer.as_json()

        return tool(name=name)(sign)


@asynccontextmanager
async def outside(url: str, *tools: Tool, **settings: Any) -> AsyncIterator[tuple[Edge, Outside]]:
    """An edge with the tools ``sign`` (no schema, no verifier), ``checked`` (a schema) and ``bound`` (a schema and a
    shared secret), all of one outside system."""
    system = Outside()
    made = [
        system.tool("sign"),
        system.tool("checked", schema=SCHEMA),
        system.tool("bound", schema=SCHEMA, verifier=SHARED),
        *tools,
    ]
    given = {"interactions_public_base_url": BASE, "tai_rate_limit_families": UNLIMITED} | settings
    async with edge(url, *made, **given) as e:
        yield e, system


async def result(asked: Asked) -> Any:
    reply = await asyncio.wait_for(asked.call, 20)
    assert reply.status_code == 200, reply.text
    return reply.json()["data"]["result"]


async def with_ticket(e: Edge, **asked: Any) -> tuple[Asked, str]:
    """A question of any format, as a channel would send it out: with a ticket. ``(asked, path)``."""
    question = await e.ask(**asked)
    ticket = await e.node.office.make(None)
    assert await e.node.tickets.add(UUID(question.id), digest_of(ticket)) == "made"
    return question, DOOR + ticket


def proof(**headers: str) -> dict[str, str]:
    return {"x-bridge": SECRET, **headers}


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
