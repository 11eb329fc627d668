"""What the doors of questions and answers take and give."""

from __future__ import annotations

from rejoinder.contract.questions import SHOWN_FORMATS
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
    ref,
)

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

SCHEMAS: dict[str, Schema] = {
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
}
