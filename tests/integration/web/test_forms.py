"""Forms of every shape are drawn, filled in and read back without scripts."""

from __future__ import annotations

from typing import Any

from tests.integration.nodes import running
from tests.integration.web.asking import asked
from tests.integration.web.browser import signed_in

PERSON: dict[str, Any] = {
    "type": "object",
    "required": ["zeta", "mail", "pets"],
    "properties": {
        "zeta": {"type": "string", "title": "Zeta"},
        "mail": {"type": "string", "format": "email", "title": "Mail"},
        "age": {"type": "integer", "title": "Age", "minimum": 0},
        "grown": {"type": "boolean", "title": "Grown up"},
        "colour": {"enum": ["red", "green"], "title": "Colour"},
        "size": {"enum": ["xs", "s", "m", "l", "xl", "xxl"], "title": "Size"},
        "days": {"type": "array", "title": "Days", "items": {"enum": ["Mon", "Tue", "Wed"]}},
        "tags": {"type": "array", "title": "Tags", "items": {"type": "string"}},
        "when": {"type": "string", "format": "date-time", "title": "When"},
        "more": {"title": "Anything", "type": ["string", "object"]},
        "home": {
            "type": "object",
            "title": "Home",
            "required": ["city"],
            "properties": {
                "city": {"type": "string", "title": "City"},
                "flat": {"type": "string", "title": "Flat"},
            },
        },
        "pets": {
            "type": "array",
            "title": "Pets",
            "minItems": 2,
            "items": {
                "type": "object",
                "title": "Pet",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "title": "Name"},
                    "toys": {
                        "type": "array",
                        "title": "Toys",
                        "items": {
                            "type": "object",
                            "title": "Toy",
                            "properties": {"what": {"type": "string", "title": "What"}},
                        },
                    },
                },
            },
        },
    },
}


async def test_the_fields_stand_in_the_order_of_the_schema(database_url: str) -> None:
    async with (
        running(database_url) as node,
        signed_in(node) as browser,
        asked(node, answer_format="form", schema=PERSON) as one,
    ):
        page = await browser.get(one.path)
        titles = [str(inner["title"]) for inner in PERSON["properties"].values()]
        places = [page.answer_form.element.text.index(title) for title in titles]
        assert places == sorted(places)


async def test_a_nested_form_is_filled_in_row_by_row(database_url: str) -> None:
    async with (
        running(database_url) as node,
        signed_in(node) as browser,
        asked(node, answer_format="form", schema=PERSON) as one,
    ):
        form = (await browser.get(one.path)).answer_form
        form.fill(
            {
                form.label("Zeta"): "z <b>",
                form.label("Mail"): "a@example.com",
                form.label("Age"): "9007199254740993",
                form.legend("Grown up"): "false",
                form.legend("Colour"): '"green"',
                form.label("Size"): '"xl"',
                form.legend("Days"): ['"Mon"', '"Wed"'],
                form.label("Tags"): "one\ntwo words",
                form.label("When"): "2030-01-31T14:00",
                form.label("Anything"): '{"deep": [1]}',
                form.label("City"): "Bern",
                "f.pets.[0].name": "Rex",
                "f.pets.[1].name": "Tom",
            }
        )
        page = await form.press("Add another to Pets")
        assert page.status == 200
        form = page.answer_form.fill({"f.pets.[2].name": "Kit"})
        page = await form.press("Add one to Toys")
        form = page.answer_form.fill({"f.pets.[0].toys.[0].what": "ball"})
        page = await form.press("Remove Pet 2")
        assert not one.call.done()
        page = await page.answer_form.press("Send")
        assert page.status == 200, page.text
        assert await one.result() == {
            "zeta": "z <b>",
            "mail": "a@example.com",
            "age": 9007199254740993,
            "grown": False,
            "colour": "green",
            "size": "xl",
            "days": ["Mon", "Wed"],
            "tags": ["one", "two words"],
            "when": "2030-01-31T14:00:00Z",
            "more": {"deep": [1]},
            "home": {"city": "Bern"},
            "pets": [{"name": "Rex", "toys": [{"what": "ball"}]}, {"name": "Kit"}],
        }
        assert "Colour green" in " ".join(page.tree.one("dl", class_="answer").text.split()).replace(
            "Colour", "Colour "
        ).replace("  ", " ")


async def test_faults_are_told_at_the_field_and_what_was_typed_stays(database_url: str) -> None:
    async with (
        running(database_url) as node,
        signed_in(node) as browser,
        asked(node, answer_format="form", schema=PERSON) as one,
    ):
        form = (await browser.get(one.path)).answer_form
        form.fill({form.label("Mail"): "x", form.label("Age"): "many", form.label("Tags"): "kept"})
        page = await form.press()  # the Enter key sends: it takes no row away
        assert page.status == 422
        faults = page.tree.one("div", id="faults")
        assert "Mail: Enter a valid email address" in faults.text
        assert "Age: Enter a whole number" in faults.text
        assert "Zeta: " in faults.text
        for link in faults.all("a"):
            (target,) = page.tree.all(id=link.get("href")[1:])
            assert target.tag in ("input", "textarea", "select", "fieldset")
        mail = page.tree.one("input", name="f.mail")
        assert (mail.get("value"), mail.get("aria-invalid")) == ("x", "true")
        (told,) = page.tree.all(id=mail.get("aria-describedby").split()[-1])
        assert told.text == "Enter a valid email address"
        assert page.tree.one("textarea", name="f.tags").text == "kept"
        assert not one.call.done()


async def test_defaults_are_filled_in(database_url: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "title": "N", "default": 3},
            "on": {"type": "boolean", "default": True},
        },
    }
    async with (
        running(database_url) as node,
        signed_in(node) as browser,
        asked(node, answer_format="form", schema=schema) as one,
    ):
        await (await browser.get(one.path)).answer_form.press("Send")
        assert await one.result() == {"n": 3, "on": True}


async def test_a_form_of_any_object_is_asked_for_as_json(database_url: str) -> None:
    async with (
        running(database_url) as node,
        signed_in(node) as browser,
        asked(node, answer_format="form", schema={"type": "object"}) as one,
    ):
        page = await (await browser.get(one.path)).answer_form.fill({"f": "{nope"}).press("Send")
        assert page.status == 422
        await page.answer_form.fill({"f": '{"a": [true, null]}'}).press("Send")
        assert await one.result() == {"a": [True, None]}
