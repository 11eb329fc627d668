"""What the doors of tools, agents and their runs take and give."""

from __future__ import annotations

from rejoinder.contract.questions import CALLER_FORMATS
from rejoinder.doors.schemas.words import (
    ANY,
    ID,
    MOMENT,
    OBJECT,
    TEXT,
    TRUTH,
    Schema,
    items,
    maybe,
    one_of,
    record,
    ref,
)

RUN_STATES = ["running", "parked", "succeeded", "failed", "lost", "cancelled"]
_RUN = {
    "run_id": ID,
    "tool_name": TEXT,
    "status": one_of(RUN_STATES),
    "held": TRUTH,
    "identity": TEXT,
    "created_at": MOMENT,
    "finished_at": maybe(MOMENT),
    "subject": maybe(TEXT),
}


SCHEMAS: dict[str, Schema] = {
    "ToolCall": record({"tool_name": TEXT}, {"arguments": OBJECT}),
    "BackgroundCall": record({"tool_name": TEXT}, {"arguments": OBJECT, "subject": maybe(TEXT)}),
    "RunResult": record(
        {"kind": one_of(("result", "asks", "parked", "none")), "result": ANY},
        description="result: what the tool returned. asks: the run waits for its caller, and result holds its run_id "
        "and its asks. parked: the run waits for people, and result names the questions. none: the tool returned "
        "nothing.",
    ),
    "Resume": record({"answers": OBJECT}, {"wait_seconds": {"type": "number", "minimum": 0}}),
    "Tools": record(
        {
            "items": items(
                record(
                    {
                        "name": TEXT,
                        "title": maybe(TEXT),
                        "description": TEXT,
                        "input_schema": OBJECT,
                        "group": maybe(TEXT),
                        "read_only": TRUTH,
                        "destructive": maybe(TRUTH),
                        "idempotent": TRUTH,
                        "internal": TRUTH,
                    }
                )
            )
        }
    ),
    "Agents": record(
        {
            "items": items(
                record(
                    {
                        "name": TEXT,
                        "title": maybe(TEXT),
                        "description": TEXT,
                        "kind": one_of(("simple", "deep", "graph")),
                        "model": maybe(TEXT),
                        "tools": items(TEXT),
                        "subagents": items(
                            record(
                                {
                                    "name": TEXT,
                                    "description": TEXT,
                                    "model": maybe(TEXT),
                                    "tools": items(TEXT),
                                }
                            )
                        ),
                    }
                )
            )
        }
    ),
    "RunnableAgents": record(
        {"items": items(record({"name": TEXT, "runnable": TRUTH, "lacking": maybe(TEXT), "authored": TRUTH}))}
    ),
    "AgentCall": record({"message": TEXT}, {"follow": TRUTH}),
    "RunStarted": record({"run_id": ID}),
    "RunChanged": record({"run_id": ID, "status": one_of(("queued", "discarded"))}),
    "Run": record(
        _RUN | {"arguments": maybe(OBJECT), "result": ANY, "error": maybe(OBJECT)},
        {"asks": items(ref("CallerAsk"))},
    ),
    "CallerAsk": record(
        {
            "interaction_id": ID,
            "run_id": ID,
            "tool": TEXT,
            "group_id": TEXT,
            "question": maybe(TEXT),
            "payload": ANY,
            "answer_format": one_of(CALLER_FORMATS),
            "format_payload": maybe(OBJECT),
            "created_at": MOMENT,
            "expiry_at": MOMENT,
            "on_expiry": one_of(("kill", "resume")),
        },
        {"media": items(OBJECT)},
        description="What a run asks whoever called it. question or payload is there, or both.",
    ),
    "Runs": record({"items": items(record(_RUN))}),
}
