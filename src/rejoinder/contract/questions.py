"""A question as it is asked and as it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

AnswerFormat = Literal["text", "confirm", "select", "form"]
FORMATS: tuple[AnswerFormat, ...] = ("text", "confirm", "select", "form")
Mode = Literal["sync", "async"]
OnExpiry = Literal["kill", "resume"]
QuestionState = Literal["pending", "answered", "expired", "cancelled", "undelivered", "superseded"]

MAX_QUESTION = 8_192
MAX_OPTIONS = 200
MAX_OPTION = 1_000
MAX_GROUP = 200
MAX_AUDIENCE = 200


@dataclass(frozen=True, slots=True)
class AskRequest:
    """What ``ask`` was given, checked whole. ``format_payload`` is ``{"options": [...]}`` for select and for text
    with suggestions, ``{"schema": {...}}`` for form, else None. ``timeout`` is seconds; ``expiry_at`` has a zone."""

    question: str
    answer_format: AnswerFormat
    format_payload: dict[str, Any] | None
    group_id: str
    mode: Mode
    timeout: float | None
    expiry_at: datetime | None
    on_expiry: OnExpiry
    audience: str | None
    media: list[dict[str, Any]] | None
    sensitive: bool


@dataclass(frozen=True, slots=True)
class Question:
    """One row. ``answer`` is None while it is pending, and for ever where it is sensitive."""

    id: UUID
    run_id: UUID
    park_id: UUID | None
    group_id: str
    mode: Mode
    answer_format: AnswerFormat
    question: str
    format_payload: dict[str, Any] | None
    media: list[dict[str, Any]] | None
    audience: str | None
    sensitive: bool
    on_expiry: OnExpiry
    tool: str
    asked_by: str
    state: QuestionState
    created_at: datetime
    timeout_at: datetime
    answer: Any
    closed_at: datetime | None
    closed_by: str | None
    closed_via: str | None
    reason: str | None

    def as_item(self) -> dict[str, Any]:
        """The list item and the body of an ``interaction.add`` frame."""
        item: dict[str, Any] = {
            "interaction_id": str(self.id),
            "group_id": self.group_id,
            "question": self.question,
            "answer_format": self.answer_format,
            "format_payload": self.format_payload,
            "created_at": self.created_at.isoformat(),
            "timeout_at": self.timeout_at.isoformat(),
            "sensitive": self.sensitive,
            "mode": self.mode,
            "on_expiry": self.on_expiry,
            "tool": self.tool,
            "asked_by": self.asked_by,
            "run_id": str(self.run_id),
        }
        if self.audience is not None:
            item["audience"] = self.audience
        if self.media is not None:
            item["media"] = self.media
        return item
