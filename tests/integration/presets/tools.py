"""Tools that the presets of these tests are made of."""

from __future__ import annotations

from typing import Any

from rejoinder import ask
from rejoinder.contract.answers import AskAnswer
from rejoinder.runs.tools import tool
from tests.integration.core.support import in_an_hour


@tool(read_only=True, idempotent=True)
def pay(
    amount: int, currency: str = "EUR", note: str | None = None, options: dict[str, Any] | None = None
) -> Any:
    """Pay an amount."""
    return {"amount": amount, "currency": currency, "note": note, "options": options}


@tool(destructive=True, requires_approval=True)
def wire(account: str, amount: int) -> Any:
    """Wire an amount to an account."""
    return {"account": account, "amount": amount}


@tool(internal=True)
def confirm_action(event: dict[str, Any]) -> Any:
    """Nobody calls this."""
    return event


@tool
async def sign_off(document: str, reference: str) -> Any:
    """Ask somebody to sign a document off; parked until they do."""
    return await ask(
        f"Sign {document} of {reference}?", answer_format="confirm", mode="async", expiry_at=in_an_hour()
    )


@sign_off.continuation
async def signed(ask_result: AskAnswer[Any], arguments: dict[str, Any]) -> Any:
    return {"signed": ask_result.answer, **arguments}


@tool
async def request_confirmation(reference: str, return_url: str, callback_url: str) -> str:
    """Make the page where the other side confirms."""
    return f"https://outside.example/confirm?reference={reference}&back={return_url}"


ALL = (pay, wire, confirm_action, sign_off, request_confirmation)
