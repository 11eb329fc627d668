"""A running node inside the test's own process, with tools of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rejoinder.contract.identity import Identity
from rejoinder.contract.settings import Settings
from rejoinder.node import Node
from rejoinder.runs.manifest import Exposed, Registry
from rejoinder.runs.tools import Tool
from rejoinder.tools import interactions

ANN = Identity(name="ann", grants=frozenset(("read", "write")))
BOB = Identity(name="bob", grants=frozenset(("read", "write")))

BUILTIN = [
    interactions.ask_tool,
    interactions.list_parked,
    interactions.resume_parked,
    interactions.cancel_parked,
]


@asynccontextmanager
async def running(url: str, *tools: Tool, worker: bool = False, **settings: Any) -> AsyncIterator[Node]:
    """A started node that exposes the builtin tools and ``tools``; short times, so that a test's waits are short."""
    short: dict[str, Any] = {
        "rejoinder_database_url": url,
        "rejoinder_poll_seconds": 0.5,
        "rejoinder_run_retry_base_seconds": 0.05,
        "rejoinder_job_heartbeat_timeout_seconds": 2,
        "tai_tool_runs_shutdown_drain_seconds": 1,
    }
    registry = Registry([Exposed(t, None) for t in (*BUILTIN, *tools)])
    node = Node(Settings.load(**(short | settings)), registry, "up" if worker else "server")
    await node.start(worker=worker)
    try:
        yield node
    finally:
        await node.stop()
