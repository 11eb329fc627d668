"""Tools that wait for a person's approval before they run: the question, and what its answer leads to.

Where somebody waits for the run at the other end of a connection, the question blocks it; everywhere else, and always
for an agent, the run is parked. Either way the code of the tool begins after the answer, with exactly the arguments
that were shown, or with those that the person put in their place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from rejoinder.contract.answers import AskAnswer, SuspendedInteraction
from rejoinder.contract.approvals import APPROVAL, MAX_SHOWN, ApprovalPayload, as_shown, call_digest
from rejoinder.contract.errors import ApprovalDeniedError, RunTerminalFailed, ToolArgumentError
from rejoinder.contract.questions import AskRequest, Question
from rejoinder.runs.context import RunContext, current_run

if TYPE_CHECKING:
    from rejoinder.runs.tools import Tool

_NOBODY = "Nobody approved this call in time. No consent was given, and it was not run."


@dataclass(frozen=True, slots=True)
class Approval:
    """A question that was asked for approval, and how it ended; ``answer`` is None where nobody answered."""

    payload: dict[str, Any]
    media: list[dict[str, Any]] | None
    answer: dict[str, Any] | None
    by: str | None


def approval_of(questions: list[Question]) -> Approval | None:
    """The approval that these resolved questions of one park were, or None where they asked something else."""
    first = questions[0]
    if first.answer_format != APPROVAL:
        return None
    answer = first.answer if first.state == "answered" else None
    return Approval(first.format_payload or {}, first.media, answer, first.closed_by)


def as_approved(arguments: dict[str, Any], earlier: Iterable[Question]) -> dict[str, Any]:
    """The arguments that a call of this run was approved with, where an earlier question of it put others in their
    place; else ``arguments``."""
    for question in earlier:
        if question.answer_format == APPROVAL and question.state == "answered":
            edited: dict[str, Any] | None = question.answer.get("arguments")
            return arguments if edited is None else edited
    return arguments


async def ask_first(tool: Tool) -> Any:
    """Ask for the current run's call of ``tool``; run it where this could wait for the answer. Returns what the tool
    returns, or the mark of the parked question. Raises ApprovalDeniedError, and as ``ask`` does."""
    run = current_run()
    request = approval_request(tool, run, blocks=run.asker.blocks)
    answer = await run.asks.ask(run.asker, request)
    if isinstance(answer, SuspendedInteraction):
        return answer
    assert isinstance(answer, AskAnswer)
    return await go_on(tool, Approval(dict(request.format_payload or {}), None, answer.answer, None))


def approval_request(tool: Tool, run: RunContext, *, blocks: bool) -> AskRequest:
    """The question whether this run may call ``tool``; ``blocks``: somebody waits for the run while it is open. Raises
    ToolArgumentError where the arguments are too long to be read."""
    given = tool.with_defaults(run.arguments)
    # In the tool's own order, so that the same argument stands in the same place in every call.
    shown = {name: given[name] for name in tool.approval_schema.get("properties", {}) if name in given}
    payload = _payload(tool, shown)
    seconds = run.settings.interactions_answer_timeout_seconds
    if not blocks:
        seconds = run.settings.rejoinder_approval_seconds
        if run.asker.horizon is not None:
            seconds = min(seconds, run.asker.horizon.longest)
    return AskRequest(
        question=f"{tool.title or tool.name}: approve this call?",
        answer_format=APPROVAL,
        format_payload=dict(payload),
        group_id=str(uuid4()),
        mode="sync" if blocks else "async",
        timeout=seconds if blocks else None,
        expiry_at=None if blocks else datetime.now(UTC) + timedelta(seconds=seconds),
        # Silence is no consent, and no reason to end an agent: it is told that nobody approved.
        on_expiry="kill" if blocks else "resume",
        # Never clamped to the caller, as its other questions are: nobody approves their own calls.
        audience=None,
        media=None,
        sensitive=False,
    )


async def go_on(tool: Tool, approval: Approval) -> Any:
    """What the answer leads to: the tool's code, with what was approved. Raises ApprovalDeniedError, ToolArgumentError,
    and RunTerminalFailed where this run's call is not the one that was shown."""
    run = current_run()
    arguments = approved_arguments(run, tool, approval)
    if run.asker.cannot_park is None and not run.asker.finds_again:
        # Approved or not: what the tool's own code asks needs its continuation. (An agent takes the answer itself.)
        run.asker.cannot_park = tool.why_not_park()
    return await tool.run(tool.check_approved(arguments))


def approved_arguments(run: RunContext, tool: Tool, approval: Approval) -> dict[str, Any]:
    """What the tool may run with. Raises ApprovalDeniedError, and RunTerminalFailed as ``go_on``."""
    answer = approval.answer
    if answer is None:
        raise ApprovalDeniedError(_NOBODY)
    if answer.get("decision") != "approve":
        who = f" by {approval.by}" if approval.by else ""
        reason = f" They say: {answer['reason']}" if answer.get("reason") else ""
        raise ApprovalDeniedError(f"This call was denied{who} and was not run.{reason}")
    shown = approval.payload["arguments"]
    digest = call_digest(tool.name, tool.with_defaults(run.arguments), approval.media)
    # What is about to run, what was shown, and what was approved must be the same thing, each computed anew.
    if not digest == call_digest(approval.payload["tool"], shown, approval.media) == answer.get("digest"):
        raise RunTerminalFailed("What was approved is not the call that would run, so it was not run.")
    edited: dict[str, Any] | None = answer.get("arguments")
    return shown if edited is None else edited


def _payload(tool: Tool, arguments: dict[str, Any]) -> ApprovalPayload:
    length = len(as_shown(arguments))
    if length > MAX_SHOWN:
        raise ToolArgumentError(
            f"the arguments are {length:,} characters long; a call is approved by reading it, which {MAX_SHOWN:,} allow",
            field="arguments",
        )
    return {
        "tool": tool.name,
        "title": tool.title,
        "description": tool.description,
        "destructive": bool(tool.destructive),
        "arguments": arguments,
        "schema": tool.approval_schema,
        "digest": call_digest(tool.name, arguments),
    }
