"""What an asker gets back: the typed answer, or the mark that the run is parked.

The wire names with the ``tai42:`` prefix are those of the interface this product serves
(``docs/reference/interface.md``); they are kept so that people who know it can move over.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

T = TypeVar("T")

#: The value of ``answer`` when a question with ``on_expiry="resume"`` lapsed.
EXPIRED_KEY = "tai42:interaction_expired"
#: The key a parked run's sentinel travels under.
SUSPENDED_KEY = "tai42:suspended_interaction"
#: The key of what a run is given in the place of a called run's result where that one failed.
KILLED_KEY = "tai42:run_killed"
#: In the ``_meta`` of an elicitation that was answered here: the quoted message, which is null in the inbox.
REPLY_TO_META = "tai42/reply_to"


@dataclass(frozen=True, slots=True)
class ReplyTo:
    """The message that the answering reply quoted."""

    message_id: str
    status: Literal["found", "not_found", "sensitive", "no_text"]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class AskAnswer(Generic[T]):
    """The answer as the question's format types it, and what the channel said beside it.

    ``reply_to`` and ``params`` are None for answers given in the inbox, the CLI or over HTTP, and on expiry.
    """

    answer: T
    reply_to: ReplyTo | None = None
    params: dict[str, str] | None = None

    @classmethod
    def told(cls, answer: T, reply: dict[str, Any] | None) -> AskAnswer[T]:
        """An answer with what a channel told beside it, as the store keeps that: ``{"reply_to", "params"}``."""
        if reply is None:
            return cls(answer)
        quoted = reply.get("reply_to")
        return cls(answer, None if quoted is None else ReplyTo(**quoted), reply.get("params"))

    @classmethod
    def of(cls, state: str, answer: Any, reply: dict[str, Any] | None) -> AskAnswer[Any]:
        """What a question that has ended comes to for the run that goes on: its answer, or the expiry marker."""
        return AskAnswer.told(answer, reply) if state == "answered" else AskAnswer(expiry_marker())

    def as_json(self) -> dict[str, Any]:
        reply = self.reply_to
        return {
            "answer": self.answer,
            "reply_to": None
            if reply is None
            else {"message_id": reply.message_id, "status": reply.status, "text": reply.text},
            "params": self.params,
        }

    @property
    def expired(self) -> bool:
        """True where this is the expiry marker: nobody answered, and no consent was given."""
        return is_expiry_marker(self.answer)


def expiry_marker() -> dict[str, bool]:
    return {EXPIRED_KEY: True}


def is_expiry_marker(value: object) -> bool:
    return isinstance(value, dict) and value.get(EXPIRED_KEY) is True


class SecretValue(Generic[T]):
    """A sensitive answer: it prints as stars and gives itself up only to ``reveal()``."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def reveal(self) -> T:
        return self._value

    def __repr__(self) -> str:
        return "SecretValue(******)"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        raise TypeError("a SecretValue is not serialised; call reveal() where the value is needed")


@dataclass(frozen=True, slots=True)
class CallerAsk:
    """A question that a run puts to whoever called it. ``question`` is None where ``payload`` stands in its place;
    ``format_payload`` is as in ``Question``."""

    interaction_id: UUID
    run_id: UUID
    tool: str
    group_id: str
    question: str | None
    payload: Any
    answer_format: str
    format_payload: dict[str, Any] | None
    media: list[dict[str, Any]] | None
    created_at: datetime
    expiry_at: datetime
    on_expiry: str

    def as_json(self) -> dict[str, Any]:
        item: dict[str, Any] = {
            "interaction_id": str(self.interaction_id),
            "run_id": str(self.run_id),
            "tool": self.tool,
            "group_id": self.group_id,
            "question": self.question,
            "payload": self.payload,
            "answer_format": self.answer_format,
            "format_payload": self.format_payload,
            "created_at": self.created_at.isoformat(),
            "expiry_at": self.expiry_at.isoformat(),
            "on_expiry": self.on_expiry,
        }
        if self.media is not None:
            item["media"] = self.media
        return item


@dataclass(frozen=True, slots=True)
class SuspendedInteraction:
    """Returned at once by ``ask(mode="async")``. A tool returns it (or a list of them) to park its run.

    ``call_tool`` returns one where the called run is parked; ``asks`` is then what that run asks its caller."""

    interaction_id: UUID
    expiry_at: datetime
    resume_owner: str
    interaction_ids: tuple[UUID, ...] = ()
    asks: tuple[CallerAsk, ...] = ()

    def as_json(self) -> dict[str, Any]:
        ids = self.interaction_ids or (self.interaction_id,)
        return {
            SUSPENDED_KEY: {
                "interaction_id": str(self.interaction_id),
                "expiry_at": self.expiry_at.isoformat(),
                "resume_owner": self.resume_owner,
                "interaction_ids": [str(i) for i in ids],
                "caller_interaction_ids": [str(one.interaction_id) for one in self.asks],
            }
        }
