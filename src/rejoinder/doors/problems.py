"""Refusals and failures as doors answer them: one shape, the status of the error, no inner detail.

``{"error": sentence, "code": word[, "field": name][, "id": request id]}``. The id is there where the fault is ours
(5xx); the log has the same id.
"""

from __future__ import annotations

from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from rejoinder.contract.errors import NotReadyError, RejoinderError
from rejoinder.doors.bodies import JSON_TYPE, Headers, to_bytes
from rejoinder.doors.flood import FloodError

INTERNAL = "Something went wrong here. The log has it under this id."
AWAY = "The database does not answer at the moment. Try again."
#: Our own errors of 500 whose text was written for the caller.
_TOLD = frozenset(("tool-failed", "run-failed"))
_HTTP = {
    404: ("not-found", "There is nothing at this address."),
    405: ("method-not-allowed", "This address does not take that method."),
    413: ("too-large", "The request is larger than this door takes."),
}

Problem = tuple[int, dict[str, Any], Headers]


def problem_of(error: BaseException, request_id: str) -> Problem | None:
    """Status, body and headers for an error that a door may explain, or None for one that only the log may."""
    if isinstance(error, RejoinderError):
        return _ours(error, request_id)
    if isinstance(error, RequestValidationError):
        return 400, _invalid(error), []
    if isinstance(error, HTTPException):
        return _http(error, request_id)
    return None


def internal(request_id: str) -> Problem:
    return 500, {"error": INTERNAL, "code": "internal", "id": request_id}, []


def render(problem: Problem) -> tuple[int, Headers, bytes]:
    status, body, headers = problem
    content = to_bytes(body)
    return status, [JSON_TYPE, (b"content-length", str(len(content)).encode()), *headers], content


def _ours(error: RejoinderError, request_id: str) -> Problem | None:
    status = error.status
    if status == 500 and error.code not in _TOLD:
        return None
    body = error.as_problem()
    headers: Headers = []
    if isinstance(error, NotReadyError):
        body["error"] = AWAY
    if status >= 500:
        body["id"] = request_id
    if status == 503:
        headers.append((b"retry-after", b"1"))
    if isinstance(error, FloodError):
        headers.append((b"retry-after", str(error.retry_after).encode()))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return status, body, headers


def _http(error: HTTPException, request_id: str) -> Problem:
    status = error.status_code
    code, text = _HTTP.get(status, ("refused", "The request was refused."))
    body: dict[str, Any] = {"error": text, "code": code}
    if status >= 500:
        body |= {"error": INTERNAL, "code": "internal", "id": request_id}
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in (error.headers or {}).items()
    ]
    return status, body, headers


def _invalid(error: RequestValidationError) -> dict[str, Any]:
    faults = error.errors()
    fault = faults[0] if faults else {"loc": (), "type": "", "msg": ""}
    field = str(fault["loc"][-1]) if fault["loc"] else "request"
    return {"error": f"{field} {_reason(fault)}", "code": "bad-input", "field": field}


def _reason(fault: dict[str, Any]) -> str:
    kind, limits = str(fault["type"]), fault.get("ctx") or {}
    if kind == "value_error":
        return str(limits.get("error", "is not usable"))
    fixed = {
        "missing": "is required",
        "int_parsing": "must be a whole number",
        "int_parsing_size": "must be a whole number of reasonable size",
        "int_from_float": "must be a whole number",
        "float_parsing": "must be a number",
        "finite_number": "must be a finite number",
        "bool_parsing": "must be true or false",
        "uuid_parsing": "must be an id",
        "timezone_aware": "has no time zone",
    }
    if kind in fixed:
        return fixed[kind]
    if kind.startswith(("datetime", "date_")):
        return "must be a date and time with its zone, such as 2030-01-31T09:00:00+01:00"
    for name, words in (
        ("ge", "must be at least"),
        ("le", "must be at most"),
        ("gt", "must be more than"),
        ("lt", "must be less than"),
    ):
        if name in limits:
            return f"{words} {limits[name]}"
    if "max_length" in limits:
        return f"must be at most {limits['max_length']} characters long"
    if "expected" in limits:
        return f"must be one of {limits['expected']}".replace("'", "")
    return "is not usable"
