"""What the doors of schedules take and give."""

from __future__ import annotations

from rejoinder.doors.schemas.words import (
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

CRON: Schema = {"anyOf": [{"type": "string"}, {"type": "integer"}]}

SCHEMAS: dict[str, Schema] = {
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
}
