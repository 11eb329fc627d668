"""What ``ctx.elicit`` gives back: accepted with data, declined, or closed without a choice.

The names of the classes and of their fields are those of the MCP library, so that tools written for it read the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from rejoinder.contract.answers import REPLY_TO_META

T = TypeVar("T")

#: How a question ends that an MCP client's person would not answer: they said no, or closed it without a choice.
DECLINED = "declined"
DISMISSED = "dismissed"
#: The mark of a question that ``ctx.elicit`` asked, in its ``format_payload``.
ELICITATION_KEY = "elicitation"


def answered_by_ask() -> dict[str, Any]:
    """The ``_meta`` of an elicitation that was answered here and not by an MCP client: nothing was quoted."""
    return {REPLY_TO_META: None}


@dataclass(frozen=True, slots=True)
class AcceptedElicitation(Generic[T]):
    """``data`` is what was asked for, in its type. ``meta`` is None where an MCP client's person answered."""

    data: T
    meta: dict[str, Any] | None = None
    action: Literal["accept"] = field(default="accept", init=False)


@dataclass(frozen=True, slots=True)
class DeclinedElicitation:
    """The person said that they will not answer. It is no consent."""

    action: Literal["decline"] = field(default="decline", init=False)


@dataclass(frozen=True, slots=True)
class CancelledElicitation:
    """The person closed the question without a choice. It is no consent."""

    action: Literal["cancel"] = field(default="cancel", init=False)


ElicitationResult: TypeAlias = AcceptedElicitation[T] | DeclinedElicitation | CancelledElicitation
