"""What kind of error ended an attempt, and whether another attempt could come to anything else."""

from __future__ import annotations

from typing import Literal

from rejoinder.contract.errors import RejoinderError

Kind = Literal[
    "bad_input",
    "unauthorized",
    "not_found",
    "conflict",
    "cancelled",
    "interrupted",
    "failed",
    "timed_out",
    "unavailable",
    "internal",
]

#: Verdicts: the same attempt would come to the same.
FINAL: frozenset[Kind] = frozenset(
    ("bad_input", "unauthorized", "not_found", "conflict", "cancelled", "interrupted", "failed")
)
_BY_STATUS: dict[int, Kind] = {
    400: "bad_input",
    401: "unauthorized",
    403: "unauthorized",
    404: "not_found",
    409: "conflict",
    410: "timed_out",
    413: "bad_input",
    503: "unavailable",
    504: "timed_out",
}
#: Codes of runs whose worker died in them or was stopped, and of those whose code said that it means its failure.
_BY_CODE: dict[str, Kind] = {
    "run-lost": "interrupted",
    "run-interrupted": "interrupted",
    "run-exhausted": "interrupted",
    "worker-stopped": "interrupted",
    "run-failed": "failed",
    "interaction-cancelled": "cancelled",
    "caller-gone": "cancelled",
}


def kind_of(error: RejoinderError) -> Kind:
    return _BY_CODE.get(error.code) or _BY_STATUS.get(error.status, "internal")


def kind_of_run(state: str, code: str | None) -> Kind:
    """The kind of a run's end, by its state and the code of its error."""
    if state == "cancelled":
        return "cancelled"
    if state == "lost":
        return "interrupted"
    if code in _BY_CODE:
        return _BY_CODE[code]
    # Several classes may share a code, and then a status.
    status = next((one.status for one in _subclasses(RejoinderError) if one.code == code), 500)
    return _BY_STATUS.get(status, "internal")


def _subclasses(kind: type[RejoinderError]) -> list[type[RejoinderError]]:
    found = [kind]
    for one in kind.__subclasses__():
        found += _subclasses(one)
    return found
