"""What the doors take and give, as JSON Schemas for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from rejoinder.contract.identity import GRANTS
from rejoinder.contract.questions import CALLER_FORMATS, SHOWN_FORMATS

Schema = dict[str, Any]

STATES = ["pending", "answered", "expired", "cancelled", "undelivered", "superseded"]
RUN_STATES = ["running", "parked", "succeeded", "failed", "lost", "cancelled"]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
TRUTH: Schema = {"type": "boolean"}
ID: Schema = {"type": "string", "format": "uuid"}
MOMENT: Schema = {"type": "string", "format": "date-time"}
ANY: Schema = {}


def one_of(values: Any) -> Schema:
    return {"type": "string", "enum": list(values)}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def items(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def record(required: dict[str, Schema], optional: dict[str, Schema] | None = None, **more: Any) -> Schema:
    return {
        "type": "object",
        "properties": required | (optional or {}),
        "required": list(required),
        "additionalProperties": False,
        **more,
    }


OBJECT: Schema = {"type": "object"}
CRON: Schema = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
_QUESTION = {
    "interaction_id": ID,
    "group_id": TEXT,
    "question": TEXT,
    "answer_format": one_of(SHOWN_FORMATS),
    "format_payload": maybe(OBJECT),
    "created_at": MOMENT,
    "timeout_at": MOMENT,
    "sensitive": TRUTH,
    "mode": one_of(("sync", "async")),
    "on_expiry": one_of(("kill", "resume")),
    "tool": TEXT,
    "asked_by": TEXT,
    "run_id": ID,
}
_QUESTION_MORE = {"audience": TEXT, "media": items(OBJECT)}
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
    "Problem": record(
        {"error": TEXT, "code": TEXT},
        {
            "field": TEXT,
            "errors": {"type": "object", "additionalProperties": TEXT},
            "id": TEXT,
            "state": one_of(STATES),
            "answered_by": TEXT,
            "closed_at": MOMENT,
            "answer": ANY,
            "rule": TEXT,
            "retry_in_place": TRUTH,
            "status": {"const": "rejected"},
        },
        description="error is a sentence for people, code a stable word for programs. field names the part of the "
        "request that is wrong; errors has a sentence for each field of a form. id, on a 5xx, is in the server's log.",
    ),
    "ToolCall": record({"tool_name": TEXT}, {"arguments": OBJECT}),
    "BackgroundCall": record({"tool_name": TEXT}, {"arguments": OBJECT, "subject": maybe(TEXT)}),
    "RunResult": record(
        {"kind": one_of(("result", "asks", "parked", "none")), "result": ANY},
        description="result: what the tool returned. asks: the run waits for its caller, and result holds its run_id "
        "and its asks. parked: the run waits for people, and result names the questions. none: the tool returned "
        "nothing.",
    ),
    "Resume": record({"answers": OBJECT}, {"wait_seconds": {"type": "number", "minimum": 0}}),
    "Answer": record({"answer": ANY}, description="Typed by the question's format."),
    "Answered": record({"interaction_id": ID, "status": {"const": "answered"}}),
    "CallbackAnswered": {
        "anyOf": [
            record(
                {"status": one_of(("answered", "already_answered", "already_seen"))}, {"interaction_id": ID}
            ),
            record({"canary": TEXT}),
        ]
    },
    "Verifiers": record({"items": items(record({"name": TEXT, "post_only": TRUTH}))}),
    "Delivered": record(
        {"status": one_of(("accepted", "already_seen")), "topic": TEXT},
        description="accepted: the event is kept. already_seen: this very delivery was kept before.",
    ),
    "HookRuns": record(
        {
            "items": items(
                record(
                    {
                        "id": ID,
                        "topic": TEXT,
                        "hook": TEXT,
                        "status": one_of(("outstanding", "failed")),
                        "attempts": WHOLE,
                        "next_attempt_at": maybe(MOMENT),
                        "acted": TRUTH,
                        "acted_ids": items(ID),
                        "claim_intent": one_of(("", "start", "resume")),
                        "last_error": maybe(TEXT),
                        "last_error_kind": maybe(TEXT),
                        "created_at": MOMENT,
                        "failed_at": maybe(MOMENT),
                    },
                    description="acted: a run of it succeeded, parked or was lost. acted_ids: the runs that it started.",
                )
            ),
            "next_cursor": maybe(TEXT),
            "outstanding": WHOLE,
            "failed": WHOLE,
        }
    ),
    "HookRunChanged": record({"id": ID, "status": one_of(("outstanding", "discarded"))}),
    "Notifications": record(
        {
            "items": items(
                record(
                    {
                        "id": ID,
                        "kind": TEXT,
                        "about": maybe(ID),
                        "text": TEXT,
                        "created_at": MOMENT,
                        "resolved_at": maybe(MOMENT),
                    }
                )
            )
        }
    ),
    "OpenedLink": record({"interaction_id": ID, "url": TEXT}),
    "Cancelled": record({"interaction_id": ID, "status": {"const": "cancelled"}}),
    "Question": record(_QUESTION, _QUESTION_MORE),
    "QuestionDetail": record(
        _QUESTION | {"status": one_of(STATES)},
        _QUESTION_MORE
        | {
            "answer": ANY,
            "closed_at": MOMENT,
            "closed_by": maybe(TEXT),
            "closed_via": maybe(TEXT),
            "reason": maybe(TEXT),
        },
    ),
    "QuestionPage": record(
        {
            "items": items(ref("Question")),
            "total": WHOLE,
            "page": maybe(WHOLE),
            "page_size": WHOLE,
            "next_page": maybe(WHOLE),
            "next_cursor": maybe(TEXT),
            "truncated": TRUTH,
        }
    ),
    "ParkedQuestions": record(
        {
            "items": items(
                record(
                    {
                        "interaction_id": ID,
                        "group_id": TEXT,
                        "question": TEXT,
                        "answer_format": one_of(SHOWN_FORMATS),
                        "channel": maybe(TEXT),
                        "recipient": maybe(TEXT),
                        "audience": maybe(TEXT),
                        "thread_id": maybe(TEXT),
                        "expiry_at": MOMENT,
                        "on_expiry": one_of(("kill", "resume")),
                        "created_at": MOMENT,
                        "mode": TEXT,
                        "tool": TEXT,
                        "run_id": ID,
                    }
                )
            ),
            "count": WHOLE,
        }
    ),
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
    "Events": record(
        {
            "items": items(
                record(
                    {
                        "seq": WHOLE,
                        "at": MOMENT,
                        "kind": TEXT,
                        "interaction_id": maybe(ID),
                        "group_id": maybe(TEXT),
                        "run_id": maybe(ID),
                        "audience": maybe(TEXT),
                        "actor": maybe(TEXT),
                        "via": maybe(TEXT),
                        "reason": maybe(TEXT),
                        "detail": maybe(OBJECT),
                    }
                )
            ),
            "next_before": maybe(WHOLE),
        }
    ),
    "Swept": record({"swept": WHOLE, "stranded": WHOLE}),
    "Processes": record(
        {
            "items": items(
                record(
                    {
                        "id": ID,
                        "kind": TEXT,
                        "host": TEXT,
                        "pid": WHOLE,
                        "version": TEXT,
                        "started_at": MOMENT,
                        "beat_at": MOMENT,
                    }
                )
            )
        }
    ),
    "Key": record(
        {
            "id": ID,
            "name": TEXT,
            "identity": TEXT,
            "grants": items(one_of(GRANTS)),
            "owner": maybe(TEXT),
            "created_at": MOMENT,
            "created_by": TEXT,
            "expires_at": maybe(MOMENT),
            "revoked_at": maybe(MOMENT),
        }
    ),
    "Keys": record({"items": items(ref("Key"))}),
    "NewKey": record(
        {"name": TEXT, "grants": items(one_of(GRANTS))},
        {"identity": maybe(TEXT), "owner": maybe(TEXT), "expires_at": maybe(MOMENT)},
    ),
    "CreatedKey": record({"key": ref("Key"), "secret": TEXT}),
    "RevokedKeys": record({"revoked": items(TEXT)}),
    "Cadence": record(
        {"kind": one_of(("interval", "crontab"))},
        {
            "every": {"type": "number", "minimum": 0.1},
            "relative": TRUTH,
            "expression": TEXT,
            "minute": CRON,
            "hour": CRON,
            "day_of_month": CRON,
            "month_of_year": CRON,
            "day_of_week": CRON,
        },
        description="interval: every so many seconds; relative begins at a whole day, hour, minute or second. crontab: an "
        "expression of five fields, or six with the seconds first, or the fields by name; in UTC.",
    ),
    "NewSchedule": record(
        {"tool_name": TEXT},
        {
            "tool_kwargs": maybe(OBJECT),
            "cadence": maybe(ref("Cadence")),
            "schedule_name": maybe(TEXT),
            "execution_key": maybe(TEXT),
            "missed": one_of(("once", "skip", "all")),
            "start_expr": maybe(TEXT),
            "subject": maybe(TEXT),
        },
        description="Without a cadence it runs once, now. execution_key is the key that it runs under, the caller's own by "
        "default.",
    ),
    "Schedule": record(
        {
            "name": TEXT,
            "tool": TEXT,
            "cadence": maybe(ref("Cadence")),
            "enabled": TRUTH,
            "next_run_at_ts": maybe({"type": "number"}),
            "next_run_at_iso": maybe(MOMENT),
            "last_run_id": maybe(ID),
            "error": maybe(TEXT),
        }
    ),
    "Schedules": record({"items": items(ref("Schedule")), "next_after": maybe(TEXT)}),
    "ScheduleChange": record({"enabled": TRUTH}),
    "ScheduleDeleted": record({"name": TEXT, "status": {"const": "deleted"}}),
    "ServerTime": record(
        {"server_datetime": MOMENT, "timestamp": {"type": "number"}, "timezone": {"const": "UTC"}}
    ),
    "PublicRoute": record({"pattern": TEXT, "created_at": MOMENT, "created_by": TEXT}),
    "PublicRoutes": record({"items": items(ref("PublicRoute"))}),
    "NewPublicRoute": record({"pattern": TEXT}),
    "UnpinnedRoute": record({"pattern": TEXT, "status": {"const": "unpinned"}}),
    "SignInLink": record({"url": {"type": "string", "format": "uri"}, "expires_in_seconds": WHOLE}),
    "Health": record({"status": {"const": "ok"}}),
    "Ready": record(
        {
            "status": one_of(("ready", "not ready")),
            "checks": {"type": "object", "additionalProperties": TRUTH},
        }
    ),
}


def body(name: str) -> dict[str, Any]:
    """An operation's request body."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": ref(name)}}}}


def gives(name: str, status: int = 200, *, bare: bool = False, **headers: str) -> dict[str, Any]:
    """An operation's good answer, in the ``{"data": ...}`` envelope unless ``bare``."""
    schema = ref(name) if bare else record({"data": ref(name)})
    answer: dict[str, Any] = {
        "description": "Done",
        "content": {"application/json": {"schema": schema}},
    }
    if headers:
        answer["headers"] = {
            key.replace("_", "-"): {"description": text, "schema": TEXT} for key, text in headers.items()
        }
    return {"responses": {str(status): answer}}
