"""The HTTP application in the test's own process, over memory or over a real socket."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import jsonschema_rs
from fastapi import FastAPI

from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.doors.app import create_app
from rejoinder.launch.serve import bind, serving
from rejoinder.node import Node
from rejoinder.runs.tools import Tool
from tests.integration.nodes import running
from tests.support import assert_eventually, client

BASE = "http://127.0.0.1"


class Documented:
    """Holds every answer of the API against the OpenAPI document: its status and its body are what that says."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._paths = [(re.compile(re.sub(r"{\w+}", "[^/]+", path)), path) for path in document["paths"]]
        # A fixed path counts before one with a parameter, as it does when a route is looked for.
        self._paths.sort(key=lambda entry: "{" in entry[1])

    async def __call__(self, response: httpx2.Response) -> None:
        request = response.request
        operation = self._operation(request.url.path, request.method.lower())
        if operation is None or response.headers.get("content-type") != "application/json":
            return
        content = await response.aread()
        status = str(response.status_code)
        assert status in operation["responses"], f"{status} is not documented: {response.text}"
        if content:
            schema = operation["responses"][status]["content"]["application/json"]["schema"]
            whole = schema | {"components": self._document["components"]}
            jsonschema_rs.validator_for(whole, validate_formats=True).validate(response.json())

    def _operation(self, path: str, method: str) -> dict[str, Any] | None:
        for pattern, template in self._paths:
            if pattern.fullmatch(path):
                found: dict[str, Any] | None = self._document["paths"][template].get(method)
                return found
        return None


@dataclass
class Edge:
    """``owner`` is a client with every grant. ``client(name, ...)`` makes a key and a client that sends it."""

    node: Node
    app: FastAPI
    owner: httpx2.AsyncClient
    base: str
    transport: httpx2.AsyncBaseTransport | None
    check: Documented | None = None

    def anonymous(self, **headers: str) -> httpx2.AsyncClient:
        if self.transport is None:
            return client(self.base)
        assert self.check is not None
        return httpx2.AsyncClient(
            base_url=self.base,
            transport=self.transport,
            headers=headers,
            event_hooks={"response": [self.check]},
        )

    async def key(self, name: str, *grants: str, owner: str | None = None) -> str:
        _, secret = await self.node.access.create_key(
            name=name, grants=list(grants), owner=owner, by=LOCAL_OWNER
        )
        return secret

    async def client(self, name: str, *grants: str, owner: str | None = None) -> httpx2.AsyncClient:
        made = self.anonymous()
        made.headers["authorization"] = f"Bearer {await self.key(name, *grants, owner=owner)}"
        return made

    async def ask(self, who: httpx2.AsyncClient | None = None, /, **arguments: Any) -> Asked:
        """Call the builtin ask and wait until its question is open."""
        return await self.call("ask", {"question": "?"} | arguments, who)

    async def call(
        self, tool: str, arguments: dict[str, Any], who: httpx2.AsyncClient | None = None
    ) -> Asked:
        """Call a tool that asks, and wait until its question is open."""
        known = await self.open_ids()
        call = asyncio.create_task(
            (who or self.owner).post("/api/run-tool", json={"tool_name": tool, "arguments": arguments})
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
        check = Documented(app.openapi())
        # A fault of ours is answered, not raised into the test: the tests read the answer.
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        hooks: dict[str, list[Any]] = {"response": [check]}
        async with httpx2.AsyncClient(base_url=BASE, transport=transport, event_hooks=hooks) as owner:
            made = Edge(node, app, owner, BASE, transport, check)
            owner.headers["authorization"] = f"Bearer {await made.key('owner', 'read', 'write', 'admin')}"
            yield made


@asynccontextmanager
async def served(
    url: str, *tools: Tool, worker: bool = False, port: int = 0, **settings: Any
) -> AsyncIterator[Edge]:
    """Over a socket, where connections break."""
    async with running(url, *tools, worker=worker, **settings) as node:
        app = create_app(node)
        address = bind("127.0.0.1", port)
        async with serving(app, address, grace=0), client(address.url) as owner:
            made = Edge(node, app, owner, address.url, None)
            owner.headers["authorization"] = f"Bearer {await made.key('owner', 'read', 'write', 'admin')}"
            yield made
