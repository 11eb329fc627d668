"""The tools that the benchmarks run: one that blocks on a form, one that parks on it, one that an outside system
answers."""

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


#: The environment variable with the secret that callbacks are signed with.
SIGNATURE_SECRET = "BENCH_SIGNATURE_SECRET"


@tool
async def sign(refund: str) -> Any:
    """Wait for the word of an outside system that signs what it sends."""
    asked = await ask(
        f"Refund {refund}?",
        answer_format="external",
        link="https://sign.example/?back={callback_url}",
        schema={
            "type": "object",
            "properties": {"decision": {"const": "confirmed"}},
            "required": ["decision"],
        },
        verifier={"verifier": "standard_webhooks", "config": {"secret_env": SIGNATURE_SECRET}},
        group_id=refund,
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


@tool(idempotent=True)
async def noop(n: int) -> None:
    """Do nothing with an event."""
