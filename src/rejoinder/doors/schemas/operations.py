"""What the doors for whoever runs a deployment give, and what every door refuses with."""

from __future__ import annotations

from rejoinder.doors.schemas.words import (
    ANY,
    ID,
    MOMENT,
    OBJECT,
    STATES,
    TEXT,
    TRUTH,
    WHOLE,
    Schema,
    items,
    maybe,
    one_of,
    record,
)

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
    "Health": record({"status": {"const": "ok"}}),
    "Ready": record(
        {
            "status": one_of(("ready", "not ready")),
            "checks": {"type": "object", "additionalProperties": TRUTH},
        }
    ),
}
