"""The HTTP application in the test's own process, over memory or over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from fastapi import FastAPI

from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.doors.app import create_app
from rejoinder.launch.serve import bind, serving
from rejoinder.node import Node
from rejoinder.runs.tools import Tool
from tests.integration.nodes import running
from tests.support import assert_eventually, client

BASE = "http://127.0.0.1"


@dataclass
class Edge:
    """``owner`` is a client with every grant. ``client(name, ...)`` makes a key and a client that sends it."""

    node: Node
    app: FastAPI
    owner: httpx2.AsyncClient
    base: str
    transport: httpx2.AsyncBaseTransport | None

    def anonymous(self, **headers: str) -> httpx2.AsyncClient:
        if self.transport is None:
            return client(self.base)
        return httpx2.AsyncClient(base_url=self.base, transport=self.transport, headers=headers)

    async def key(self, name: str, *grants: str, owner: str | None = None) -> str:
        _, secret = await self.node.access.create_key(
            name=name, grants=list(grants), owner=owner, by=LOCAL_OWNER
        )
        return secret

    async def client(self, name: str, *grants: str, owner: str | None = None) -> httpx2.AsyncClient:
        made = self.anonymous()
        made.headers["authorization"] = f"Bearer {await self.key(name, *grants, owner=owner)}"
        return made

    async def ask(self, who: httpx2.AsyncClient | None = None, **arguments: Any) -> Asked:
        """Call the builtin ask and wait until its question is open."""
        known = await self.open_ids()
        call = asyncio.create_task(
            (who or self.owner).post(
                "/api/run-tool", json={"tool_name": "ask", "arguments": {"question": "?"} | arguments}
            )
        )

        async def new() -> str | None:
            if call.done():
                raise AssertionError(call.result().text)
            fresh = await self.open_ids() - known
            return fresh.pop() if fresh else None

        identifier = await assert_eventually(new, "no question was asked")
        assert identifier is not None
        return Asked(identifier, call)

    async def open_ids(self) -> set[str]:
        rows = await self.node.database.rows("SELECT id FROM rejoinder.question WHERE state = 'pending'")
        return {str(row["id"]) for row in rows}

    async def state(self, identifier: str) -> str:
        return str(
            await self.node.database.value(
                "SELECT state FROM rejoinder.question WHERE id::text = $1", identifier
            )
        )


@dataclass
class Asked:
    id: str
    call: asyncio.Task[httpx2.Response]

    async def end(self) -> None:
        self.call.cancel()
        await asyncio.gather(self.call, return_exceptions=True)


@asynccontextmanager
async def edge(url: str, *tools: Tool, worker: bool = False, **settings: Any) -> AsyncIterator[Edge]:
    """Over memory."""
    async with running(url, *tools, worker=worker, **settings) as node:
        app = create_app(node)
        # A fault of ours is answered, not raised into the test: the tests read the answer.
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(base_url=BASE, transport=transport) as owner:
            made = Edge(node, app, owner, BASE, transport)
            owner.headers["authorization"] = f"Bearer {await made.key('owner', 'read', 'write', 'admin')}"
            yield made


@asynccontextmanager
async def served(url: str, *tools: Tool, worker: bool = False, **settings: Any) -> AsyncIterator[Edge]:
    """Over a socket, where connections break."""
    async with running(url, *tools, worker=worker, **settings) as node:
        app = create_app(node)
        address = bind("127.0.0.1", 0)
        async with serving(app, address, grace=0), client(address.url) as owner:
            made = Edge(node, app, owner, address.url, None)
            owner.headers["authorization"] = f"Bearer {await made.key('owner', 'read', 'write', 'admin')}"
            yield made
