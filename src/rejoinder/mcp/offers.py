"""Which questions an MCP client may be asked, and in which form.

The protocol knows flat forms of a few kinds of fields, and clients refuse a call whose form has anything else. For what
does not fit, what is sensitive (the protocol forbids asking for it so), what comes with media, what is an approval and
what an outside system answers, a client that opens pages sends its person to the question's page in the inbox. Where it
opens none, such a question stays in the inbox alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rejoinder.contract.elicitation import ELICITATION_KEY
from rejoinder.contract.identity import Identity
from rejoinder.contract.public import wrong_with
from rejoinder.contract.questions import Question
from rejoinder.contract.settings import Settings

ANSWER = "answer"
_COMMON = {"title", "description", "default"}
_KINDS: dict[str, set[str]] = {
    "boolean": set(),
    "integer": {"minimum", "maximum"},
    "number": {"minimum", "maximum"},
    "string": {"minLength", "maxLength", "format", "enum", "oneOf", "enumNames"},
    "array": {"items", "minItems", "maxItems", "uniqueItems"},
}
_FORMATS = {"email", "uri", "date", "date-time"}
_ROOT = {"type", "properties", "required", "title", "description", "additionalProperties", "$schema"}
_PAYLOAD = {"schema", "options", ELICITATION_KEY}


def site_of(settings: Settings) -> str | None:
    """Where our pages are for people elsewhere, without a slash at its end; None where no such address is known."""
    base = settings.interactions_public_base_url
    return None if base is None or wrong_with(base) is not None else base.rstrip("/")


@dataclass(frozen=True, slots=True)
class Shows:
    """What a client puts before its person: ``forms``, and pages, which are below ``site``; None where it opens none."""

    forms: bool = False
    site: str | None = None

    def __bool__(self) -> bool:
        return self.forms or self.site is not None


@dataclass(frozen=True, slots=True)
class Offer:
    """A question as the protocol asks it. ``schema`` is its form, and None where the person is sent to the page
    ``url``; ``whole``: the form's content is the answer, and not its one field; ``elicitation``: a tool's
    ``ctx.elicit`` asks, to which closing the form is an answer too."""

    question: Question
    schema: dict[str, Any] | None
    whole: bool
    elicitation: bool
    url: str | None = None

    def params(self, *, said: str | None = None) -> dict[str, Any]:
        """The parameters of ``elicitation/create``. ``said`` is why an answer before was not taken."""
        message = self.question.question if said is None else f"{said}\n\n{self.question.question}"
        if self.schema is None:
            return {"mode": "url", "message": message, "url": self.url}
        return {"mode": "form", "message": message, "requestedSchema": self.schema}

    def answer(self, content: Any) -> Any:
        """The answer to the question that the client's ``content`` is; what cannot be one fails the question's check."""
        if not isinstance(content, dict):
            return content
        if not self.whole or self.schema is None:
            return content.get(ANSWER)
        # A client may leave out what it did not ask its person for.
        fields = self.schema["properties"].items()
        return {**{name: about["default"] for name, about in fields if "default" in about}, **content}


def offer_of(question: Question, by: Identity, shows: Shows) -> Offer | None:
    """None where ``by``'s client may not be asked this question, or cannot show it."""
    if question.to_kind != "user" or not by.may_see(question.audience):
        return None
    # Addressed to somebody: the client's person is whoever sits there.
    if question.audience is not None and question.audience != by.name:
        return None
    elicitation = bool((question.format_payload or {}).get(ELICITATION_KEY))
    schema = _form_of(question) if shows.forms else None
    if schema is not None:
        return Offer(question, schema, question.answer_format == "form", elicitation)
    if shows.site is None:
        return None
    # Nobody answers by having this address: whoever opens the page signs in, and is looked at there.
    return Offer(question, None, False, elicitation, f"{shows.site}/inbox/{question.id}")


def _form_of(question: Question) -> dict[str, Any] | None:
    payload = question.format_payload or {}
    if question.sensitive or question.media is not None or not payload.keys() <= _PAYLOAD:
        return None
    return _schema_of(question.answer_format, payload)


def _schema_of(answer_format: str, payload: dict[str, Any]) -> dict[str, Any] | None:
    options = payload.get("options")
    match answer_format:
        case "text":
            field: dict[str, Any] = {"type": "string", "title": "Answer"}
            if options:
                field["description"] = f"For example: {', '.join(options)}"
        case "confirm":
            field = {"type": "boolean", "title": "Yes"}
        case "select":
            field = {"type": "string", "title": "Answer", "enum": options}
        case "form":
            schema = payload.get("schema")
            return schema if isinstance(schema, dict) and _is_plain(schema) else None
        case _:
            return None
    return {"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]}


def _is_plain(schema: dict[str, Any]) -> bool:
    properties = schema.get("properties")
    return (
        schema.keys() <= _ROOT
        and schema.get("type") == "object"
        and isinstance(properties, dict)
        and schema.get("additionalProperties", False) in (True, False)
        and all(_is_plain_field(one) for one in properties.values())
    )


def _is_plain_field(field: Any) -> bool:
    if not isinstance(field, dict):
        return False
    kind = field.get("type")
    if (
        not isinstance(kind, str)
        or kind not in _KINDS
        or not field.keys() <= _COMMON | {"type"} | _KINDS[kind]
    ):
        return False
    if "default" in field and not _is_of(kind, field["default"]):
        return False
    if kind == "string":
        if "format" in field and field["format"] not in _FORMATS:
            return False
        return _are_texts(field.get("enum")) and _are_choices(field.get("oneOf"))
    if kind == "array":
        items = field.get("items")
        if not isinstance(items, dict):
            return False
        if items.keys() == {"anyOf"}:
            return _are_choices(items["anyOf"])
        return items.get("type") == "string" and items.keys() <= {"type", "enum"} and "enum" in items
    return True


def _is_of(kind: str, value: Any) -> bool:
    match kind:
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "array":
            return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, str)


def _are_texts(values: Any) -> bool:
    return values is None or (isinstance(values, list) and all(isinstance(one, str) for one in values))


def _are_choices(values: Any) -> bool:
    return values is None or (
        isinstance(values, list)
        and all(
            isinstance(one, dict) and one.keys() == {"const", "title"} and isinstance(one["const"], str)
            for one in values
        )
    )
