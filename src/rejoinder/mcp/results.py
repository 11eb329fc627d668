"""What an MCP client reads: results and errors as structured content, and as text for clients and models that read
only that."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from mcp_types import (
    CallToolResult,
    ContentBlock,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequests,
    InputRequiredResult,
    TextContent,
)

from rejoinder.contract.answers import SUSPENDED_KEY
from rejoinder.contract.questions import Question
from rejoinder.mcp.ends import Ended

#: The key under which a call that is still going says so, and the one that names the run in ``_meta``.
PENDING_KEY = "rejoinder:pending"
RUN_META = "rejoinder/run_id"
LOST_META = "rejoinder/lost_run_id"
CHECK_RUN = "check_run"
SHOWN = 200
_KINDS: dict[str, type[ElicitRequestFormParams] | type[ElicitRequestURLParams]] = {
    "form": ElicitRequestFormParams,
    "url": ElicitRequestURLParams,
}

_ANSWER = {
    "type": "object",
    "properties": {
        "answer": {"description": "The answer as the question's format types it."},
        "reply_to": {"type": ["object", "null"]},
        "params": {"type": ["object", "null"]},
    },
    "required": ["answer", "reply_to", "params"],
}
#: What the builtin ask tool answers with: the answer, the sentinel of a parked run, or word that it still waits.
ASK_OUTPUT: dict[str, Any] = {
    "type": "object",
    "anyOf": [
        _ANSWER,
        {"type": "object", "properties": {SUSPENDED_KEY: {"type": "object"}}, "required": [SUSPENDED_KEY]},
        {"type": "object", "properties": {PENDING_KEY: {"type": "object"}}, "required": [PENDING_KEY]},
    ],
}


def complete(ended: Ended, lost_run: UUID | None = None) -> CallToolResult:
    meta: dict[str, Any] = {RUN_META: str(ended.run_id)}
    if ended.kind == "error":
        content = [_text(str(ended.value["error"]))]
    elif ended.kind == "parked":
        content = [
            _text(_json(ended.value)),
            _text(
                "A person was asked, and the run is parked until the answer comes; nothing has failed. It goes on by "
                f"itself then. {CHECK_RUN} with run_id {ended.run_id} gives its result."
            ),
        ]
    elif ended.kind == "asks":
        content = [
            _text(_json(ended.value["asks"])),
            _text(
                "This asks you, the caller, and not a person; the run is parked until you answer. Call resume_parked with "
                f"each interaction_id and the answer as payload, then {CHECK_RUN} with run_id {ended.run_id}."
            ),
        ]
    else:
        content = [_text(ended.value if isinstance(ended.value, str) else _json(ended.value))]
    if lost_run is not None:
        meta[LOST_META] = str(lost_run)
        content.append(
            _text(
                f"An earlier run of this same call, {lost_run}, ended with the server that ran it, and what it had "
                "asked was withdrawn. This was a new run."
            )
        )
    return CallToolResult(
        content=content,
        structured_content=_object(ended.value),
        is_error=ended.kind == "error",
        _meta=meta,
    )


def problem(error: dict[str, object]) -> CallToolResult:
    """A call that never became a run."""
    return CallToolResult(content=[_text(str(error["error"]))], structured_content=error, is_error=True)


def pending(run_id: UUID, tool: str | None, questions: list[Question], *, checkable: bool) -> CallToolResult:
    """Not an error: the run goes on. ``tool`` is None where the caller asked by the run's id."""
    state = waiting_text(questions)
    how = []
    if checkable:
        how.append(f"Call {CHECK_RUN} with run_id {run_id} to wait for the result.")
    if tool is not None:
        how.append(
            f"Calling {tool} again with exactly these arguments waits for the same run; it does not start another."
        )
    return CallToolResult(
        content=[_text(" ".join([f"Not finished yet: {state}. Nothing has failed.", *how]))],
        structured_content={
            PENDING_KEY: {
                "run_id": str(run_id),
                "interaction_ids": [str(q.id) for q in questions],
                "message": state,
            }
        },
        _meta={RUN_META: str(run_id)},
    )


def elicitation(params: dict[str, Any]) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": params}


def input_required(requests: dict[str, dict[str, Any]], state: str) -> InputRequiredResult:
    """What the client shall ask its person (the parameters of ``elicitation/create`` by question), or only call again."""
    asked: InputRequests = {
        key: ElicitRequest(params=_KINDS[one["mode"]].model_validate(one)) for key, one in requests.items()
    }
    return InputRequiredResult(input_requests=asked or None, request_state=state)


def waiting_text(questions: list[Question]) -> str:
    if not questions:
        return "the tool is still running"
    first = " ".join(questions[0].question.split())
    shown = first if len(first) <= SHOWN else first[: SHOWN - 1] + "…"
    more = f" (and {len(questions) - 1} more)" if len(questions) > 1 else ""
    return f"waiting for a person: {shown}{more}"


def _object(value: Any) -> dict[str, Any]:
    # The older protocol generation takes an object only, so that everything else travels inside one.
    return value if isinstance(value, dict) else {"result": value}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=None)


def _text(text: str) -> ContentBlock:
    return TextContent(text=text)
