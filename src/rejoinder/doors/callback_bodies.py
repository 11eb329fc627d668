"""What a callback brings: an outside system's own object, or what a channel forwards of a person's answer."""

from __future__ import annotations

import re
from typing import Any, cast
from urllib.parse import parse_qsl

from rejoinder.asks.callback import Proven, Reply
from rejoinder.contract.errors import BadInputError
from rejoinder.contract.questions import Question
from rejoinder.contract.text import unstorable_text
from rejoinder.doors.bodies import parse_json, to_bytes

MOST_PAIRS = 5_100
KEYS = frozenset(("answer", "params", "medium_message_id", "reply_to_medium_message_id"))
MOST_PARAMS, MAX_PARAM, MAX_PARAMS, MAX_MEDIUM_ID = 16, 512, 2_048, 512
_PARAM = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)

Pairs = list[tuple[str, str]]


def outside_value(raw: bytes, query: bytes, proven: Proven) -> dict[str, Any]:
    """What an outside system sent: its body word for word, or without one the query."""
    if raw:
        value = parse_json(raw)
        if not isinstance(value, dict):
            raise BadInputError("the body must be a JSON object", field="body")
        return value
    if proven.post_only:
        raise BadInputError("verified callback requires a signed request body", field="body")
    return query_map(query)


def query_map(query: bytes) -> dict[str, Any]:
    """The query's parameters; one that comes several times is a list."""
    found: dict[str, list[str]] = {}
    for name, value in pairs_of(query, "query"):
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def pairs_of(text: bytes, field: str) -> Pairs:
    try:
        return parse_qsl(
            text.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_PAIRS, errors="strict"
        )
    except ValueError:
        raise BadInputError(f"the {field} cannot be read", field=field) from None


def channel_value(question: Question, raw: bytes) -> tuple[Any, Reply]:
    """What a channel forwards: the answer, and what it tells beside it."""
    if not raw:
        if question.answer_format == "confirm":
            return True, Reply()
        raise BadInputError("body must contain 'answer'", field="answer")
    body = parse_json(raw)
    if not isinstance(body, dict):
        raise BadInputError("the body must be a JSON object", field="body")
    if "answer" not in body:
        raise BadInputError("body must contain 'answer'", field="answer")
    if set(body) - KEYS:
        raise BadInputError(f"the body takes {', '.join(sorted(KEYS))}, and no other key", field="body")
    reply = Reply(
        _params(body.get("params")),
        _medium_id(body, "reply_to_medium_message_id"),
        _medium_id(body, "medium_message_id"),
    )
    return body["answer"], reply


def _params(value: object) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or len(value) > MOST_PARAMS:
        raise BadInputError(f"params must be an object of at most {MOST_PARAMS} texts", field="params")
    for name, text in value.items():
        if not _PARAM.fullmatch(name):
            raise BadInputError(
                "a name in params has 1 to 64 letters, digits, _ and -, and nothing else", field="params"
            )
        if not isinstance(text, str) or len(text) > MAX_PARAM or unstorable_text(text):
            raise BadInputError(
                f"params.{name} must be text of at most {MAX_PARAM} characters", field="params"
            )
    if len(to_bytes(value)) > MAX_PARAMS:
        raise BadInputError(f"params is over {MAX_PARAMS} bytes of JSON", field="params")
    return cast("dict[str, str]", value) or None


def _medium_id(body: dict[str, Any], key: str) -> str | None:
    value = body.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_MEDIUM_ID or unstorable_text(value):
        raise BadInputError(f"{key} must be text of 1 to {MAX_MEDIUM_ID} characters", field=key)
    return value
