"""What ``ask`` was given, checked in one order before anything is stored. Each refusal names its parameter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, cast, get_args
from uuid import uuid4

from rejoinder.asks.external import check_external
from rejoinder.contract.errors import AskArgumentError, CrossIdentityAudienceError
from rejoinder.contract.identity import Identity
from rejoinder.contract.media import MediaItem, check_media
from rejoinder.contract.questions import (
    CALLER_FORMATS,
    FORMATS,
    MAX_AUDIENCE,
    MAX_GROUP,
    MAX_OPTION,
    MAX_OPTIONS,
    MAX_PAYLOAD,
    MAX_QUESTION,
    AnswerFormat,
    AskRequest,
    Mode,
    OnExpiry,
)
from rejoinder.contract.text import unstorable, unstorable_text
from rejoinder.verifiers.registry import Verifiers

#: A year: longer waits are parked runs with a date, and Postgres' interval takes no infinite number.
MAX_TIMEOUT = 366 * 86_400


def build_request(
    question: object,
    *,
    identity: Identity,
    default_timeout: float,
    answer_format: object = "text",
    options: object = None,
    schema: object = None,
    data: object = None,
    pages: object = None,
    wording: object = None,
    group_id: object = None,
    timeout: object = None,
    audience: object = None,
    media: Sequence[MediaItem | dict[str, Any]] | None = None,
    sensitive: object = False,
    mode: object = "sync",
    expiry_at: object = None,
    on_expiry: object = "kill",
    to: object = "user",
    payload: object = None,
    link: object = None,
    verifier: object = None,
    verifiers: Verifiers | None = None,
    public_base_url: str | None = None,
) -> AskRequest:
    """Raises AskArgumentError; ``field`` is the parameter's name. ``verifiers`` and ``public_base_url`` are the
    deployment's, not the asker's."""
    text = _addressing(to, question, payload, mode, audience)
    seconds, deadline = _timing(mode, timeout, expiry_at)
    if on_expiry not in get_args(OnExpiry):
        raise AskArgumentError('on_expiry must be "kill" or "resume"', field="on_expiry")
    if on_expiry != "kill" and mode != "async":
        raise AskArgumentError('on_expiry goes with mode="async" only', field="on_expiry")
    if not isinstance(sensitive, bool):
        raise AskArgumentError("sensitive must be true or false", field="sensitive")
    if sensitive and mode == "async":
        raise AskArgumentError(
            'a sensitive answer is never stored, so a parked run could not be given it; ask with mode="sync"',
            field="sensitive",
        )
    if answer_format == "free" and to != "caller":
        raise AskArgumentError('answer_format free goes with to="caller" only', field="answer_format")
    known = FORMATS if to == "user" else CALLER_FORMATS
    if answer_format not in known:
        raise AskArgumentError(
            f"unknown answer_format: {_shown(answer_format)}; use one of {', '.join(known)}",
            field="answer_format",
        )
    chosen: AnswerFormat = answer_format
    return AskRequest(
        question=text,
        answer_format=chosen,
        format_payload=_payload(chosen, options, schema, data, pages, wording),
        group_id=str(uuid4()) if group_id is None else _text(group_id, "group_id", MAX_GROUP),
        mode=cast(Mode, mode),
        timeout=seconds if deadline is not None or seconds is not None else default_timeout,
        expiry_at=deadline,
        on_expiry=cast(OnExpiry, on_expiry),
        # Whoever called the run is asked, whoever that is.
        audience=None if to == "caller" else _audience(audience, identity),
        external=check_external(
            chosen,
            link,
            verifier,
            verifiers=Verifiers() if verifiers is None else verifiers,
            public_base_url=public_base_url,
        ),
        media=check_media(media),
        sensitive=sensitive,
        to=cast('Literal["user", "caller"]', to),
        payload=payload,
    )


def _addressing(to: object, question: object, payload: object, mode: object, audience: object) -> str:
    """The question's text; empty where a payload stands in its place."""
    if to not in ("user", "caller"):
        raise AskArgumentError('to must be "user" or "caller"', field="to")
    if to == "user":
        if payload is not None:
            raise AskArgumentError('payload goes with to="caller" only', field="payload")
        return _text(question, "question", MAX_QUESTION)
    if mode != "async":
        raise AskArgumentError('the caller is asked with mode="async" only: it waits itself', field="mode")
    if audience is not None:
        raise AskArgumentError(
            'audience names a person; with to="caller" whoever called is asked', field="audience"
        )
    if payload is None:
        if question is None:
            raise AskArgumentError("give the caller a question, a payload or both", field="question")
    else:
        _check_payload(payload)
    return "" if question is None else _text(question, "question", MAX_QUESTION)


def _check_payload(payload: object) -> None:
    if reason := unstorable(payload):
        raise AskArgumentError(f"payload cannot be stored: {reason}", field="payload")
    try:
        size = len(json.dumps(payload, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError):
        raise AskArgumentError("payload must be JSON", field="payload") from None
    if size > MAX_PAYLOAD:
        raise AskArgumentError(f"payload is {size} bytes of JSON; at most {MAX_PAYLOAD} fit", field="payload")


def _timing(mode: object, timeout: object, expiry_at: object) -> tuple[float | None, datetime | None]:
    if mode not in get_args(Mode):
        raise AskArgumentError('mode must be "sync" or "async"', field="mode")
    if timeout is not None and expiry_at is not None:
        raise AskArgumentError("timeout and expiry_at bound the same wait; give one of them", field="timeout")
    if mode == "sync":
        if expiry_at is not None:
            raise AskArgumentError(
                'expiry_at goes with mode="async"; a sync ask takes timeout', field="expiry_at"
            )
        return _timeout(timeout), None
    if timeout is not None:
        raise AskArgumentError('timeout goes with mode="sync"; an async ask takes expiry_at', field="timeout")
    if expiry_at is None:
        raise AskArgumentError(
            'mode="async" needs expiry_at, the moment at which the question lapses', field="expiry_at"
        )
    return None, _moment(expiry_at)


def _timeout(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AskArgumentError("timeout must be a number of seconds", field="timeout")
    if value <= 0 or value != value:
        raise AskArgumentError("timeout must be more than zero seconds", field="timeout")
    # Compared before it is made a float: an integer may be too large for one.
    if value > MAX_TIMEOUT:
        raise AskArgumentError(f"timeout must be at most {MAX_TIMEOUT} seconds (a year)", field="timeout")
    return float(value)


def _moment(value: object) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise AskArgumentError(
                "expiry_at must be a date and time with its zone, such as 2030-01-31T09:00:00+01:00",
                field="expiry_at",
            ) from None
    if not isinstance(value, datetime):
        raise AskArgumentError("expiry_at must be a date and time with its zone", field="expiry_at")
    if value.tzinfo is None or value.utcoffset() is None:
        raise AskArgumentError(
            "expiry_at has no time zone; give one, so that the moment is certain", field="expiry_at"
        )
    if not 1970 <= value.year <= 9990:
        raise AskArgumentError("expiry_at is out of range", field="expiry_at")
    return value


def _payload(
    answer_format: AnswerFormat, options: object, schema: object, data: object, pages: object, wording: object
) -> dict[str, Any] | None:
    if options is not None and answer_format not in ("select", "text"):
        raise AskArgumentError("options go with select, and with text as suggestions", field="options")
    if schema is not None and answer_format not in ("form", "external"):
        raise AskArgumentError("schema goes with form, and with external to check what comes", field="schema")
    if data is not None and answer_format != "form":
        raise AskArgumentError("data goes with form", field="data")
    if pages is not None and answer_format != "form":
        raise AskArgumentError("pages go with form", field="pages")
    if answer_format == "form":
        if schema is None:
            raise AskArgumentError("a form needs its schema", field="schema")
        from rejoinder.forms.asked import form_payload

        return form_payload(schema, data=data, pages=pages, wording=wording)
    if answer_format == "select" and options is None:
        raise AskArgumentError("a select needs its options", field="options")
    payload: dict[str, Any] = {} if options is None else {"options": _options(options)}
    if schema is not None:
        from rejoinder.forms.schema import check_schema

        payload["schema"] = check_schema(schema, field="schema")
    if wording is not None:
        from rejoinder.forms.wording import check_wording

        payload["wording"] = check_wording(wording, answer_format)
    return payload or None


def _options(options: object) -> list[str]:
    if isinstance(options, str | bytes | dict) or not isinstance(options, Sequence) or not options:
        raise AskArgumentError("options must be a list of texts that is not empty", field="options")
    if len(options) > MAX_OPTIONS:
        raise AskArgumentError(
            f"options holds {len(options)} entries; at most {MAX_OPTIONS} fit", field="options"
        )
    texts = [_text(option, f"options[{i}]", MAX_OPTION) for i, option in enumerate(options)]
    if len(set(texts)) != len(texts):
        raise AskArgumentError("options holds the same text twice", field="options")
    return texts


def _audience(audience: object, identity: Identity) -> str | None:
    if audience is None:
        return identity.name if identity.restricted else None
    name = _text(audience, "audience", MAX_AUDIENCE)
    if identity.restricted and name != identity.name:
        raise CrossIdentityAudienceError(field="audience")
    return name


def _text(value: object, field: str, cap: int) -> str:
    if not isinstance(value, str):
        raise AskArgumentError(f"{field} must be text", field=field)
    if not value.strip():
        raise AskArgumentError(f"{field} must not be empty", field=field)
    if len(value) > cap:
        raise AskArgumentError(f"{field} is {len(value)} characters long; at most {cap} fit", field=field)
    if reason := unstorable_text(value):
        raise AskArgumentError(f"{field} cannot be stored: {reason}", field=field)
    return value


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else type(value).__name__
    return text[:40].encode("unicode_escape").decode("ascii")
