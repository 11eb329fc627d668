"""What the doors of topics, hooks, trigger links and kept runs take and give."""

from __future__ import annotations

from rejoinder.doors.schemas.words import (
    ID,
    MOMENT,
    OBJECT,
    TEXT,
    TRUTH,
    WHOLE,
    Schema,
    items,
    maybe,
    one_of,
    record,
    ref,
)

NAME: Schema = {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$", "maxLength": 120}
_BINDING = {
    "topic": TEXT,
    "verifier": maybe(TEXT),
    "config": maybe(OBJECT),
    "bound_at": maybe(MOMENT),
    "bound_by": maybe(TEXT),
}

SCHEMAS: dict[str, Schema] = {
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
    "NewHook": record(
        {"name": NAME, "topic": NAME, "tool": TEXT, "execution_key": TEXT},
        {"tool_kwargs": maybe(OBJECT), "condition": maybe(TEXT), "start_expr": maybe(TEXT)},
        description="condition and start_expr are jq over the event. The tool gets what start_expr makes, nothing where there "
        "is none, with tool_kwargs on top. execution_key names the key that it runs under.",
    ),
    "Hook": record(
        {
            "name": TEXT,
            "topic": TEXT,
            "tool": TEXT,
            "execution_key": maybe(TEXT),
            "tool_kwargs": OBJECT,
            "condition": maybe(TEXT),
            "start_expr": maybe(TEXT),
            "internal": TRUTH,
            "created_at": MOMENT,
            "created_by": TEXT,
            "updated_at": MOMENT,
            "updated_by": TEXT,
        },
        description="internal: its tool is one that nobody but a hook runs, so only an admin writes or deletes it.",
    ),
    "Hooks": record({"items": items(ref("Hook")), "next_after": maybe(TEXT)}),
    "HookDeleted": record({"name": TEXT, "status": {"const": "deleted"}}),
    "NewTopicVerifier": record({"verifier": TEXT}, {"config": OBJECT}),
    "TopicVerifier": record(_BINDING),
    "TopicUnbound": record({"topic": TEXT, "status": {"const": "unbound"}}),
    "Topics": record(
        {
            "items": items(record(_BINDING | {"open": TRUTH, "hooks": WHOLE, "links": WHOLE})),
            "next_after": maybe(TEXT),
        },
        description="open: no verifier stands before the topic, so whoever knows its name may send it events.",
    ),
    "NewTriggerLink": record(
        {"topic": NAME, "execution_key": TEXT, "ttl_seconds": maybe({"type": "integer", "minimum": 1})},
        {"name": maybe(NAME), "tool_kwargs": maybe(OBJECT), "require_api_key": TRUTH},
        description="ttl_seconds null makes a link that does not end by itself.",
    ),
    "TriggerLink": record(
        {
            "name": TEXT,
            "topic": TEXT,
            "execution_key": TEXT,
            "tool_kwargs": OBJECT,
            "require_api_key": TRUTH,
            "created_at": MOMENT,
            "created_by": TEXT,
            "expires_at": maybe(MOMENT),
            "status": one_of(("live", "expired", "out_of_service", "key_gone")),
        },
        description="out_of_service: a verifier was put before its topic. key_gone: its key was revoked or has expired.",
    ),
    "TriggerLinks": record({"items": items(ref("TriggerLink")), "next_after": maybe(TEXT)}),
    "MintedTriggerLink": record(
        {"link": ref("TriggerLink"), "token": TEXT, "url": {"type": "string", "format": "uri"}}
    ),
    "TriggerLinkRevoked": record({"name": TEXT, "status": {"const": "revoked"}}),
    "Triggered": record({"status": {"const": "accepted"}}),
}
