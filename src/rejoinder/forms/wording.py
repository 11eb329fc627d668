"""The sender's own words: which there are, and where each may be given.

A catalogue is a tree of texts. Everything in it is optional, nothing in it is blank, and a word that this question
could not show anywhere is refused rather than ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rejoinder.contract.errors import AskArgumentError
from rejoinder.contract.text import unstorable_text

#: Characters of one text.
MAX_TEXT = 2_000

_FIELD: dict[str, Any] = {
    "choice_label": (),
    "invalid": (),
    "required": (),
    "true_label": (),
    "false_label": (),
    "length_hint": ("max",),
    "add_item": (),
    "remove_item": (),
    "item_label": ("n",),
    "no_items": (),
}
_PAGE: dict[str, Any] = {"heading": (), "text": ()}
#: Every member, with the placeholders that its text may hold.
CATALOGUE: dict[str, Any] = {
    "form": {
        "title": (), "open": (), "cancel": (), "back": (), "submit": (), "review_empty": (), "error_line": (),
        "update_failed": ("reason",), "step_progress": ("step", "steps"), "fields": {},
    },
    "choice": {"label": (), "reply_hint": (), "group_label": ()},
    "answer": {
        "open": (), "confirm": (), "decline": (), "submit": (), "reply_hint": (), "rejected": ("reason",),
        "rejected_final": ("reason",),
    },
    "lines": {"answer_link": ("url",), "deadline": ("deadline",), "reply": (), "options": ("options",)},
    "answer_page": {
        "confirm": _PAGE, "done": _PAGE, "awaiting": _PAGE, "submitted": _PAGE,
        "form": {"failed": (), "network_error": (), "choose_one": (), "date_unavailable": ()},
    },
    "status": {
        "sending": (), "answered": (), "expired": (), "closed": (), "sent": (), "unavailable": (),
        "countdown": {
            "days_left": ("days",), "hours_left": ("hours",), "minutes_left": ("minutes",), "seconds_left": ("seconds",),
        },
    },
}  # fmt: skip
#: Texts that mean nothing without what they are about.
_NEEDED = {"lines.answer_link": "url", "lines.deadline": "deadline", "lines.options": "options"}

_EVERY = ("text", "confirm", "select", "form", "external")
#: The formats that can show a member; the longest beginning counts.
_SHOWN: dict[str, tuple[str, ...]] = {
    "form": ("form",),
    "choice.label": ("select",),
    "choice.reply_hint": ("text", "select"),
    "choice.group_label": ("select",),
    "answer.open": ("confirm", "external"),
    "answer.confirm": ("confirm", "external"),
    "answer.decline": ("confirm",),
    "answer.submit": ("text", "select"),
    "answer.reply_hint": ("text",),
    "answer.rejected": ("text", "confirm", "select", "form"),
    "answer.rejected_final": ("text", "confirm", "select", "form"),
    "lines.answer_link": ("confirm", "external"),
    "lines.deadline": _EVERY,
    "lines.reply": ("text", "select"),
    "lines.options": ("text", "select"),
    "answer_page.confirm": ("confirm", "external"),
    "answer_page.done": _EVERY,
    "answer_page.awaiting": ("text", "select"),
    "answer_page.submitted": ("form",),
    "answer_page.form": ("form",),
    "status.sending": _EVERY,
    "status.answered": _EVERY,
    "status.expired": _EVERY,
    "status.closed": _EVERY,
    "status.sent": ("text", "confirm", "select", "form"),
    "status.unavailable": ("form",),
    "status.countdown": _EVERY,
}
#: What makes a value one that can be of a broken shape.
_SHAPE = frozenset(
    ["format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
     "multipleOf", "minItems", "maxItems", "uniqueItems", "enum", "const", "minDate", "maxDate", "unavailableDates",
     "rangeStart", "timeOf", "$ref", "anyOf", "oneOf", "allOf", "items", "properties"]
)  # fmt: skip


def check_wording(
    wording: object, answer_format: str, schema: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    """The catalogue as a plain dict, or None where there is none. Takes a dict, or a model with ``model_dump``.

    Raises AskArgumentError whose ``field`` is the member, such as ``wording.form.fields.mail.invalid``.
    """
    if wording is None:
        return None
    dump = getattr(wording, "model_dump", None)
    plain = dump(exclude_none=True) if callable(dump) else wording
    checked: dict[str, Any] = _chapter(plain, CATALOGUE, "wording", schema or {})
    for member in _members(checked):
        formats = _shown_by(member)
        if answer_format not in formats:
            raise _refuse(f"wording.{member}", f"it is shown with {' and '.join(formats)} only")
    return checked


def word(wording: dict[str, Any] | None, *path: str) -> str | None:
    """The sender's text at this place of the catalogue, or None."""
    found: Any = wording
    for step in path:
        if not isinstance(found, dict):
            return None
        found = found.get(step)
    return found if isinstance(found, str) else None


def filled(text: str, **values: object) -> str:
    """The text with its placeholders replaced; any other braces stay as they are."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def _chapter(given: object, members: dict[str, Any], place: str, schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise _refuse(place, "it must be an object")
    if not given:
        raise _refuse(place, "it is empty; leave it out")
    out: dict[str, Any] = {}
    for name, inner in given.items():
        here = f"{place}.{name}"
        if name not in members:
            raise _refuse(here, "there is no such word")
        known = members[name]
        if place == "wording.form" and name == "fields":
            out[name] = _fields(inner, here, schema)
        elif isinstance(known, dict):
            out[name] = _chapter(inner, known, here, schema)
        else:
            out[name] = _text(inner, here, known)
    return out


def _fields(given: object, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(given, dict) or not given:
        raise _refuse(place, "it must be an object with one entry a field")
    properties = schema.get("properties", {})
    out: dict[str, Any] = {}
    for name, inner in given.items():
        here = f"{place}.{name}"
        node = properties.get(name)
        if not isinstance(node, dict):
            raise _refuse(here, "the form has no such field")
        out[name] = _chapter(inner, _FIELD, here, schema)
        for member in out[name]:
            reason = _unfit(member, node, name in schema.get("required", ()))
            if reason is not None:
                raise _refuse(f"{here}.{member}", reason)
    return out


def _unfit(member: str, node: dict[str, Any], required: bool) -> str | None:
    """Why a field's control would never show this word."""
    kinds = node.get("type")
    items = node.get("items") if isinstance(node.get("items"), dict) else {}
    match member:
        case "required":
            return None if required else "the field is not required"
        case "invalid":
            return None if kinds != "string" or _SHAPE & node.keys() else "any text is valid in this field"
        case "choice_label":
            return None if "enum" in node else "the field is not a choice"
        case "true_label" | "false_label":
            return None if kinds == "boolean" else "the field is not a boolean"
        case "length_hint":
            return None if "maxLength" in node else "the field has no maxLength"
        case _:
            fits = kinds == "array" and isinstance(items, dict) and "enum" not in items
            return None if fits else "the field is not a list of texts"


def _text(given: object, place: str, placeholders: tuple[str, ...]) -> str:
    if not isinstance(given, str):
        raise _refuse(place, "it must be text")
    if not given.strip():
        raise _refuse(place, "it must not be blank")
    if len(given) > MAX_TEXT:
        raise _refuse(place, f"it is longer than {MAX_TEXT:,} characters")
    if (reason := unstorable_text(given)) is not None:
        raise _refuse(place, reason)
    needed = _NEEDED.get(place.removeprefix("wording."))
    if needed is not None and "{" + needed + "}" not in given:
        raise _refuse(place, "it must hold {" + needed + "}")
    return given


def _members(tree: dict[str, Any], above: str = "") -> Iterator[str]:
    for name, inner in tree.items():
        if isinstance(inner, dict):
            yield from _members(inner, f"{above}{name}.")
        else:
            yield above + name


def _shown_by(member: str) -> tuple[str, ...]:
    steps = member.split(".")
    for count in range(len(steps), 0, -1):
        formats = _SHOWN.get(".".join(steps[:count]))
        if formats is not None:
            return formats
    return ()


def _refuse(place: str, reason: str) -> AskArgumentError:
    return AskArgumentError(f"{place}: {reason}.", field=place)
