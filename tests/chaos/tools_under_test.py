"""The tools of the agents under chaos. Each leaves a row for every effect it has, so that a second one would be seen."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg

from rejoinder import ask, current_run, tool


async def effect(name: str) -> None:
    """One effect, kept whatever becomes of the database meanwhile: repeated until it is known to be written."""
    run_id, identifier = current_run().run_id, uuid4()
    while True:
        try:
            connection = await asyncpg.connect(os.environ["REJOINDER_DATABASE_URL"], timeout=10)
            try:
                await connection.execute(
                    "INSERT INTO effect (id, run_id, name) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                    identifier,
                    run_id,
                    name,
                )
                return
            finally:
                await connection.close(timeout=5)
        except (
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
            asyncpg.InternalClientError,
            OSError,
            TimeoutError,
        ):
            await asyncio.sleep(0.1)


@tool
async def pay(what: str) -> Any:
    """Charge, ask, and ship after the answer. It may not run twice."""
    await effect("charge")
    return await ask(
        f"Ship {what}?", mode="async", expiry_at=datetime.now(UTC) + timedelta(days=5), on_expiry="resume"
    )


@pay.continuation
async def _paid(ask_result: Any, arguments: dict[str, Any]) -> str:
    await effect("ship")
    return f"{arguments['what']}: {ask_result.answer}"


@tool(idempotent=True)
async def look(what: str) -> str:
    """Only look."""
    await effect("look")
    return f"{what} is there"
