"""A node with its MCP door on a real port, and the public client of the protocol in front of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import uvicorn
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette

from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.contract.questions import Question
from rejoinder.mcp.server import Door, route
from rejoinder.node import Node
from rejoinder.runs.tools import Tool
from tests.integration.nodes import ANN, running
from tests.support import assert_eventually

MODERN = "2026-07-28"
LEGACY = "legacy"


@dataclass
class Served:
    node: Node
    url: str
    key: str
    door: Door

    async def new_key(self, name: str, *grants: str, owner: str | None = None) -> str:
        _, secret = await self.node.access.create_key(
            name=name, grants=list(grants), owner=owner, by=LOCAL_OWNER
        )
        return secret

    async def questions(self, count: int) -> list[Question]:
        async def asked() -> list[Question] | None:
            found = await self.node.asks.page(by=ANN, limit=100)
            return found if len(found) >= count else None

        found = await assert_eventually(asked, f"{count} questions were not asked")
        assert found is not None
        return found

    async def question(self) -> Question:
        return (await self.questions(1))[0]

    async def answer(self, question: Question, value: Any) -> None:
        await self.node.asks.answer(question.id, value, by=ANN, via="test")


@asynccontextmanager
async def on_a_port(app: Starlette) -> AsyncIterator[str]:
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_config=None, lifespan="on", ws="none", timeout_graceful_shutdown=1)
    )
    serving = asyncio.create_task(server.serve())
    await assert_eventually(lambda: server.started or serving.done(), "the server did not start")
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def serving(
    url: str,
    *tools: Tool,
    worker: bool = False,
    progress: float = 0.05,
    key: str | None = None,
    **settings: Any,
) -> AsyncIterator[Served]:
    async with running(url, *tools, worker=worker, **settings) as node:
        made = route(node)
        door = made.endpoint
        assert isinstance(door, Door)
        door._progress_seconds = progress

        @asynccontextmanager
        async def lifespan(_app: Starlette) -> AsyncIterator[None]:
            async with door.run():
                yield

        if key is None:
            _, key = await node.access.create_key(name="owner", grants=["admin"], by=LOCAL_OWNER)
        async with on_a_port(Starlette(routes=[made], lifespan=lifespan)) as address:
            yield Served(node, address, key, door)


@asynccontextmanager
async def connected(
    served: Served,
    mode: str,
    key: str | None = None,
    *,
    elicit: Any = None,
    extensions: Any = None,
    sent: Any = None,
) -> AsyncIterator[Client]:
    """The client for both generations: ``MODERN`` or ``LEGACY``. ``elicit`` is its person, ``sent``
    is called with each request before it goes out."""
    headers = {"Authorization": f"Bearer {key or served.key}"}
    hooks = {"request": [sent]} if sent is not None else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False, event_hooks=hooks) as http,
        Client(
            streamable_http_client(f"{served.url}/mcp", http_client=http),
            mode=mode,
            elicitation_callback=elicit,
            extensions=extensions,
        ) as client,
    ):
        yield client
