"""What the tests of events share: an outside system that signs what it posts, and hooks written straight to the store."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest

from rejoinder.node import Node
from rejoinder.runs.tools import Tool
from tests.integration.doors.edge import Edge, edge
from tests.support import assert_eventually

DOOR = "/universal_webhook/"
SECRET, VARIABLE = "the vendor's own secret", "VENDOR_SECRET"
#: These tests are one client that knocks very often.
UNLIMITED = {"universal_webhook": {"limit": 100_000, "burst": 100_000}}
SHORT: dict[str, Any] = {
    "tai_rate_limit_families": UNLIMITED,
    "hooks_run_sweep_seconds": 0.5,
    "hooks_run_lease_seconds": 5,
}


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(VARIABLE, SECRET)
    return SECRET


def signed(body: bytes, *, at: int | None = None, secret: str = SECRET) -> dict[str, str]:
    """The headers that the vendor sends with ``body``."""
    moment = int(time.time()) if at is None else at
    digest = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    return {"stripe-signature": f"t={moment},v1={digest}", "content-type": "application/json"}


def event(kind: str = "confirmation.completed", **more: Any) -> bytes:
    return json.dumps({"id": f"evt_{uuid4().hex}", "type": kind, **more}).encode()


async def send(who: httpx2.AsyncClient, topic: str, body: bytes, **options: Any) -> httpx2.Response:
    """Post a signed event."""
    return await who.post(DOOR + topic, content=body, headers=signed(body, **options))


@asynccontextmanager
async def outside(url: str, *tools: Tool, worker: bool = True, **settings: Any) -> AsyncIterator[Edge]:
    async with edge(url, *tools, worker=worker, **(SHORT | settings)) as made:
        await made.node.database.execute(
            "INSERT INTO rejoinder.public_route (pattern, created_by) VALUES ('/universal_webhook/*', 'test')"
        )
        yield made


async def bind(node: Node, topic: str, verifier: str = "stripe", **config: Any) -> None:
    await node.database.execute(
        "SELECT rejoinder.bind_topic_v1($1, $2, $3, 'test')",
        topic,
        verifier,
        {"secret_env": VARIABLE} | config,
    )


async def hook(
    node: Node,
    name: str,
    topic: str,
    tool: str,
    *,
    key_id: UUID | None = None,
    tool_kwargs: dict[str, Any] | None = None,
    condition: str | None = None,
    start_expr: str | None = None,
    admin: bool = False,
) -> None:
    if key_id is None:
        key_id = await node.database.value("SELECT id FROM rejoinder.api_key WHERE name = 'owner'")
    await node.database.value(
        "SELECT rejoinder.register_hook_v1($1, $2, $3, 'key', $4, $5, $6, $7, NULL, NULL, NULL, NULL, NULL, '{}', $8, 't')",
        name,
        topic,
        tool,
        key_id,
        tool_kwargs or {},
        condition,
        start_expr,
        admin,
    )


async def hook_runs(node: Node) -> list[dict[str, Any]]:
    rows = await node.database.rows(
        "SELECT r.*, d.payload FROM rejoinder.hook_run r JOIN rejoinder.delivery d ON d.id = r.delivery_id "
        "ORDER BY r.created_at, r.hook"
    )
    return [dict(row) for row in rows]


async def becomes(node: Node, status: str, count: int = 1) -> list[dict[str, Any]]:
    """Wait until so many hook runs have this status, and return those."""

    async def there() -> list[dict[str, Any]] | None:
        found = [one for one in await hook_runs(node) if one["status"] == status]
        return found if len(found) >= count else None

    found: list[dict[str, Any]] | None = await assert_eventually(
        there, f"no {count} hook runs became {status}: {await hook_runs(node)}"
    )
    assert found is not None
    return found
