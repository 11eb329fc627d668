"""The builtin tools: ask a person directly as a run, and look after parked questions.

Expose them with a manifest entry: ``module: rejoinder.tools.interactions``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from rejoinder.contract.answers import AskAnswer, SuspendedInteraction, expiry_marker
from rejoinder.contract.errors import (
    BadInputError,
    CallerAskError,
    ForbiddenError,
    InteractionClosedError,
    InteractionNotFoundError,
)
from rejoinder.runs.ask import ask_with
from rejoinder.runs.context import RunContext, current_run
from rejoinder.runs.tools import tool

VIA = "tool"


@tool(name="ask", title="Ask a person", idempotent=True)
async def ask_tool(
    question: Annotated[
        str | None,
        Field(description="What to ask; at most 8192 characters. Only a caller may be given none."),
    ] = None,
    answer_format: Annotated[
        Literal["text", "confirm", "select", "form", "external", "free"],
        Field(
            description="What kind of answer is wanted; external comes from an outside system, free is any JSON from a "
            "caller only."
        ),
    ] = "text",
    options: Annotated[
        list[str] | None, Field(description="The choices of a select; suggestions for a text.")
    ] = None,
    schema: Annotated[
        dict[str, Any] | None,
        Field(description="The JSON Schema of a form, or of what an outside system must send."),
    ] = None,
    link: Annotated[
        str | None,
        Field(description="For external: the address to send a person to, with {callback_url} in it."),
    ] = None,
    data: Annotated[
        dict[str, Any] | None,
        Field(description="For a form: values filled in already, options that replace a field's choices."),
    ] = None,
    pages: Annotated[
        list[dict[str, Any]] | None,
        Field(description="For a form: its pages, each with title, fields, display, kind, button_label."),
    ] = None,
    wording: Annotated[
        dict[str, Any] | None, Field(description="Your own words for the controls and their faults.")
    ] = None,
    group_id: Annotated[str | None, Field(description="Threads related questions.")] = None,
    timeout: Annotated[float | None, Field(description="Seconds to wait, for mode sync.")] = None,
    audience: Annotated[
        str | None, Field(description="The identity that alone may see and answer it.")
    ] = None,
    media: Annotated[
        list[dict[str, Any]] | None,
        Field(description="Things to show above the controls: kind, url, caption."),
    ] = None,
    mode: Annotated[
        Literal["sync", "async"], Field(description="sync waits; async parks the run until the answer.")
    ] = "sync",
    expiry_at: Annotated[
        str | None, Field(description="For mode async: the moment it lapses, with its time zone.")
    ] = None,
    on_expiry: Annotated[
        Literal["kill", "resume"], Field(description="For mode async: what a lapse does to the run.")
    ] = "kill",
    to: Annotated[
        Literal["user", "caller"],
        Field(description="user is a person; caller is whoever called this run, for mode async."),
    ] = "user",
    payload: Annotated[
        Any, Field(description="JSON that a caller reads with the question or in its place.")
    ] = None,
) -> AskAnswer[Any] | SuspendedInteraction:
    """Ask a person a question and get the typed answer: {answer, reply_to, params}. Pauses until somebody answers."""
    return await ask_with(
        question,
        {
            "answer_format": answer_format,
            "options": options,
            "schema": schema,
            "link": link,
            "data": data,
            "pages": pages,
            "wording": wording,
            "group_id": group_id,
            "timeout": timeout,
            "audience": audience,
            "media": media,
            "mode": mode,
            "expiry_at": expiry_at,
            "on_expiry": on_expiry,
            "to": to,
            "payload": payload,
        },
    )


@ask_tool.continuation
async def _answered(ask_result: AskAnswer[Any]) -> AskAnswer[Any]:
    return ask_result


@tool(title="List parked questions", read_only=True, idempotent=True)
async def list_parked(
    limit: Annotated[int, Field(ge=1, le=1000, description="How many at most.")] = 100,
) -> dict[str, Any]:
    """The open questions that parked runs wait for, oldest deadline first: {items, asks, count}. items are for
    people; asks are for you, whose runs they come from: resume_parked answers them."""
    run = current_run()
    items = [q.as_item() for q in await run.asks.parked(by=run.identity, limit=limit)]
    asked = await run.nested.asked(run.identity, limit) if run.nested is not None else []
    return {
        "items": items,
        "asks": [one.as_json() for one in asked],
        "count": len(items) + len(asked),
    }


@tool(title="Resolve a parked question")
async def resume_parked(
    interaction_id: Annotated[str, Field(description="The question.")],
    payload: Annotated[Any, Field(description="The answer; left out: only read the stored outcome.")] = None,
) -> dict[str, Any]:
    """Answer a parked question as this run's identity, or read how it was resolved: {status, ask_result}. What a run
    asks its caller is answered by the one who called it."""
    run = _writer()
    identifier = _id(interaction_id, "interaction_id")
    if payload is not None:
        try:
            await run.asks.answer(identifier, payload, by=run.identity, via=VIA)
        except CallerAskError:
            await run.asks.answer(identifier, payload, by=run.identity, via=VIA, as_caller=True)
        return {"status": "answered", "interaction_id": str(identifier)}
    try:
        question = await run.asks.get_asked(identifier, by=run.identity)
    except InteractionNotFoundError:
        question = await run.asks.get(identifier, by=run.identity)
    result: AskAnswer[Any] | None = None
    if question.state == "answered":
        result = AskAnswer(question.answer)
    elif question.state == "expired":
        result = AskAnswer(expiry_marker())
    return {
        "status": question.state,
        "interaction_id": str(question.id),
        "ask_result": result.as_json() if result is not None else None,
    }


@tool(title="Withdraw parked questions", destructive=True)
async def cancel_parked(
    ids: Annotated[list[str], Field(min_length=1, max_length=200, description="The questions.")],
) -> dict[str, Any]:
    """Withdraw parked questions; each takes its whole run down. {cancelled, already_closed, not_found}."""
    run = _writer()
    outcome: dict[str, list[str]] = {"cancelled": [], "already_closed": [], "not_found": []}
    for i, text in enumerate(ids):
        identifier = _id(text, f"ids[{i}]")
        try:
            await run.asks.cancel(identifier, by=run.identity, via=VIA)
            outcome["cancelled"].append(str(identifier))
        except InteractionClosedError:
            outcome["already_closed"].append(str(identifier))
        except InteractionNotFoundError:
            outcome["not_found"].append(str(identifier))
    return outcome


def _writer() -> RunContext:
    run = current_run()
    if not run.identity.may("write"):
        raise ForbiddenError("This identity may not answer questions.")
    return run


def _id(text: str, field: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise BadInputError(f"{field} is not an interaction id", field=field) from None
