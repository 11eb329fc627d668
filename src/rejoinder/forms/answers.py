"""Whether an answer fits what was asked."""

from __future__ import annotations

from typing import Any

from rejoinder.contract.errors import AnswerMismatchError
from rejoinder.contract.text import MAX_DEPTH, unstorable
from rejoinder.forms import words
from rejoinder.forms.engine import Compiled, compiled
from rejoinder.forms.fault import Fault, Path
from rejoinder.forms.faults import faults
from rejoinder.forms.order import in_order
from rejoinder.forms.paths import dotted
from rejoinder.forms.walk import SchemaFault

#: Above this many looks at an answer's places, faults are no longer told one by one: each costs far more than a look.
MAX_LOOKS = 100_000


def check_answer(answer_format: str, payload: dict[str, Any] | None, answer: Any) -> Any:
    """The answer, where it fits; ``payload`` is ``{"options": [...]}`` or ``{"schema": {...}}``.

    Raises AnswerMismatchError; for forms ``field`` is the dotted path of the first fault in the schema's order and
    ``errors`` maps every faulty place to its sentence (the whole form is the empty path).
    """
    match answer_format:
        case "text":
            if not isinstance(answer, str):
                raise AnswerMismatchError("answer must be a string")
            _check_storable(answer)
        case "confirm":
            if not isinstance(answer, bool):
                raise AnswerMismatchError("answer must be a boolean")
        case "select":
            options = (payload or {}).get("options") or []
            if not isinstance(answer, str) or answer not in options:
                raise AnswerMismatchError(f"answer must be one of {words.listed(options)}")
        case "form":
            if not isinstance(answer, dict):
                raise AnswerMismatchError("answer must be an object")
            _check_storable(answer)
            _check_form((payload or {}).get("schema") or {}, answer)
        case _:
            raise AnswerMismatchError("questions of this kind are not answered here")
    return answer


def form_faults(schema: dict[str, Any], value: Any) -> dict[Path, str]:
    """Every fault of a storable value, by place, in the schema's order; empty where it fits.

    Raises AnswerMismatchError where the schema cannot be processed at all.
    """
    try:
        ready = compiled(schema)
    except SchemaFault as fault:
        raise AnswerMismatchError(
            f"answer does not match schema: the schema cannot be processed, at {fault.pointer}"
        ) from fault
    nodes = _measure(value, ready)
    if nodes is None:
        return {(): words.too_deep()}
    if ready.validator.is_valid(value):
        return {}
    if (nodes or _measure_nodes(value)) * ready.visits > MAX_LOOKS:
        return {(): words.other()}
    found = faults(ready.validator.iter_errors(value), value) or {(): Fault(words.other())}
    return {path: fault.sentence for path, fault in in_order(schema, found).items()}


def mismatch(found: dict[Path, str]) -> AnswerMismatchError:
    """The error for these faults; the first one is its text."""
    path, sentence = next(iter(found.items()))
    place = dotted(path)
    where = f" at {place}" if path else ""
    return AnswerMismatchError(
        f"answer does not match schema{where}: {sentence}",
        field=place if path else None,
        errors={dotted(at): text for at, text in found.items()},
    )


def _check_form(schema: dict[str, Any], answer: dict[str, Any]) -> None:
    found = form_faults(schema, answer)
    if found:
        raise mismatch(found)


def _check_storable(answer: Any) -> None:
    reason = unstorable(answer)
    if reason is not None:
        raise AnswerMismatchError(f"answer cannot be kept: {reason}")


def _measure(value: Any, ready: Compiled) -> int | None:
    """None where the value is nested deeper than its schema allows; 0 where depth needs no look."""
    if ready.max_depth >= MAX_DEPTH:
        return 0
    return _measure_nodes(value, ready.max_depth) or None


def _measure_nodes(value: Any, deepest: int | None = None) -> int:
    """How many values there are in a value; 0 where one lies too deep."""
    count = 0
    level = [value]
    depth = 0
    while level:
        if deepest is not None and depth > deepest:
            return 0
        count += len(level)
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        level = below
        depth += 1
    return count
