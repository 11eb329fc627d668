"""The tool behind ``approve.py``: a form with a decision and room for a remark."""

from __future__ import annotations

from typing import Any

from rejoinder import ask, tool

DECISION = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "title": "Go on"},
        "remark": {"type": "string", "maxLength": 500, "title": "Remark"},
    },
    "required": ["approved"],
}


@tool
async def ask_approval(question: str, minutes: float = 30) -> dict[str, Any]:
    """Ask for an approval and wait for it: {approved, remark}."""
    answer = await ask(question, answer_format="form", schema=DECISION, timeout=minutes * 60)
    return {"approved": answer.answer["approved"], "remark": answer.answer.get("remark", "")}
