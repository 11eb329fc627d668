"""What a step of a resumable tool came to, as it is recorded: ``{"result"}`` or ``{"error": {"kind", "message"}}``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from pydantic_core import to_json as json_bytes

from rejoinder.contract import errors
from rejoinder.contract.errors import (
    LeaseLostError,
    NotReadyError,
    ParkRunTakenDownError,
    RejoinderError,
    RunInterruptedError,
    StepFailedError,
    StepsDivergedError,
    SuspensionError,
    ToolFailedError,
)
from rejoinder.contract.text import storable_text
from rejoinder.observe.logs import get_logger
from rejoinder.runs.driver import MAX_ERROR_TEXT, EscapedError
from rejoinder.runs.tools import to_json

log = get_logger("replay")

#: What says nothing of the step: it ends the whole run, or leaves it to another attempt.
FATAL = (
    LeaseLostError,
    NotReadyError,
    ParkRunTakenDownError,
    RunInterruptedError,
    StepsDivergedError,
    SuspensionError,
)
#: Bytes of JSON. All results of a run are read whenever it goes on.
MAX_STEP_RESULT = 2**20


def storable(result: Any, step: str | None = None) -> Any:
    """``result`` as JSON. Raises StepFailedError that names the step, ToolFailedError where it is the run's own."""
    try:
        value = to_json(result)
    except ToolFailedError as error:
        if step is None:
            raise
        text = error.message.replace("the tool's result", f"the result of the step {step}")
        raise StepFailedError(text, step=step) from None
    if step is not None and len(json_bytes(value)) > MAX_STEP_RESULT:
        raise StepFailedError(
            f"the result of the step {step} is over {MAX_STEP_RESULT // 2**20} MiB, which is the most that is kept; "
            "keep it elsewhere, and return where",
            step=step,
        )
    return value


def failure(step: str, raised: BaseException, run_id: UUID) -> dict[str, Any]:
    """The record of what a step raised: ours as they are; the author's by name only, in full in the log."""
    if isinstance(raised, RejoinderError):
        return kept_error(raised)
    cause = raised.__cause__ if isinstance(raised, EscapedError) and raised.__cause__ else raised
    log.error("a step raised an error", step=step, run_id=str(run_id), exc_info=cause)
    name = type(cause).__name__
    return kept_error(
        StepFailedError(
            f"the step {step} raised {name}; the log has it under run {run_id}", step=step, raised=name
        )
    )


def kept_error(error: RejoinderError) -> dict[str, Any]:
    body: dict[str, Any] = {
        "kind": type(error).__name__,
        "message": storable_text(error.message, MAX_ERROR_TEXT),
    }
    if error.field is not None:
        body["field"] = storable_text(error.field, MAX_ERROR_TEXT)
    if isinstance(error, StepFailedError):
        body |= {"step": error.step, "raised": error.raised}
    return {"error": body}


def raise_again(outcome: dict[str, Any]) -> RejoinderError:
    """The error that was recorded: of the same kind, whether it was raised just now or long ago."""
    body = outcome["error"]
    kind = getattr(errors, body["kind"], RejoinderError)
    if kind is StepFailedError:
        return StepFailedError(body["message"], step=body["step"], raised=body["raised"])
    if kind.__init__ is not RejoinderError.__init__:
        # It is told by more than its text, which is not kept.
        kind = RejoinderError
    error: RejoinderError = kind(body["message"], field=body.get("field"))
    return error


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error, what it came from, and the members of its groups."""
    left, seen = [error], set[int]()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        left += [other for other in (one.__cause__, one.__context__) if other is not None]
        if isinstance(one, BaseExceptionGroup):
            left += one.exceptions
