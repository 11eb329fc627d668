"""Answers that come with a ticket: verified first, then looked up, checked, and recorded once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rejoinder.asks.external import ExternalAsks
from rejoinder.asks.judging import checked_answer, digest_of
from rejoinder.asks.seal import seal
from rejoinder.asks.service import Asks
from rejoinder.asks.tickets import Opened, TicketOffice
from rejoinder.contract import pause
from rejoinder.contract.errors import (
    AnswerMismatchError,
    BadInputError,
    CallerAskError,
    InteractionClosedError,
    InteractionLimitError,
    RejoinderError,
)
from rejoinder.contract.identity import OUTSIDE, Identity
from rejoinder.contract.questions import Question
from rejoinder.contract.settings import Settings
from rejoinder.contract.verifiers import SeenSetClaim
from rejoinder.observe.logs import get_logger
from rejoinder.store.events import Events
from rejoinder.store.questions import ForAnswer, Questions
from rejoinder.store.tickets import MOST, Tickets
from rejoinder.verifiers.registry import Verifiers

log = get_logger("callback")

VIA = "callback"
#: Who answered, where an outside system did.
CALLBACK = Identity(name=OUTSIDE)

Status = Literal["answered", "already_answered", "already_seen"]


class TicketGoneError(RejoinderError):
    """not found"""

    code = "not-found"
    status = 404


@dataclass(frozen=True, slots=True)
class Proven:
    """A ticket whose holder has shown what it asks for. ``claim`` makes the delivery count once; ``post_only``: only
    the body was proven."""

    opened: Opened
    claim: SeenSetClaim | None = None
    post_only: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """The question of a ticket, which is open unless ``answered``."""

    found: ForAnswer
    answered: bool

    @property
    def question(self) -> Question:
        return self.found.question


@dataclass(frozen=True, slots=True)
class Reply:
    """What a channel told beside an answer."""

    params: dict[str, str] | None = None
    quoted: str | None = None
    """The id of the message that the answering one quoted."""
    message_id: str | None = None
    """The id of the answering message. It is kept with the question; the asker is not told."""

    def as_json(self) -> dict[str, Any] | None:
        if self.params is None and self.quoted is None and self.message_id is None:
            return None
        # What was quoted is no question's own message: those are looked up by the channel that sent them.
        quoted = (
            None if self.quoted is None else {"message_id": self.quoted, "status": "not_found", "text": None}
        )
        return {"reply_to": quoted, "params": self.params, "message_id": self.message_id}


class Callbacks:
    def __init__(
        self,
        questions: Questions,
        tickets: Tickets,
        office: TicketOffice,
        external: ExternalAsks,
        asks: Asks,
        events: Events,
        verifiers: Verifiers,
        settings: Settings,
    ) -> None:
        self._questions = questions
        self._tickets = tickets
        self.office = office
        self._external = external
        self._asks = asks
        self._events = events
        self._verifiers = verifiers
        self._settings = settings

    async def prove(self, ticket: str, raw: bytes, headers: Mapping[str, str]) -> Proven:
        """Everything that can be said before any look-up. Raises TicketGoneError for what is no ticket of ours,
        VerificationFailedError, VerificationError."""
        opened = await self.office.open(ticket)
        if opened is None:
            raise TicketGoneError()
        if opened.binding is None:
            return Proven(opened)
        await self._verifiers.verify(opened.binding, raw, headers)
        claim = self._verifiers.claim(opened.binding, raw, headers)
        verifier = self._verifiers.get(opened.binding.verifier)
        assert verifier is not None
        return Proven(opened, claim, verifier.post_only)

    async def find(self, opened: Opened) -> Standing:
        """The question, open or answered. Raises TicketGoneError for every other one, and CallerAskError."""
        kept = self._settings.interactions_idle_ttl_seconds
        found = await self._questions.by_ticket(opened.digest, kept)
        if found is None or found.gone:
            raise TicketGoneError()
        question = found.question
        if question.to_kind != "user":
            raise CallerAskError()
        if question.state == "answered":
            return Standing(found, True)
        if question.state != "pending" or found.late:
            raise TicketGoneError()
        return Standing(found, False)

    async def answer(
        self, proven: Proven, standing: Standing, value: Any, reply: Reply | None = None
    ) -> Status:
        """Record the answer. Raises AnswerMismatchError, which leaves the ticket as good as it was, and
        TicketGoneError where the clock or a withdrawal was first."""
        if standing.answered:
            return "already_answered"
        question = standing.question
        try:
            accepted = _checked(question, value)
        except AnswerMismatchError:
            await self._asks.note_refusal(question.id, by=CALLBACK, via=VIA, reason="mismatch")
            raise
        seal_key = standing.found.seal_key
        sealed = seal(question.id, seal_key, accepted) if seal_key is not None else None
        await pause.here("answer.validated")
        claim = proven.claim
        done = await self._tickets.answer(
            question.id,
            by=OUTSIDE,
            via=VIA,
            answer=None if sealed is not None else accepted,
            sealed=sealed,
            digest=None if sealed is not None else digest_of(accepted),
            reply=None if reply is None else reply.as_json(),
            delivery=_delivery(proven),
            window=None if claim is None else claim.ttl,
        )
        if done.closed_question is not None:
            await self._asks.answered(question, [done.closed_question], VIA)
            return "answered"
        if (await self.find(proven.opened)).answered:
            return "already_answered"
        # The question is open, so it is the delivery that has counted, for another question.
        await self._asks.note_refusal(question.id, by=CALLBACK, via=VIA, reason="delivery-seen")
        log.warning(
            "a delivery that had counted came again for another question", interaction_id=str(question.id)
        )
        return "already_seen"

    async def send_out(self, question: Question, *, by: Identity, via: str) -> str:
        """The whole link of an open external question, for the person who is asked: with a ticket of its own.

        Raises BadInputError where it has no link, InteractionClosedError where it is not open any more, and
        InteractionLimitError where it was opened too often."""
        if question.answer_format != "external" or question.format_payload is None:
            raise BadInputError("Only an external question has a link to open.", field="interaction_id")
        if question.state != "pending":
            raise _closed(question)
        url, digest = await self._external.fresh(question.format_payload)
        status = "made" if digest is None else await self._tickets.add(question.id, digest)
        if status == "closed":
            raise _closed(await self._asks.get(question.id, by=by))
        if status == "full":
            raise InteractionLimitError(
                f"This link was opened {MOST} times; no more tickets are made for it."
            )
        await self._events.add(
            "link.opened",
            interaction_id=question.id,
            group_id=question.group_id,
            run_id=question.run_id,
            audience=question.audience,
            actor=by.name,
            via=via,
        )
        return url


def _delivery(proven: Proven) -> bytes | None:
    """What a delivery is known by. Its name is the outside system's: another system, with a verifier and a secret of
    its own, may number its deliveries alike."""
    if proven.claim is None or proven.opened.binding is None:
        return None
    # A name may hold what is no text, such as half of a character.
    name = proven.claim.key.encode("utf-8", "backslashreplace").decode()
    return digest_of([proven.opened.binding.as_json(), name])


def _closed(question: Question) -> InteractionClosedError:
    # Past its deadline it may not have been closed yet.
    state = "expired" if question.state == "pending" else question.state
    return InteractionClosedError("The question is not open any more.", state=state)


def _checked(question: Question, value: Any) -> Any:
    if question.answer_format == "external":
        from rejoinder.forms.answers import check_external

        return check_external(question.format_payload, value)
    return checked_answer(question, value)
