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
from rejoinder.forms.wording import word

#: Above this many looks at an answer's places, faults are no longer told one by one: each costs far more than a look.
MAX_LOOKS = 100_000


def check_answer(answer_format: str, payload: dict[str, Any] | None, answer: Any) -> Any:
    """The answer as it is recorded, where it fits: a form's without the values of hidden fields and without empty
    texts. ``payload`` is the question's ``format_payload``: ``{"options": [...]}`` or ``{"schema": {...}, ...}``.

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
            kept, found = examined(payload or {}, answer)
            if found:
                raise mismatch(found)
            return kept
        case "approval":
            from rejoinder.forms.approvals import check_approval

            return check_approval(payload or {}, answer)
        case "external":
            raise AnswerMismatchError("external interactions are answered via their callback URL")
        case _:
            raise AnswerMismatchError("questions of this kind are not answered here")
    return answer


def check_external(payload: dict[str, Any] | None, answer: Any) -> Any:
    """What an outside system sent, word for word, where it is an object and fits the question's schema, if it has one.

    Raises AnswerMismatchError as ``check_answer``.
    """
    if not isinstance(answer, dict):
        raise AnswerMismatchError("answer must be an object")
    _check_storable(answer)
    if payload is not None and "schema" in payload:
        _, found = examined(payload, answer)
        if found:
            raise mismatch(found)
    return answer


def as_kept(answer_format: str, payload: dict[str, Any] | None, answer: Any) -> Any:
    """The answer as it is recorded where it fits: a form's without what is hidden."""
    schema = (payload or {}).get("schema")
    if answer_format != "form" or schema is None or not isinstance(answer, dict):
        return answer
    try:
        return compiled(schema).rules.settled(answer)
    except SchemaFault:
        return answer


def examined(
    payload: dict[str, Any], value: Any, unread: dict[Path, Fault] | None = None
) -> tuple[Any, dict[Path, str]]:
    """A storable value as it would be recorded, and every fault of it by place, in the schema's order.

    ``payload`` is a form's ``format_payload``; its ``wording`` is what the person is told. ``unread`` are the places
    whose text could not be read: they are missing from the value, and their own faults say more.

    Raises AnswerMismatchError where the schema cannot be processed at all.
    """
    schema = payload.get("schema") or {}
    try:
        ready = compiled(schema)
    except SchemaFault as fault:
        raise AnswerMismatchError(
            f"answer does not match schema: the schema cannot be processed, at {fault.pointer}"
        ) from fault
    kept, hidden = value, set[str]()
    if isinstance(value, dict):
        hidden = ready.rules.hidden(value)
        kept = ready.rules.settled(value, hidden)
    found = _faults(ready, kept, hidden)
    if unread:
        found |= {path: fault for path, fault in unread.items() if not path or path[0] not in hidden}
    if not found:
        return kept, {}
    return kept, {path: _told(path, fault, payload) for path, fault in in_order(schema, found).items()}


def _faults(ready: Compiled, kept: Any, hidden: set[str]) -> dict[Path, Fault]:
    nodes = _measure(kept, ready)
    if nodes is None:
        return {(): Fault(words.too_deep())}
    found: dict[Path, Fault] = {}
    if not ready.validator.is_valid(kept):
        if (nodes or _measure_nodes(kept)) * ready.visits > MAX_LOOKS:
            return {(): Fault(words.other())}
        found = faults(ready.validator.iter_errors(kept), kept) or {(): Fault(words.other())}
    if isinstance(kept, dict):
        for path, fault in ready.rules.faults(kept, hidden):
            found.setdefault(path, fault)
    return found


def _told(path: Path, fault: Fault, payload: dict[str, Any]) -> str:
    """The sender's word for a fault of one of the form's own fields, or ours."""
    wording = payload.get("wording")
    if wording is None or not path:
        return fault.sentence
    required = fault.kind == "required" and len(path) == 1
    own = word(wording, "form", "fields", str(path[0]), "required" if required else "invalid")
    if own is None and required and is_choice(payload["schema"], str(path[0])):
        own = word(wording, "answer_page", "form", "choose_one")
    if own is None and fault.kind == "unavailable":
        own = word(wording, "answer_page", "form", "date_unavailable")
    return own or fault.sentence


def is_choice(schema: dict[str, Any], name: str) -> bool:
    node = schema.get("properties", {}).get(name)
    return isinstance(node, dict) and "enum" in node


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
