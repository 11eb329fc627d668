"""The demo: three tools that stop and ask a person. They change nothing and need no model.

Copy this file to begin with: a tool is a plain function, and ``ask`` is the only call that it needs.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from rejoinder import AskAnswer, SuspendedInteraction, ask, tool

STALE = {"feature/old-login": 214, "fix/typo-in-footer": 131, "spike/new-parser": 97}


# It waits for the answer where it stands. Running it twice does no harm, so a restart simply asks again.
@tool(title="Clean up stale branches (demo)", idempotent=True)
async def demo_clean_up(older_than_days: int = 90) -> str:
    """Ask before stale branches are deleted. Waits for the answer; nothing is really deleted."""
    stale = [f"{name}, {days} days old" for name, days in STALE.items() if days > older_than_days]
    if not stale:
        return f"No branch is older than {older_than_days} days."
    listed = "\n".join(f"- {name}" for name in stale)
    answer = await ask(
        f"{len(stale)} branches were merged and not touched since. Delete them?\n\n{listed}",
        answer_format="confirm",
        timeout=86_400,
    )
    return f"{len(stale)} branches deleted." if answer.answer else "The branches were kept."


# It parks: while the question is open there is no process, only a row. Whoever works then goes on with the answer.
@tool(title="Check a release (demo)", idempotent=True)
async def demo_release_check(version: str = "2.4.0") -> SuspendedInteraction:
    """Ask how far a release goes. Parks for up to a week, and goes on after any restart; nothing is really deployed."""
    return await ask(
        f"Release {version} passed its 412 tests. How far should it go?",
        answer_format="select",
        options=["To everybody", "To one user in ten", "Hold it back"],
        mode="async",
        expiry_at=datetime.now(UTC) + timedelta(days=7),
    )


@demo_release_check.continuation
async def release(ask_result: AskAnswer[str], arguments: dict[str, Any]) -> str:
    version = arguments.get("version", "2.4.0")
    match ask_result.answer:
        case "Hold it back":
            return f"Release {version} is held back."
        case chosen:
            return f"Release {version} goes out: {chosen.lower()}."


@tool(title="Plan maintenance (demo)", idempotent=True)
async def demo_plan_maintenance(system: str = "orders database") -> SuspendedInteraction:
    """Ask for a maintenance window with a form. Parks for up to a week; nothing is really planned."""
    return await ask(
        f"The {system} needs a restart of about ten minutes. When may it be?",
        answer_format="form",
        schema={
            "type": "object",
            "properties": {
                "day": {"type": "string", "format": "date", "title": "Day"},
                "hour": {"type": "integer", "minimum": 0, "maximum": 23, "title": "Hour, 0 to 23"},
                "tell_customers": {"type": "boolean", "title": "Tell the customers before", "default": True},
                "remarks": {"type": "string", "maxLength": 1000, "title": "Remarks"},
            },
            "required": ["day", "hour"],
        },
        mode="async",
        expiry_at=datetime.now(UTC) + timedelta(days=7),
    )


@demo_plan_maintenance.continuation
async def plan(ask_result: AskAnswer[dict[str, Any]], arguments: dict[str, Any]) -> dict[str, Any]:
    return {"system": arguments.get("system", "orders database"), "planned": True, **ask_result.answer}
