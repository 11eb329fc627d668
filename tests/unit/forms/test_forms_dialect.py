"""What is refused before anything is stored: keywords, the part that channels show, data, pages and words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from rejoinder.contract.errors import AskArgumentError
from rejoinder.forms.asked import form_payload
from rejoinder.forms.schema import check_schema
from rejoinder.forms.subset import check_channel_subset
from rejoinder.forms.wording import CATALOGUE, check_wording, filled, word

DATE = {"type": "string", "format": "date"}
TIME = {"type": "string", "format": "time"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


#: Fields, and the place and the reason of the refusal.
KEYWORDS: list[tuple[dict[str, Any], str]] = [
    ({"a": {"type": "string", "minDate": "2030-01-01"}}, '#/properties/a/minDate: minDate goes with "format": "date"'),
    ({"a": DATE | {"minDate": "1.1.2030"}}, "#/properties/a/minDate: it must be a date"),
    ({"a": DATE | {"maxDate": "2030-02-30"}}, "#/properties/a/maxDate: it must be a date"),
    ({"a": DATE | {"minDate": "2030-02-02", "maxDate": "2030-02-01"}}, "#/properties/a/maxDate: it lies before"),
    ({"a": DATE | {"unavailableDates": "sunday"}}, "#/properties/a/unavailableDates: it must be a list"),
    ({"a": DATE | {"unavailableDates": ["2030-01-01", "soon"]}}, "#/properties/a/unavailableDates/1: it must be"),
    (
        {"a": DATE | {"unavailableDates": ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "SUNDAY"]}},
        "#/properties/a/unavailableDates: it names every weekday",
    ),
    ({"a": DATE | {"rangeStart": "b"}}, "#/properties/a/rangeStart: it must name another field"),
    ({"a": DATE | {"rangeStart": "a"}}, "#/properties/a/rangeStart: it must name another field than its own"),
    ({"a": DATE | {"rangeStart": "b"}, "b": {"type": "string"}}, '#/properties/a/rangeStart: b must be "format": "date"'),
    ({"a": {"type": "string", "rangeStart": "b"}, "b": DATE}, '#/properties/a/rangeStart: rangeStart goes with'),
    ({"a": DATE | {"minDays": 2}}, "#/properties/a/minDays: it goes with rangeStart"),
    ({"a": DATE | {"rangeStart": "b", "minDays": 0}, "b": DATE}, "#/properties/a/minDays: it must be a number of days"),
    ({"a": DATE | {"rangeStart": "b", "maxDays": True}, "b": DATE}, "#/properties/a/maxDays: it must be a number of days"),
    ({"a": DATE | {"rangeStart": "b", "minDays": 3, "maxDays": 2}, "b": DATE}, "#/properties/a/maxDays: it is less"),
    ({"t": {"type": "string", "timeOf": "a"}, "a": DATE}, '#/properties/t/timeOf: timeOf goes with "format": "time"'),
    ({"t": TIME | {"timeOf": "a"}, "a": DATE}, "#/properties/t/timeOf: it must name a date field at the beginning"),
    (
        {"a": DATE, "b": DATE | {"rangeStart": "a"}, "t": TIME | {"timeOf": "a"}, "u": TIME | {"timeOf": "a"}},
        "#/properties/u/timeOf: a has a time already: t",
    ),
    (
        {
            "k": {"type": "boolean"}, "a": DATE, "b": DATE | {"rangeStart": "a"},
            "t": TIME | {"timeOf": "a", "visibleWhen": {"field": "k", "equals": True}},
        },
        "#/properties/t/timeOf: it must have the same visibleWhen as a",
    ),
    ({"a": {"visibleWhen": "b"}, "b": {}}, "#/properties/a/visibleWhen: it must be an object"),
    ({"a": {"visibleWhen": {"field": "b"}}, "b": {}}, "#/properties/a/visibleWhen: it must hold field and exactly one"),
    (
        {"a": {"visibleWhen": {"field": "b", "equals": 1, "notEmpty": True}}, "b": {}},
        "#/properties/a/visibleWhen: it must hold field and exactly one",
    ),
    ({"a": {"visibleWhen": {"field": "b", "matches": 1}}, "b": {}}, "#/properties/a/visibleWhen: it must hold field"),
    ({"a": {"visibleWhen": {"field": "c", "equals": 1}}, "b": {}}, "#/properties/a/visibleWhen/field: it must name"),
    ({"a": {"visibleWhen": {"field": "a", "equals": 1}}}, "#/properties/a/visibleWhen/field: it must name another"),
    ({"a": {"visibleWhen": {"field": "b", "notEmpty": False}}, "b": {}}, "#/properties/a/visibleWhen/notEmpty: notEmpty"),
    ({"a": {"visibleWhen": {"field": "b", "in": []}}, "b": {}}, "#/properties/a/visibleWhen/in: it must be a list"),
    (
        {"a": {"visibleWhen": {"field": "b", "equals": "z"}}, "b": {"type": "string", "enum": ["x", "y"]}},
        "#/properties/a/visibleWhen/equals: b never holds this value",
    ),
    (
        {"a": {"visibleWhen": {"field": "b", "equals": "true"}}, "b": {"type": "boolean"}},
        "#/properties/a/visibleWhen/equals: b never holds this value",
    ),
    (
        {"a": {"visibleWhen": {"field": "b", "equals": "x"}}, "b": {"type": "array", "items": {"type": "string"}}},
        "#/properties/a/visibleWhen/equals: b holds no single value",
    ),
    (
        {"a": {"visibleWhen": {"field": "b", "notEmpty": True}}, "b": {"visibleWhen": {"field": "a", "notEmpty": True}}},
        "#/properties/a/visibleWhen: the conditions of these fields go round in a circle",
    ),
    (
        {"g": {"type": "object", "properties": {"a": {"visibleWhen": {"field": "g", "notEmpty": True}}}}},
        "#/properties/g/properties/a/visibleWhen: visibleWhen works on the form's own fields only",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("properties", "said"), KEYWORDS)
def test_a_keyword_without_effect_is_refused(properties: dict[str, Any], said: str) -> None:
    with pytest.raises(AskArgumentError) as caught:
        check_schema(of(**properties))
    assert said in caught.value.message
    assert caught.value.field == "schema"


def test_property_names_and_data_are_no_keywords() -> None:
    check_schema(
        of(
            visibleWhen={"type": "string"},
            minDate={"type": "string", "default": {"rangeStart": 1}, "examples": [{"timeOf": 2}]},
        )
    )


#: What a channel cannot show, and the property that is named.
BEYOND: list[tuple[dict[str, Any], str]] = [
    ({"type": "object"}, "#/properties"),
    ({"type": "object", "properties": {}}, "#/properties"),
    (of(a={}), "#/properties/a"),
    (of(a=True), "#/properties/a"),
    (of(a={"type": ["string", "null"]}), "#/properties/a/type"),
    (of(a={"type": "null"}), "#/properties/a/type"),
    (of(a={"type": "object", "properties": {"b": {"type": "string"}}}), "#/properties/a/type"),
    (of(a={"$ref": "#/$defs/x"}) | {"$defs": {"x": {"type": "string"}}}, "#/properties/a"),
    (
        of(a={"type": "string", "$ref": "#/$defs/x"}) | {"$defs": {"x": {"type": "string"}}},
        "#/properties/a/$ref",
    ),
    (of(a={"anyOf": [{"type": "string"}, {"type": "null"}]}), "#/properties/a"),
    (of(a={"type": "string", "oneOf": [{"const": "x"}]}), "#/properties/a/oneOf"),
    (of(a={"type": "string", "const": "x"}), "#/properties/a/const"),
    (of(a={"type": "array"}), "#/properties/a/items"),
    (of(a={"type": "array", "items": {"type": "integer"}}), "#/properties/a/items"),
    (of(a={"type": "array", "items": {"type": "string", "format": "email"}}), "#/properties/a/items/format"),
    (
        of(a={"type": "array", "items": {"type": "string"}, "contains": {"const": "x"}}),
        "#/properties/a/contains",
    ),
    (
        of(a={"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 2}),
        "#/properties/a/maxItems",
    ),
    (
        of(
            a={
                "type": "array",
                "items": {"type": "string", "enum": ["x"]},
                "uniqueItems": True,
                "minItems": 2,
            }
        ),
        "#/properties/a/minItems",
    ),
    (of(a={"type": "integer", "enum": [1, 2]}), "#/properties/a/enum"),
    (of(a={"type": "string", "enum": ["x", 1]}), "#/properties/a/enum"),
    (of(a={"type": "string", "format": "uri"}), "#/properties/a/format"),
    (of(a={"type": "integer", "format": "date"}), "#/properties/a/format"),
    (of(a={"type": "string", "enum": ["x"], "format": "date"}), "#/properties/a/format"),
    (of(a={"type": "string", "minLength": 3, "maxLength": 2}), "#/properties/a/maxLength"),
    (of(a={"type": "number", "minimum": 3, "maximum": 2}), "#/properties/a/maximum"),
    (of(a={"type": "number", "exclusiveMinimum": 3, "maximum": 3}), "#/properties/a"),
    (of(a={"type": "string", "minimum": 3}), "#/properties/a/minimum"),
    (of(a={"type": "string", "inputMode": "loud"}), "#/properties/a/inputMode"),
    (of(a={"type": "string", "inputMode": "tel", "format": "email"}), "#/properties/a/inputMode"),
    (of(a={"type": "string", "inputMode": "tel", "enum": ["x"]}), "#/properties/a/inputMode"),
    (of(a={"type": "string", "control": "slider"}), "#/properties/a/control"),
    (of(a={"type": "string", "control": "chips"}), "#/properties/a/control"),
    (of(a={"type": "string", "control": "textarea", "format": "email"}), "#/properties/a/control"),
    (of(a={"type": "string", "control": "textarea", "inputMode": "tel"}), "#/properties/a/control"),
    (of(a={"type": "boolean", "control": "chips"}), "#/properties/a/control"),
    (of(a={"type": "string"}) | {"required": ["b"]}, "#/required/0"),
    (of(a={"type": "string"}) | {"additionalProperties": {"type": "string"}}, "#/additionalProperties"),
    (of(a={"type": "string"}) | {"if": {"required": ["a"]}}, "#/if"),
    (of(a={"type": "string"}) | {"minProperties": 1}, "#/minProperties"),
]


@pytest.mark.parametrize(("schema", "place"), BEYOND)
def test_what_channels_cannot_show_is_refused_by_name(schema: dict[str, Any], place: str) -> None:
    taken = check_schema(schema)  # the inbox takes it
    with pytest.raises(ValueError, match="cannot be sent over a channel") as caught:
        check_channel_subset(taken)
    assert f"at {place}: " in str(caught.value)
    assert isinstance(caught.value, AskArgumentError)
    assert caught.value.field == "schema"


def test_a_field_cannot_be_called_proto() -> None:
    schema = json.loads('{"type": "object", "properties": {"__proto__": {"type": "string"}}}')
    for check in (check_schema, check_channel_subset):
        with pytest.raises(AskArgumentError, match="__proto__"):
            check(schema)


FORM = of(
    name={"type": "string"},
    mail={"type": "string", "format": "email"},
    size={"type": "string", "enum": ["S", "M"], "default": "S"},
    on={"type": "boolean"},
    tags={"type": "array", "items": {"type": "string"}},
    note={"type": "string", "maxLength": 10},
) | {"required": ["mail"]}


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({}, "data"), ([], "data"), ({"value": {}}, "data.value"), ({"values": {}}, "data.values"),
        ({"values": {"other": 1}}, "data.values.other"), ({"values": {"mail": "x"}}, "data.values.mail"),
        ({"values": {"on": "yes"}}, "data.values.on"), ({"values": {"tags": ["a", 1]}}, "data.values.tags.1"),
        ({"values": {"name": "a\x00"}}, "data"),
        ({"options": {"other": [{"value": "x"}]}}, "data.options.other"),
        ({"options": {"on": [{"value": "x"}]}}, "data.options.on"), ({"options": {"size": []}}, "data.options.size"),
        ({"options": {"size": ["x"]}}, "data.options.size[0]"),
        ({"options": {"size": [{"value": 1}]}}, "data.options.size[0].value"),
        ({"options": {"size": [{"value": "x", "colour": "red"}]}}, "data.options.size[0].colour"),
        ({"options": {"size": [{"value": "x", "label": " "}]}}, "data.options.size[0].label"),
        ({"options": {"size": [{"value": "x"}, {"value": "x"}]}}, "data.options.size[1].value"),
        ({"options": {"size": [{"value": "L"}]}, "values": {"size": "S"}}, "data.values.size"),
    ],
)  # fmt: skip
def test_data_is_checked_whole(data: Any, place: str) -> None:
    with pytest.raises(AskArgumentError) as caught:
        form_payload(FORM, data=data)
    assert caught.value.field == place


def test_options_stand_in_the_schema_that_is_kept() -> None:
    options = {"size": [{"value": "L", "label": "Large"}], "tags": [{"value": "a"}, {"value": "b"}]}
    payload = form_payload(FORM, data={"options": options, "values": {"size": "L", "tags": ["a"]}})
    properties = payload["schema"]["properties"]
    assert properties["size"] == {"type": "string", "enum": ["L"]}
    assert properties["tags"]["items"] == {"type": "string", "enum": ["a", "b"]}
    assert payload["data"]["options"] == options
    assert FORM["properties"]["size"]["enum"] == ["S", "M"]


def test_what_is_prefilled_need_not_be_complete() -> None:
    assert form_payload(FORM, data={"values": {"name": "Ada"}})["data"] == {"values": {"name": "Ada"}}


ALL = ["name", "mail", "size", "on", "tags", "note"]


@pytest.mark.parametrize(
    ("pages", "place"),
    [
        ([], "pages"), ("x", "pages"), ([{"fields": ALL[1:]}], "pages"), (["x"], "pages[0]"),
        ([{"fields": ALL}, {"fields": ["name"]}], "pages[1].fields"),
        ([{"fields": [*ALL, "other"]}], "pages[0].fields"), ([{"fields": "name"}], "pages[0].fields"),
        ([{"fields": ALL, "colour": "red"}], "pages[0].colour"), ([{"fields": ALL, "title": " "}], "pages[0].title"),
        ([{"fields": ALL, "kind": "maybe"}], "pages[0].kind"), ([{"kind": "review"}, {"fields": ALL}], "pages[0].kind"),
        ([{"fields": ALL}, {"kind": "review", "fields": ["name"]}], "pages[1].fields"),
        ([{"fields": ALL}, {}], "pages[1]"), ([{"fields": ALL, "display": [{"kind": "image", "text": "x"}]}], "pages[0].display[0].kind"),
        ([{"fields": ALL, "display": [{"kind": "text"}]}], "pages[0].display[0]"),
        ([{"fields": ALL, "display": [{"kind": "text", "text": ""}]}], "pages[0].display[0].text"),
    ],
)  # fmt: skip
def test_pages_hold_every_field_once(pages: Any, place: str) -> None:
    with pytest.raises(AskArgumentError) as caught:
        form_payload(FORM, pages=pages)
    assert caught.value.field == place


def test_a_time_stands_on_the_page_of_its_date() -> None:
    schema = of(a=DATE, b=DATE | {"rangeStart": "a"}, t=TIME | {"timeOf": "a"})
    form_payload(schema, pages=[{"fields": ["a", "t"]}, {"fields": ["b"]}])
    with pytest.raises(AskArgumentError, match="must be on the page of its date a") as caught:
        form_payload(schema, pages=[{"fields": ["a"]}, {"fields": ["b", "t"]}])
    assert caught.value.field == "pages[1].fields"


@pytest.mark.parametrize(
    ("answer_format", "wording", "place"),
    [
        ("form", {}, "wording"), ("form", "x", "wording"), ("form", {"fom": {}}, "wording.fom"),
        ("form", {"form": {}}, "wording.form"), ("form", {"form": {"submt": "x"}}, "wording.form.submt"),
        ("form", {"form": {"submit": " "}}, "wording.form.submit"), ("form", {"form": {"submit": 1}}, "wording.form.submit"),
        ("form", {"form": {"submit": "x" * 2001}}, "wording.form.submit"),
        ("form", {"form": {"submit": "a\x00"}}, "wording.form.submit"),
        ("form", {"form": {"fields": {}}}, "wording.form.fields"),
        ("form", {"form": {"fields": {"other": {"invalid": "x"}}}}, "wording.form.fields.other"),
        ("form", {"form": {"fields": {"mail": {}}}}, "wording.form.fields.mail"),
        ("form", {"form": {"fields": {"name": {"required": "x"}}}}, "wording.form.fields.name.required"),
        ("form", {"form": {"fields": {"name": {"invalid": "x"}}}}, "wording.form.fields.name.invalid"),
        ("form", {"form": {"fields": {"mail": {"choice_label": "x"}}}}, "wording.form.fields.mail.choice_label"),
        ("form", {"form": {"fields": {"mail": {"true_label": "x"}}}}, "wording.form.fields.mail.true_label"),
        ("form", {"form": {"fields": {"mail": {"length_hint": "x"}}}}, "wording.form.fields.mail.length_hint"),
        ("form", {"form": {"fields": {"mail": {"add_item": "x"}}}}, "wording.form.fields.mail.add_item"),
        ("text", {"form": {"submit": "x"}}, "wording.form.submit"),
        ("confirm", {"answer": {"submit": "x"}}, "wording.answer.submit"),
        ("text", {"answer": {"decline": "x"}}, "wording.answer.decline"),
        ("text", {"choice": {"label": "x"}}, "wording.choice.label"),
        ("select", {"lines": {"answer_link": "x {url}"}}, "wording.lines.answer_link"),
        ("confirm", {"lines": {"answer_link": "here"}}, "wording.lines.answer_link"),
        ("text", {"lines": {"deadline": "soon"}}, "wording.lines.deadline"),
        ("text", {"answer_page": {"submitted": {"heading": "x"}}}, "wording.answer_page.submitted.heading"),
        ("external", {"answer": {"rejected": "x"}}, "wording.answer.rejected"),
        ("text", {"status": {"countdown": {"weeks_left": "x"}}}, "wording.status.countdown.weeks_left"),
    ],
)  # fmt: skip
def test_a_word_that_nobody_would_see_is_refused(answer_format: str, wording: Any, place: str) -> None:
    with pytest.raises(AskArgumentError) as caught:
        check_wording(wording, answer_format, FORM if answer_format == "form" else None)
    assert caught.value.field == place


def members(tree: dict[str, Any], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, inner in tree.items():
        here = (*above, name)
        found += members(inner, here) if isinstance(inner, dict) else [here]
    return found


@pytest.mark.parametrize("member", members(CATALOGUE), ids=".".join)
def test_every_word_has_a_format_that_takes_it(member: tuple[str, ...]) -> None:
    text = "x {url}{deadline}{options}"
    tree: Any = text
    for step in reversed(member):
        tree = {step: tree}
    found = [
        taken(tree, answer_format) for answer_format in ("text", "confirm", "select", "form", "external")
    ]
    assert any(found)
    assert all(word(one, *member) == text for one in found if one is not None)


def taken(tree: dict[str, Any], answer_format: str) -> dict[str, Any] | None:
    """The catalogue, or None where this format does not show it."""
    try:
        return check_wording(tree, answer_format, FORM)
    except AskArgumentError as refused:
        if "it is shown with" in refused.message:
            return None
        raise


def test_every_word_is_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/forms.md").read_text("utf-8")
    for member in members(CATALOGUE):
        assert f"`{member[-1]}`" in page or f".{member[-1]}`" in page, member


def test_a_catalogue_may_be_a_model() -> None:
    class Words(BaseModel):
        form: dict[str, str]
        lines: dict[str, str] | None = None

    assert check_wording(Words(form={"submit": "Go"}), "form", FORM) == {"form": {"submit": "Go"}}


@given(text=st.text(), value=st.text())
def test_only_named_placeholders_are_replaced(text: str, value: str) -> None:
    assert filled(text.replace("{", ""), reason=value) == text.replace("{", "")
    assert filled("{" + "x} {reason} {0}", reason=value) == "{x} " + value + " {0}"
