"""A question as it is asked and as it is kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from rejoinder.contract.answers import CallerAsk
from rejoinder.contract.verifiers import Binding

AnswerFormat = Literal["text", "confirm", "select", "form", "external", "free", "approval"]
FORMATS: tuple[AnswerFormat, ...] = ("text", "confirm", "select", "form", "external")
#: What readers of questions meet: a call that waits for approval is asked by its tool, and by no ``ask``.
SHOWN_FORMATS: tuple[AnswerFormat, ...] = (*FORMATS, "approval")
#: A caller may be asked for any JSON.
CALLER_FORMATS: tuple[AnswerFormat, ...] = ("text", "confirm", "select", "form", "free")
Mode = Literal["sync", "async"]
OnExpiry = Literal["kill", "resume"]
#: ``user``: people, in the inbox. ``caller``: the run or the client that called. ``run``: nobody; the wait for a run.
ToKind = Literal["user", "caller", "run"]
QuestionState = Literal["pending", "answered", "expired", "cancelled", "undelivered", "superseded"]

#: A text with ``{callback_url}`` in it, or a function that makes the address from the callback URL.
Link = str | Callable[[str], Awaitable[str]]

MAX_QUESTION = 8_192
MAX_OPTIONS = 200
MAX_OPTION = 1_000
MAX_GROUP = 200
MAX_AUDIENCE = 200
#: Stands where a ticket was.
MASK = "******"
#: Bytes of JSON.
MAX_PAYLOAD = 262_144


@dataclass(frozen=True, slots=True)
class External:
    """What an external question has beside its text. ``base`` is the address that callback URLs begin with."""

    link: Link
    binding: Binding | None
    base: str


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
    to: Literal["user", "caller"] = "user"
    payload: Any = None
    external: External | None = None
    #: The digest of the ticket that an outside system answers with.
    ticket: bytes | None = None


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
    to_kind: ToKind = "user"
    payload: Any = None
    nested_run_id: UUID | None = None
    #: What a channel told beside the answer: ``{"reply_to": ..., "params": ...}``.
    reply: dict[str, Any] | None = None

    def as_item(self) -> dict[str, Any]:
        """The list item and the body of an ``interaction.add`` frame."""
        item: dict[str, Any] = {
            "interaction_id": str(self.id),
            "group_id": self.group_id,
            "question": self.question,
            "answer_format": self.answer_format,
            "format_payload": self.shown_payload(),
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

    def shown_payload(self) -> dict[str, Any] | None:
        """``format_payload`` for whoever may read the question: the right to answer is masked in an external link,
        and of a verifier only is said that there is one."""
        payload = self.format_payload
        if self.answer_format != "external" or payload is None:
            return payload
        shown: dict[str, Any] = {"link": MASK.join(payload["link"])}
        shown |= {key: value for key, value in payload.items() if key not in ("link", "verifier")}
        if "verifier" in payload:
            shown["server_verified"] = True
        return shown

    def as_ask(self) -> CallerAsk:
        """A question to the caller as that caller reads it."""
        return CallerAsk(
            interaction_id=self.id,
            run_id=self.run_id,
            tool=self.tool,
            group_id=self.group_id,
            question=self.question or None,
            payload=self.payload,
            answer_format=self.answer_format,
            format_payload=self.format_payload,
            media=self.media,
            created_at=self.created_at,
            expiry_at=self.timeout_at,
            on_expiry=self.on_expiry,
        )
