"""Which forms are sent to MCP clients: nothing that their own rules refuse."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import ElicitRequestFormParams
from mcp_types._v2025_11_25 import PrimitiveSchemaDefinition
from pydantic import TypeAdapter, ValidationError

from rejoinder.contract.identity import Identity
from rejoinder.contract.questions import Question
from rejoinder.mcp.offers import Shows, offer_of

ANN = Identity("ann", frozenset(("write",)))
FORMS = Shows(forms=True)
BOTH = Shows(forms=True, site="https://ask.example")
#: The protocol's own definition of a form's field.
FIELD: TypeAdapter[Any] = TypeAdapter(PrimitiveSchemaDefinition)


def question(answer_format: str, payload: dict[str, Any] | None, **more: Any) -> Question:
    now = datetime.now(UTC)
    values: dict[str, Any] = {
        "id": uuid4(), "run_id": uuid4(), "park_id": None, "group_id": "g", "mode": "sync",
        "answer_format": answer_format, "question": "?", "format_payload": payload, "media": None,
        "audience": None, "sensitive": False, "on_expiry": "kill", "tool": "t", "asked_by": "ann",
        "state": "pending", "created_at": now, "timeout_at": now, "answer": None, "closed_at": None,
        "closed_by": None, "closed_via": None, "reason": None,
    }  # fmt: skip
    return Question(**values | more)


def form(**properties: Any) -> dict[str, Any]:
    return {"schema": {"type": "object", "properties": properties}}


texts = st.text("ab", max_size=2)
choices = st.lists(st.fixed_dictionaries({"const": texts, "title": texts}), max_size=2)
keywords = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])},
    optional={
        "title": texts,
        "description": texts,
        "default": st.none() | st.booleans() | st.integers(0, 3) | texts | st.lists(texts, max_size=2),
        "minimum": st.integers(0, 3),
        "minLength": st.integers(0, 3),
        "format": st.sampled_from(["email", "uri", "date", "date-time", "uuid", "time"]),
        "pattern": texts,
        "enum": st.lists(texts | st.integers(0, 2), max_size=2),
        "oneOf": choices,
        "anyOf": choices,
        "items": st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["string", "integer"]),
                "enum": st.lists(texts),
                "anyOf": choices,
            },
        ),
        "minItems": st.integers(0, 2),
        "properties": st.just({}),
        "visibleWhen": st.just({}),
    },
)


@settings(max_examples=1_000)
@given(keywords)
def test_what_is_offered_is_a_field_by_the_protocol_s_own_definition(field: dict[str, Any]) -> None:
    offer = offer_of(question("form", form(a=field)), ANN, FORMS)
    if offer is not None:
        FIELD.validate_python(field)
        ElicitRequestFormParams.model_validate(offer.params())


OFFERED: list[tuple[str, dict[str, Any] | None]] = [
    ("text", None),
    ("text", {"options": ["a"]}),
    ("confirm", None),
    ("select", {"options": ["a", "b"]}),
    ("form", form()),
    ("form", form(a={"type": "string", "minLength": 1, "format": "email", "title": "Mail"})),
    ("form", form(a={"type": "string", "oneOf": [{"const": "x", "title": "X"}]}, b={"type": "boolean"})),
    ("form", form(a={"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}, "minItems": 1})),
    ("form", form(a={"type": "array", "items": {"type": "string", "enum": ["x"]}})),
    ("form", form(a={"type": "integer", "minimum": 0, "maximum": 9, "default": 3}) | {"elicitation": True}),
]
KEPT: list[tuple[str, dict[str, Any] | None]] = [
    ("free", None),
    ("external", {"link": ["", ""]}),
    ("approval", {"tool": "t"}),
    ("form", None),
    ("form", form(a={"type": "string"}) | {"data": {}}),
    ("form", form(a={"type": "string"}) | {"pages": []}),
    ("form", form(a={"$ref": "#/$defs/a"})),
    ("form", form(a={"anyOf": [{"type": "string"}, {"type": "null"}]})),
    ("form", form(a={"type": ["string", "null"]})),
    ("form", form(a={"type": "string", "enum": [1]})),
    ("form", form(a={"type": "array", "items": {"oneOf": [{"const": "x", "title": "X"}]}})),
    ("form", form(a=True)),
    ("form", {"schema": {"type": "object", "properties": {}, "allOf": []}}),
    ("form", {"schema": {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}}),
]


@pytest.mark.parametrize(("answer_format", "payload"), OFFERED)
def test_what_clients_can_show_is_offered(answer_format: str, payload: dict[str, Any] | None) -> None:
    offer = offer_of(question(answer_format, payload), ANN, FORMS)
    assert offer is not None
    assert offer.schema is not None
    for field in offer.schema["properties"].values():
        FIELD.validate_python(field)


@pytest.mark.parametrize(("answer_format", "payload"), KEPT)
def test_what_they_cannot_stays_here(answer_format: str, payload: dict[str, Any] | None) -> None:
    assert offer_of(question(answer_format, payload), ANN, FORMS) is None


@pytest.mark.parametrize(("answer_format", "payload"), KEPT)
def test_a_client_that_opens_pages_is_sent_to_the_page_of_what_it_cannot_show(
    answer_format: str, payload: dict[str, Any] | None
) -> None:
    asked = question(answer_format, payload)
    offer = offer_of(asked, ANN, BOTH)
    assert offer is not None
    assert offer.schema is None
    assert offer.url == f"https://ask.example/inbox/{asked.id}"


def test_whom_it_is_for_and_what_comes_with_it() -> None:
    bob = Identity("bob", frozenset(("write",)), restricted=True)
    assert offer_of(question("confirm", None, audience="ann"), ANN, FORMS) is not None
    marked: list[dict[str, Any]] = [
        {"audience": "bob"},
        {"sensitive": True},
        {"media": [{}]},
        {"to_kind": "caller"},
        {"to_kind": "run"},
    ]
    for about in marked:
        assert offer_of(question("confirm", None, **about), ANN, FORMS) is None, about
    assert offer_of(question("confirm", None), bob, FORMS) is None
    assert offer_of(question("confirm", None, audience="bob"), bob, FORMS) is not None


def test_the_definition_refuses_what_is_kept() -> None:
    """So that the test above could fail."""
    with pytest.raises(ValidationError):
        FIELD.validate_python({"type": "array", "items": {"type": "string"}})
