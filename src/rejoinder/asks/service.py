"""Ask: record first, deliver second, wait third. What becomes of a question then is in ``answering``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID, uuid4

from rejoinder.asks.answering import Answering
from rejoinder.asks.asker import Asker
from rejoinder.asks.external import ExternalAsks
from rejoinder.asks.judging import (
    GONE_ASKER,
    withdrawn_text,
)
from rejoinder.asks.seal import Opener
from rejoinder.asks.tickets import digest_of as ticket_digest
from rejoinder.asks.waiters import Waiters
from rejoinder.contract import pause
from rejoinder.contract.answers import AskAnswer, CallerAsk, SecretValue, SuspendedInteraction
from rejoinder.contract.elicitation import DECLINED, DISMISSED
from rejoinder.contract.errors import (
    AskArgumentError,
    InteractionCancelledError,
    InteractionLimitError,
    InteractionTimeoutError,
    LeaseLostError,
    NotReadyError,
    RejoinderError,
    RunTerminalFailed,
    SuspensionError,
)
from rejoinder.contract.questions import AskRequest, Question
from rejoinder.contract.settings import Settings
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics
from rejoinder.store import signals as s
from rejoinder.store.events import Events
from rejoinder.store.questions import Outcome, Questions, Recorded
from rejoinder.store.signals import Signals
from rejoinder.verifiers.registry import Verifiers

log = get_logger("asks")


@dataclass(frozen=True, slots=True)
class Elicited:
    """How an elicitation ended; ``content`` is the form's answer, ``via`` the door that it came through."""

    action: Literal["accept", "decline", "cancel"]
    content: Any = None
    via: str | None = None


class Asks(Answering):
    """Questions from their asking to their end."""

    def __init__(
        self,
        questions: Questions,
        events: Events,
        signals: Signals,
        waiters: Waiters,
        settings: Settings,
        external: ExternalAsks | None = None,
        verifiers: Verifiers | None = None,
    ) -> None:
        super().__init__(questions, events, signals, settings)
        self._waiters = waiters
        self._external = external
        #: The webhook verifiers that a question may be bound to.
        self.verifiers = verifiers or Verifiers()

    # Asking

    async def answered_tickets(self, tickets: Iterable[str]) -> set[str]:
        """Of these tickets those whose question has been answered: no answer that comes with one can count any more."""
        by_digest = {ticket_digest(ticket): ticket for ticket in tickets}
        return {by_digest[one] for one in await self._questions.answered_by_tickets(list(by_digest))}

    async def ask(self, asker: Asker, request: AskRequest) -> AskAnswer[Any] | SuspendedInteraction:
        """Block for the answer, or park. Raises InteractionTimeoutError, InteractionCancelledError,
        InteractionLimitError, SuspensionError, LeaseLostError. Cancelling the caller withdraws the question."""
        if asker.over:
            # A run without a row is known here only: the store would take its question for the first one.
            raise LeaseLostError("this run has ended; what it left behind can ask nothing more")
        if request.mode == "async":
            return await self._ask_parked(asker, request)
        request = await self._opened(asker, request)
        opener = Opener() if request.sensitive else None
        return self._as_answer(request, await self._ask_blocked(asker, request, opener), opener)

    async def elicit(self, asker: Asker, request: AskRequest) -> Elicited:
        """Block as ``ask`` does, for a question that an MCP client's person may decline or close. Raises as ``ask``."""
        if asker.over:
            raise LeaseLostError("this run has ended; what it left behind can ask nothing more")
        outcome = await self._ask_blocked(asker, request, None)
        if outcome.state == "cancelled" and outcome.reason == DECLINED:
            return Elicited("decline")
        if outcome.state == "cancelled" and outcome.reason == DISMISSED:
            return Elicited("cancel")
        return Elicited("accept", self._as_answer(request, outcome, None).answer, outcome.closed_via)

    async def _ask_blocked(self, asker: Asker, request: AskRequest, opener: Opener | None) -> Outcome:
        identifier = uuid4()
        answered = self._waiters.expect(identifier)
        try:
            recorded = await self._record(identifier, asker, None, request, opener)
            await pause.here("ask.waiting")
            budget = (recorded.timeout_at - recorded.created_at).total_seconds()
            return await self._wait(identifier, answered, budget)
        except asyncio.CancelledError:
            await self._gone(asker, identifier)
            raise
        except RejoinderError:
            raise
        except Exception:
            # Nobody waits any more, so nobody may be asked any more.
            await self._gone(asker, identifier)
            raise
        finally:
            self._waiters.forget(identifier)

    async def _ask_parked(self, asker: Asker, request: AskRequest) -> SuspendedInteraction:
        if asker.cannot_park is not None:
            refusal = SuspensionError(asker.cannot_park)
            await self.note_refused_ask(asker, refusal)
            raise refusal
        if asker.horizon is not None and request.expiry_at is not None:
            try:
                asker.horizon.check(request.question, request.expiry_at)
            except AskArgumentError as error:
                await self.note_refused_ask(asker, error)
                raise
        if asker.park_id is None:
            asker.park_id = uuid4()
        identifier = asker.name_question()
        found = await self._questions.by_id(identifier) if asker.finds_again else None
        if found is not None:
            timeout_at = found.timeout_at
        else:
            request = await self._opened(asker, request)
            try:
                timeout_at = (await self._record(identifier, asker, asker.park_id, request, None)).timeout_at
            except asyncio.CancelledError:
                if not asker.finds_again:
                    await self._gone(asker, identifier)
                raise
        asks: tuple[CallerAsk, ...] = ()
        if request.to == "caller":
            kept = found or await self._questions.by_id(identifier)
            asks = (kept.as_ask(),) if kept is not None and kept.state == "pending" else ()
        sentinel = SuspendedInteraction(identifier, timeout_at, asker.tool, asks=asks)
        asker.suspended.append(sentinel)
        return sentinel

    async def ask_anew(self, asker: Asker, question: Question) -> SuspendedInteraction:
        """Ask a parked question once more that was withdrawn when its run ended, for a run that goes on after all. It
        is a question of its own, with the old one's deadline. Raises as ``ask``, AskArgumentError where that has passed.
        """
        request = AskRequest(
            question=question.question,
            answer_format=question.answer_format,
            format_payload=question.format_payload,
            group_id=question.group_id,
            mode="async",
            timeout=None,
            expiry_at=question.timeout_at,
            on_expiry=question.on_expiry,
            audience=question.audience,
            media=question.media,
            sensitive=question.sensitive,
        )
        return await self._ask_parked(asker, request)

    async def _opened(self, asker: Asker, request: AskRequest) -> AskRequest:
        """An external question with its ticket and its link; every other one as it is."""
        if request.external is None:
            return request
        assert self._external is not None
        try:
            return await self._external.open(request)
        except AskArgumentError as error:
            await self.note_refused_ask(asker, error)
            raise

    async def _record(
        self,
        identifier: UUID,
        asker: Asker,
        park_id: UUID | None,
        request: AskRequest,
        opener: Opener | None,
    ) -> Recorded:
        ordinal, asker.ordinal = asker.ordinal, asker.ordinal + 1
        cap = self._settings.interactions_max_concurrent
        if request.to == "caller":
            cap = self._settings.interactions_max_concurrent_caller
        seal_key = opener.public if opener is not None else None
        # A task of its own: when the caller is cancelled in the middle, the record still ends one way or the
        # other, and the withdrawal that follows finds whatever was committed.
        writing = asyncio.create_task(
            self._questions.record(identifier, asker.reference(), ordinal, park_id, request, seal_key, cap)
        )
        asker.writing.add(writing)
        writing.add_done_callback(asker.writing.discard)
        try:
            recorded = await asyncio.shield(writing)
        except AskArgumentError as error:
            await self.note_refused_ask(asker, error)
            raise
        except NotReadyError:
            # It may have been committed all the same: nobody waits for it, so it must not stay open.
            if park_id is None or not asker.finds_again:
                self._later(lambda: self.withdraw([identifier], GONE_ASKER))
            raise
        if recorded.status != "recorded":
            await self._refuse(asker, request, recorded, cap)
        asker.new_run = None
        metrics.asked.labels(request.answer_format, request.mode).inc()
        await pause.here("ask.recorded")
        seconds = (recorded.timeout_at - recorded.created_at).total_seconds()
        followers = [s.run(asker.followed)] if asker.followed is not None else []
        self._signals.tell(s.EVENTS, f"{s.DEADLINE}:{seconds:.3f}", *followers)
        return recorded

    async def _refuse(self, asker: Asker, request: AskRequest, recorded: Recorded, cap: int | None) -> None:
        error: RejoinderError
        if recorded.status == "limit":
            limit = "max_concurrent" if request.to == "user" else "max_concurrent_caller"
            error = InteractionLimitError(f"ask refused: already at the {limit} limit ({cap})")
        elif recorded.status == "nowhere":
            error = RunTerminalFailed("the run that called this one is over, so nobody is there to be asked")
        elif recorded.status == "past":
            error = AskArgumentError("expiry_at lies in the past", field="expiry_at")
        else:
            error = LeaseLostError(
                "this run has ended, or another worker drives it now; it can ask nothing more"
            )
        await self.note_refused_ask(asker, error)
        raise error

    async def note_refused_ask(self, asker: Asker, error: RejoinderError) -> None:
        """Put an ask that was not taken into the audit trail. What was asked is not in it: it may be anything."""
        detail: dict[str, Any] = {"tool": asker.tool}
        if error.field is not None:
            detail["field"] = error.field
        await self._events.add(
            "ask.refused",
            run_id=asker.run_id if asker.has_asked else None,
            actor=asker.identity.name,
            reason=error.code,
            detail=detail,
        )

    async def _wait(self, identifier: UUID, answered: asyncio.Future[Outcome], budget: float) -> Outcome:
        remaining = budget
        while True:
            done, _ = await asyncio.wait({answered}, timeout=remaining)
            if done:
                return answered.result()
            # Our own timer rang. The database's clock decides whether the deadline has passed; the closing wakes us.
            remaining = 0.25
            try:
                self._tell_closed(await self._questions.close([identifier], "expired", by="system:expiry"))
            except NotReadyError:
                log.warning("deadline not settled yet", interaction_id=str(identifier))
            self._waiters.look(identifier)

    def _as_answer(self, request: AskRequest, outcome: Outcome, opener: Opener | None) -> AskAnswer[Any]:
        if outcome.state == "answered":
            if opener is None:
                return AskAnswer.told(outcome.answer, outcome.reply)
            assert outcome.sealed_answer is not None
            value = opener.open(outcome.id, outcome.sealed_answer)
            self._later(lambda: self._questions.forget_sealed(outcome.id))
            return AskAnswer.told(SecretValue(value), outcome.reply)
        if outcome.state == "expired":
            raise InteractionTimeoutError(f"Nobody answered within {request.timeout:g} seconds.")
        raise InteractionCancelledError(withdrawn_text(outcome.reason))

    async def _gone(self, asker: Asker, identifier: UUID) -> None:
        """Withdraw a question whose asker is gone, once its own record has ended one way or the other."""

        async def withdraw() -> None:
            await asker.written()
            await self.withdraw([identifier], GONE_ASKER)

        await self.finally_(withdraw)
