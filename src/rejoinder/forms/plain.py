"""Answers typed on a command line, without JSON where none is needed."""

from __future__ import annotations

from typing import Any

from rejoinder.contract.errors import AnswerMismatchError
from rejoinder.forms import paths, words
from rejoinder.forms.coerce import read_places
from rejoinder.forms.field import Field
from rejoinder.forms.fields import root_field
from rejoinder.forms.paths import dotted
from rejoinder.forms.scalars import NotThis, read_json

YES = frozenset(["y", "yes", "true", "1", "on"])
NO = frozenset(["n", "no", "false", "0", "off"])


def parse_plain(answer_format: str, payload: dict[str, Any] | None, text: str) -> Any:
    """The answer that a typed text means.

    text: the text as it is. confirm: ``y``, ``yes``, ``true``, ``n``, ``no``, ``false`` and the like. select: an
    option's text, or its number counted from 1 where no option is itself a number (``#2`` is always the number).
    form: a JSON object, or lines of ``key=value`` where a key is a field's dotted path and lists repeat it.

    Raises AnswerMismatchError. The answer is not validated: ``check_answer`` does that.
    """
    match answer_format:
        case "text":
            return text
        case "confirm":
            return _confirm(text)
        case "select":
            return _select((payload or {}).get("options") or [], text)
        case "approval":
            from rejoinder.forms.approvals import plain_approval

            return plain_approval(payload or {}, text)
        case "form":
            return _form((payload or {}).get("schema") or {}, text)
        case _:
            raise AnswerMismatchError("questions of this kind are not answered here")


def _confirm(text: str) -> bool:
    word = text.strip().casefold()
    if word in YES:
        return True
    if word in NO:
        return False
    raise AnswerMismatchError("answer must be a boolean: type yes or no")


def _select(options: list[str], text: str) -> str:
    if text in options:
        return text
    typed = text.strip()
    alike = _alike(options, typed)
    if len(alike) == 1:
        return options[alike[0]]
    if not alike and (position := _position(options, typed)) is not None:
        return options[position]
    raise AnswerMismatchError(f"answer must be one of {words.listed(options)}")


def _alike(options: list[str], typed: str) -> list[int]:
    """The options with this text: exactly, else without regard to case and blanks around."""
    exact = [index for index, option in enumerate(options) if option == typed]
    return exact or [
        index for index, option in enumerate(options) if option.strip().casefold() == typed.casefold()
    ]


def _position(options: list[str], typed: str) -> int | None:
    marked = typed.startswith("#")
    if not marked and any(option.strip().isdecimal() for option in options):
        return None
    digits = typed[1:] if marked else typed
    if not digits.isdecimal() or len(digits) > 6:
        return None
    position = int(digits) - 1
    return position if 0 <= position < len(options) else None


def _form(schema: dict[str, Any], text: str) -> Any:
    if text.lstrip().startswith(("{", "[")):
        try:
            return read_json(text, takes_text=False)
        except NotThis as fault:
            raise AnswerMismatchError(f"answer must be an object: {fault}") from fault
    pairs: list[tuple[str, str]] = []
    lists: dict[str, list[str]] = {}
    root = root_field(schema)
    for line in text.splitlines():
        if not line.strip():
            continue
        key, mark, typed = line.partition("=")
        if not mark:
            raise AnswerMismatchError("answer must be an object: type JSON, or lines of key=value")
        field = _find(root, _steps(key.strip()))
        if field is None:
            raise AnswerMismatchError(
                f"answer does not match schema at {key.strip()}: {words.unknown()}", field=key.strip()
            )
        if field.control == "lines":
            lists.setdefault(field.name, []).append(typed)
        elif field.control == "checkboxes":
            pairs += [(field.name, _option(field, one)) for one in _several(field, typed)]
        else:
            pairs.append((field.name, _option(field, typed)))
    pairs += [(name, "\n".join(lines)) for name, lines in lists.items()]
    value, faults, _ = read_places(schema, pairs)
    if faults:
        errors = {dotted(path): sentence for path, sentence in faults.items()}
        first = next(iter(errors))
        raise AnswerMismatchError(
            f"answer does not match schema at {first}: {errors[first]}", field=first, errors=errors
        )
    return value


def _several(field: Field, typed: str) -> list[str]:
    """One option, or several with commas between them."""
    if _alike([option.label for option in field.options], typed.strip()):
        return [typed]
    return [one for one in typed.split(",") if one.strip()]


def _option(field: Field, typed: str) -> str:
    """What the page would send for this text."""
    if field.control == "boolean" or field.control == "checkbox":
        word = typed.strip().casefold()
        return "true" if word in YES else "false" if word in NO else typed
    if field.control not in ("radios", "select", "checkboxes"):
        return typed
    shown = _alike([option.label for option in field.options], typed.strip())
    return field.options[shown[0]].value if len(shown) == 1 else typed.strip()


def _steps(key: str) -> list[str]:
    """A dotted path taken apart; ``\\.`` is a dot inside a name."""
    steps = [""]
    escaped = False
    for char in key:
        if escaped or char not in "\\.":
            steps[-1] += char
            escaped = False
        elif char == "\\":
            escaped = True
        else:
            steps.append("")
    return steps


def _find(field: Field, steps: list[str]) -> Field | None:
    for step in steps:
        if field.control == "rows":
            if not step.isdecimal() or len(step) > 4:
                return None
            field = field.row(int(step))
            continue
        below = next((child for child in field.children if not child.extra and child.path[-1] == step), None)
        if below is None:
            return None
        field = below
    return None if field.control == "group" or field.name == paths.ROOT else field
