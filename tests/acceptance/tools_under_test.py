"""The tools of the acceptance tests. Each leaves a row for every effect it has, so that a second one would be seen."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from rejoinder import ask, tool
from rejoinder.runs.context import current_delivery, current_run


async def effect(name: str) -> None:
    connection = await asyncpg.connect(os.environ["REJOINDER_DATABASE_URL"])
    try:
        await connection.execute(
            "INSERT INTO effect (run_id, name) VALUES ($1, $2)", current_run().run_id, name
        )
    finally:
        await connection.close()


async def parked(on_expiry: Any) -> Any:
    await effect("start")
    return await ask(
        "Go on?",
        answer_format="confirm",
        mode="async",
        # Far enough for a clock that other tests have moved.
        expiry_at=datetime.now(UTC) + timedelta(days=30),
        on_expiry=on_expiry,
    )


@tool
async def once(on_expiry: str = "kill") -> Any:
    return await parked(on_expiry)


@once.continuation
async def once_goes_on(ask_result: Any) -> Any:
    await effect("resume")
    return ask_result


@tool(idempotent=True)
async def again(on_expiry: str = "kill") -> Any:
    return await parked(on_expiry)


@again.continuation
async def again_goes_on(ask_result: Any) -> Any:
    await effect("resume")
    return ask_result


@tool
async def blocked(timeout: float = 600) -> Any:
    answer = await ask("Now?", answer_format="confirm", timeout=timeout)
    await effect("answered")
    return answer.answer


@tool(idempotent=True)
async def ticked() -> None:
    await effect("tick")


@tool
async def delivered(fails: bool = False) -> str:
    """Run by a hook. Its effects are counted by the event: several runs may try the same one."""
    event = current_delivery()
    assert event is not None
    connection = await asyncpg.connect(os.environ["REJOINDER_DATABASE_URL"])
    try:
        known = await connection.fetchval("SELECT count(*) FROM effect WHERE name = $1", str(event.id))
    finally:
        await connection.close()
    await effect(str(event.id))
    if fails and not known:
        raise ValueError("the first time it fails")
    return event.topic
