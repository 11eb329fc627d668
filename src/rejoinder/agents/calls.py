"""What an agent's calls of tools come to, and what they are known by."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from rejoinder.asks.asker import Asker
from rejoinder.contract.answers import KILLED_KEY, AskAnswer, SuspendedInteraction
from rejoinder.contract.errors import RejoinderError, SuspensionError
from rejoinder.contract.questions import Question
from rejoinder.runs.approval import approval_of
from rejoinder.runs.approval import go_on as approved
from rejoinder.runs.driver import public_error
from rejoinder.runs.tools import Tool, suspensions, to_json


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to: its result, or the sentence that the model is told of an error."""

    value: Any
    failed: bool = False

    def as_json(self) -> dict[str, Any]:
        return {"error": self.value} if self.failed else {"result": self.value}

    @classmethod
    def of_json(cls, kept: dict[str, Any]) -> Outcome:
        return cls(kept["error"], failed=True) if "error" in kept else cls(kept.get("result"))


@dataclass(frozen=True, slots=True)
class Waiting:
    """The call waits for the answers of these questions."""

    questions: tuple[SuspendedInteraction, ...]


async def go_on(
    tool: Tool, arguments: dict[str, Any], questions: list[Question], run_id: UUID, attempt: int
) -> Any:
    """What a call comes to with the answers of its questions: its tool's continuation, or the answers themselves."""
    withdrawn = [q for q in questions if q.state not in ("answered", "expired")]
    if withdrawn:
        return Outcome(
            "The question was withdrawn before anybody answered. No consent was given.", failed=True
        )
    approval = approval_of(questions)
    if approval is not None:
        return await approved(tool, approval)
    if tool.checkpointed:
        return _of_run(questions[0].answer)
    answers = {q.id: AskAnswer.of(q.state, q.answer, q.reply) for q in questions}
    first = questions[0].id
    if tool.continuation_function is None:
        given = list(answers.values())
        return given[0] if len(given) == 1 else given
    return await tool.go_on(
        {
            "interaction_id": first,
            "ask_result": answers[first],
            "answers": answers,
            "arguments": tool.with_defaults(arguments),
            "run_id": run_id,
            "attempt": attempt,
        }
    )


def _of_run(result: Any) -> Outcome:
    """What a resumable tool came to, whose run was waited for."""
    killed = result.get(KILLED_KEY) if isinstance(result, dict) else None
    if killed is None:
        return Outcome(result)
    return Outcome((killed["error"] or {}).get("error") or f"Its run is {killed['status']}.", failed=True)


def can_be_asked_anew(question: Question) -> bool:
    """Whether a question was withdrawn with its run, and can be put again as it was."""
    # The ticket of an external question is kept by its digest alone, and a called run is over.
    ours = question.to_kind == "user" and question.answer_format != "external"
    return question.state == "cancelled" and question.reason == "run ended" and ours


def same(name: UUID) -> UUID:
    return name


def asked_by(tool: Tool, asker: Asker, result: Any) -> list[SuspendedInteraction]:
    """The questions that the call parks on; empty where it is done. Raises SuspensionError where it did neither."""
    mine = {one.interaction_id for one in asker.suspended}
    parked = suspensions(result)
    if parked is None:
        if mine:
            raise SuspensionError(
                f'{tool.name} asked with mode="async" and then returned something else; return what ask returned'
            )
        return []
    if {one.interaction_id for one in parked} != mine:
        raise SuspensionError(
            f'{tool.name} must return every question that it asked with mode="async" in this call, and no other'
        )
    if len(mine) > 1 and tool.continuation_function is not None and not tool.takes_several_answers:
        raise SuspensionError(
            f"{tool.name} parks on several questions, so its continuation must take answers"
        )
    return parked


def outcome_of(result: Any, run_id: UUID) -> Outcome:
    """What the tool returned, or that it is nothing that can be kept."""
    try:
        return Outcome(to_json(result))
    except RejoinderError as error:
        return Outcome(told(error, run_id), failed=True)


def told(error: BaseException, run_id: UUID) -> str:
    """What a model may know of an error."""
    return public_error(error, run_id).message


def key(place: str, call_id: str, tool: str, arguments: dict[str, Any]) -> str:
    """What a call is known by."""
    # Not by the call's id alone: some models count their calls anew in every turn.
    return json.dumps([place, call_id, tool, arguments], sort_keys=True, ensure_ascii=True, default=str)


def names(step: UUID, round_: int) -> Callable[[], UUID]:
    """Ids for what a step asks, in the order it asks: the same ones when its code is played again."""
    numbers = iter(range(2**31))
    return lambda: uuid5(step, f"{round_}.{next(numbers)}")
