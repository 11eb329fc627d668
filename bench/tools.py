"""The tools that the benchmarks run: one that blocks on a form, one that parks on it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from rejoinder import AskAnswer, SuspendedInteraction, ask, tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["approve", "amount"],
    "additionalProperties": False,
    "properties": {
        "approve": {"type": "boolean"},
        "amount": {"type": "number", "minimum": 0, "maximum": 10_000},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
        "note": {"type": "string", "maxLength": 200},
    },
}
ANSWER: dict[str, Any] = {"approve": True, "amount": 120.5, "currency": "EUR", "note": "checked"}


@tool
async def review(refund: str, timeout: float = 600) -> Any:
    """Ask for a decision on a refund and wait for it."""
    asked = await ask(
        f"Refund {refund}?", answer_format="form", schema=SCHEMA, group_id=refund, timeout=timeout
    )
    return asked.answer


@tool(idempotent=True)
async def park(refund: str) -> SuspendedInteraction:
    """Ask for the same decision and park until it is there."""
    return await ask(
        f"Refund {refund}?",
        answer_format="form",
        schema=SCHEMA,
        group_id=refund,
        mode="async",
        expiry_at=datetime.now(UTC) + timedelta(hours=1),
    )


@park.continuation
async def decided(ask_result: AskAnswer[Any]) -> dict[str, Any]:
    """Says when it began; the clock is the machine's, so the client can compare."""
    return {"began": time.time(), "answer": ask_result.answer}
