"""Answer, withdraw, look: one transition ends a question, whichever door it came through."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from rejoinder.asks.judging import (
    checked_answer,
    closed_error,
    digest_of,
    digest_or_none,
    lapsed,
    may_resolve,
)
from rejoinder.asks.seal import seal
from rejoinder.contract import pause
from rejoinder.contract.approvals import APPROVAL, MODEL_DOORS
from rejoinder.contract.errors import (
    AnswerMismatchError,
    CallerAskError,
    InteractionClosedError,
    InteractionNotFoundError,
    NotReadyError,
    WrongAudienceError,
)
from rejoinder.contract.identity import SYSTEM, Identity
from rejoinder.contract.questions import Question
from rejoinder.contract.settings import Settings
from rejoinder.observe.logs import get_logger
from rejoinder.observe.metrics import metrics
from rejoinder.store import signals as s
from rejoinder.store.events import Events
from rejoinder.store.questions import Closed, ForAnswer, Questions
from rejoinder.store.signals import Signals

log = get_logger("asks")


@dataclass(frozen=True, slots=True)
class Answered:
    """``repeated``: this answerer had given this very answer before; nothing was done twice."""

    question: Question
    repeated: bool = False


class Answering:
    """What becomes of questions that are recorded."""

    def __init__(self, questions: Questions, events: Events, signals: Signals, settings: Settings) -> None:
        self._questions = questions
        self._events = events
        self._signals = signals
        self._settings = settings
        self._background: set[asyncio.Task[None]] = set()

    async def answer(
        self, identifier: UUID, value: Any, *, by: Identity, via: str, as_caller: bool = False
    ) -> Answered:
        """Record an answer, once; ``as_caller``: that of a run's caller, to what the run asked it. Raises
        InteractionNotFoundError, WrongAudienceError, CallerAskError, AnswerMismatchError,
        InteractionAlreadyAnsweredError, InteractionExpiredError, InteractionClosedError."""
        found = await self._find(identifier, by, via, as_caller=as_caller)
        await self._refuse_closed(found, value, by, via)
        question = found.question
        if question.state != "pending":
            return Answered(question, repeated=True)
        if question.answer_format == APPROVAL and via in MODEL_DOORS:
            await self._note_refusal(question, by, via, "self-approval", None)
            raise WrongAudienceError(
                "A call is approved by a person, not over the door that models call through."
            )
        try:
            accepted = checked_answer(question, value)
        except AnswerMismatchError as error:
            await self._note_refusal(
                question, by, via, "mismatch", {"field": error.field} if error.field else None
            )
            raise
        sealed = seal(identifier, found.seal_key, accepted) if found.seal_key is not None else None
        await pause.here("answer.validated")
        closed = await self._questions.close(
            [identifier],
            "answered",
            by=by.name,
            via=via,
            answer=None if sealed is not None else accepted,
            sealed=sealed,
            digest=None if sealed is not None else digest_of(accepted),
        )
        if closed:
            await self.answered(question, closed, via)
            return Answered(question)
        # Somebody else or the clock was there between the read and the claim.
        found = await self._find(identifier, by, via, as_caller=as_caller)
        await self._refuse_closed(found, value, by, via)
        return Answered(found.question, repeated=True)

    async def answered(self, question: Question, closed: list[Closed], via: str) -> None:
        """What follows an answer that was committed, whichever door it came through."""
        await pause.here("answer.committed")
        self._tell_closed(closed)
        metrics.answered.labels(question.answer_format, via).inc()
        metrics.answer_age.observe(_age(question))

    async def cancel(self, identifier: UUID, *, by: Identity, via: str, reason: str = "cancelled") -> None:
        """Withdraw an open question. A parked one takes its whole run down; a blocked caller wakes with an error.
        What a run asks its caller is withdrawn by that caller or an administrator."""
        found = await self._find(identifier, by, via, as_caller=None)
        closed = await self._questions.close([identifier], "cancelled", by=by.name, via=via, reason=reason)
        if not closed:
            found = await self._find(identifier, by, via, as_caller=None)
            raise closed_error(found.question, by)
        self._tell_closed(closed)

    async def withdraw(self, identifiers: list[UUID], reason: str) -> None:
        """Withdraw questions whose asker is gone. Those already closed stay as they are."""
        closed = await self._questions.close(identifiers, "cancelled", by=SYSTEM, reason=reason)
        self._tell_closed(closed)

    async def get(self, identifier: UUID, *, by: Identity) -> Question:
        """One question for a page. Raises InteractionNotFoundError where ``by`` may not see it or it is forgotten."""
        found = await self._questions.for_answer(identifier, self._settings.interactions_idle_ttl_seconds)
        if found is None or found.gone or found.question.to_kind != "user":
            raise InteractionNotFoundError()
        if not by.may_see(found.question.audience):
            raise InteractionNotFoundError()
        return found.question

    async def get_asked(self, identifier: UUID, *, by: Identity) -> Question:
        """What a run of this identity asked its caller. Raises InteractionNotFoundError."""
        found = await self._questions.for_answer(identifier, self._settings.interactions_idle_ttl_seconds)
        if found is None or found.gone or not may_resolve(by, found.question):
            raise InteractionNotFoundError()
        return found.question

    # Reading

    async def page(
        self, *, by: Identity, limit: int, offset: int = 0, after: tuple[datetime, UUID] | None = None
    ) -> list[Question]:
        """Open questions that ``by`` may see, oldest deadline first."""
        audience = by.name if by.restricted else None
        if after is None:
            return await self._questions.page(audience=audience, limit=limit, offset=offset)
        return await self._questions.page(audience=audience, limit=limit, after=after)

    async def count(self, *, by: Identity, cap: int) -> int:
        return await self._questions.count(audience=by.name if by.restricted else None, cap=cap)

    async def parked(self, *, by: Identity, limit: int) -> list[Question]:
        return await self._questions.parked(audience=by.name if by.restricted else None, limit=limit)

    async def note_refusal(self, identifier: UUID, *, by: Identity, via: str, reason: str) -> None:
        """For doors: an attempt that they refused themselves belongs in the audit trail too."""
        question = await self._questions.by_id(identifier)
        if question is not None:
            await self._note_refusal(question, by, via, reason, None)

    async def drain(self) -> None:
        """Wait for the small writes that follow an answer; called before a process stops. What the database does not
        take within five seconds is left: the process' end, written later by another one, stands for it."""
        if self._background:
            _, late = await asyncio.wait(set(self._background), timeout=5)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def finally_(self, act: Callable[[], Awaitable[None]]) -> None:
        """Write what must be written although the caller is being cancelled. It goes on by itself where the caller
        is cancelled again, or where the database is away for more than a moment."""
        await asyncio.wait({self._later(act)}, timeout=2)

    # Inside

    async def _find(
        self, identifier: UUID, by: Identity, via: str, *, as_caller: bool | None = False
    ) -> ForAnswer:
        """``as_caller=None``: a person or the caller, whoever is asked."""
        found = await self._questions.for_answer(identifier, self._settings.interactions_idle_ttl_seconds)
        if found is None or found.gone or found.question.to_kind == "run":
            raise InteractionNotFoundError()
        if found.question.to_kind == "caller":
            if as_caller is False:
                raise CallerAskError()
            if not (may_resolve(by, found.question) or (as_caller is None and by.may("admin"))):
                await self._note_refusal(found.question, by, via, "not its caller", None)
                raise WrongAudienceError("Only the caller of this run is asked this.")
            return found
        if as_caller:
            raise InteractionNotFoundError()
        if not by.may_see(found.question.audience):
            await self._note_refusal(found.question, by, via, "wrong-audience", None)
            raise WrongAudienceError()
        return found

    async def _refuse_closed(self, found: ForAnswer, value: Any, by: Identity, via: str) -> None:
        """Raise unless the question is open, or this is the same answer by the same person once more."""
        question = found.question
        error: InteractionClosedError
        if question.state == "pending":
            if not found.late:
                return
            error = lapsed(question)
        else:
            same = found.answer_digest is not None and found.answer_digest == digest_or_none(question, value)
            if question.state == "answered" and question.closed_by == by.name and same:
                return
            error = closed_error(question, by)
        await self._note_refusal(question, by, via, error.code, None)
        raise error

    def _tell_closed(self, closed: list[Closed]) -> None:
        if not closed:
            return
        told = [s.question(one.id) for one in closed]
        runs = [s.run(one.run_id) for one in closed if one.park_id is not None]
        # Without a resumption too: the end of a run may concern the runs around it.
        jobs = [s.RESUMES] if runs else []
        self._signals.tell(*told, *runs, *jobs, s.EVENTS)

    async def _note_refusal(
        self, question: Question, by: Identity, via: str, reason: str, detail: dict[str, Any] | None
    ) -> None:
        metrics.refused.labels(reason).inc()
        await self._events.add(
            "answer.refused",
            interaction_id=question.id,
            group_id=question.group_id,
            run_id=question.run_id,
            audience=question.audience,
            actor=by.name,
            via=via,
            reason=reason,
            detail=detail,
        )

    def _later(self, act: Callable[[], Any]) -> asyncio.Task[None]:
        """Do a small write beside the caller; again every second while the database is away."""

        async def persist() -> None:
            while True:
                try:
                    await act()
                    return
                except NotReadyError:
                    await asyncio.sleep(1)
                except Exception:
                    log.exception("a background write failed")
                    return

        task = asyncio.create_task(persist())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _age(question: Question) -> float:
    return max(0.0, (datetime.now(question.created_at.tzinfo) - question.created_at).total_seconds())
