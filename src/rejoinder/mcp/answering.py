"""What a client's person said to a question, recorded as any other answer: once, by whoever was first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rejoinder.asks.service import Asks
from rejoinder.contract.elicitation import DECLINED, DISMISSED
from rejoinder.contract.errors import (
    AnswerMismatchError,
    InteractionClosedError,
    InteractionNotFoundError,
    WrongAudienceError,
)
from rejoinder.contract.identity import Identity
from rejoinder.mcp.calls import DOOR
from rejoinder.mcp.offers import Offer

ACTIONS = ("accept", "decline", "cancel")


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of it. ``refused`` is why the answer does not fit, in a sentence; ``dismissed``: the person closed the
    form without a choice, or went to the question's page; it stays open, and this client does not ask it again."""

    refused: str | None = None
    dismissed: bool = False


async def take(asks: Asks, offer: Offer, action: str, content: Any, *, by: Identity) -> Taken:
    """Answer, decline or close one question. One that somebody else or the clock has ended stays as it is."""
    identifier = offer.question.id
    try:
        if action == "accept" and offer.url is not None:
            # That they open the page, and no more: the answer is given there.
            return Taken(dismissed=True)
        if action == "accept":
            await asks.answer(identifier, offer.answer(content), by=by, via=DOOR)
        elif action == "decline":
            await asks.cancel(identifier, by=by, via=DOOR, reason=DECLINED)
        elif offer.elicitation:
            await asks.cancel(identifier, by=by, via=DOOR, reason=DISMISSED)
        else:
            return Taken(dismissed=True)
    except AnswerMismatchError as error:
        return Taken(refused=error.message)
    except (InteractionClosedError, InteractionNotFoundError, WrongAudienceError):
        pass
    return Taken()
