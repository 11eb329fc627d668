"""A tool that parks: while its question is open, no process waits for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from rejoinder import AskAnswer, SuspendedInteraction, ask, tool


@tool(idempotent=True)
async def release(version: str) -> SuspendedInteraction:
    """Release a version as far as a person says. Parks for up to a week."""
    return await ask(
        f"Version {version} is ready. How far should it go?",
        answer_format="select",
        options=["To everybody", "To one user in ten", "Nowhere yet"],
        mode="async",
        expiry_at=datetime.now(UTC) + timedelta(days=7),
    )


@release.continuation
async def go_on(ask_result: AskAnswer[str], arguments: dict[str, Any]) -> str:
    if ask_result.answer == "Nowhere yet":
        return f"Version {arguments['version']} waits."
    return f"Version {arguments['version']} goes {ask_result.answer.lower()}."
