"""The shared cases of forms in a real browser, with the page's script and without any."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, Request, expect

from rejoinder.forms.shape import same
from tests.cases.forms import TYPED
from tests.live.conftest import Visit
from tests.live.demo import Live
from tests.live.filling import field_of, fill, is_last, press


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scripts", [True, False], ids=["with-scripts", "without"])
async def test_the_shared_cases(live: Live, visit: Visit, scripts: bool) -> None:
    ann = await visit(scripts=scripts)
    posts: list[Request] = []
    ann.page.on("request", lambda request: posts.append(request) if request.method == "POST" else None)
    wrong: list[str] = []
    for case in TYPED:
        asked = await live.ask(case["name"], answer_format="form", **case["ask"])
        page = await ann.open(f"/inbox/{asked.id}")
        posts.clear()
        await fill(page, case["typed"])
        if "errors" not in case:
            while not await is_last(page):
                await press(page)
        posts.clear()
        await press(page)
        told = await outcome(live, page, case)
        if told is not None:
            wrong.append(f"{case['name']}: {told}")
        kept_here = scripts and "errors" in case and not case.get("left_to_server")
        if kept_here and posts:
            wrong.append(f"{case['name']}: it was sent although the script should have told the fault")
    assert wrong == []


async def outcome(live: Live, page: Page, case: dict[str, Any]) -> str | None:
    """What is not as the case says, or None."""
    if "answer" in case:
        if await page.locator(".outcome").count() == 0:
            return f"not answered: {await page.locator('#faults').all_inner_texts()}"
        answer = await live.result()
        return None if same(answer, case["answer"]) else f"answered {answer}"
    properties = case["ask"]["schema"]["properties"]
    expected = [
        f"{properties[name].get('title', name)}: {sentence}" for name, sentence in case["errors"].items()
    ]
    told = await page.locator("#faults li").all_inner_texts()
    if told != expected:
        return f"told {told}"
    beside = await page.locator(".step:not([hidden]) .fault").all_inner_texts()
    if beside != list(case["errors"].values()):
        return f"told beside the fields {beside}"
    return None


async def test_what_is_hidden_is_not_sent(live: Live, visit: Visit) -> None:
    schema = {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["card", "cash"]},
            "card": {"type": "string", "visibleWhen": {"field": "kind", "equals": "card"}},
            "code": {"type": "string", "visibleWhen": {"field": "card", "notEmpty": True}},
        },
    }
    asked = await live.ask("How?", answer_format="form", schema=schema)
    page = await (await visit()).open(f"/inbox/{asked.id}")
    await expect(field_of(page, "card")).to_be_hidden()
    await fill(page, [["kind", "card"], ["card", "4242"], ["code", "007"]])
    await expect(field_of(page, "code")).to_be_visible()
    await fill(page, [["kind", "cash"]])
    await expect(field_of(page, "code")).to_be_hidden()
    async with page.expect_request(lambda request: request.method == "POST") as sent:
        await press(page)
    body = (await sent.value).post_data or ""
    assert "f.kind" in body
    assert "4242" not in body
    assert "007" not in body
    assert await live.result() == {"kind": "cash"}


async def test_a_mended_field_is_no_longer_marked(live: Live, visit: Visit) -> None:
    schema = {
        "type": "object",
        "required": ["mail"],
        "properties": {"mail": {"type": "string", "format": "email"}},
    }
    asked = await live.ask("Where to?", answer_format="form", schema=schema)
    page = await (await visit()).open(f"/inbox/{asked.id}")
    await press(page)
    await expect(page.locator("#faults")).to_be_focused()
    await page.locator("#faults").get_by_role("link", name="mail: This field is required").click()
    mail = page.get_by_label("mail")
    await expect(mail).to_be_focused()
    await expect(mail).to_have_accessible_description("This field is required")
    await page.keyboard.type("a@example.com")
    await expect(page.locator(".fault")).to_have_count(0)
    await expect(mail).not_to_have_attribute("aria-invalid", "true")


async def test_a_draft_of_every_page_is_kept(live: Live, visit: Visit) -> None:
    schema = {
        "type": "object",
        "required": ["b"],
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    }
    pages = [{"title": "One", "fields": ["a"]}, {"title": "Two", "fields": ["b"]}]
    asked = await live.ask("Fill in", answer_format="form", schema=schema, pages=pages)
    page = await (await visit()).open(f"/inbox/{asked.id}")
    await fill(page, [["a", "first"]])
    await press(page)
    await expect(page.get_by_role("heading", name="Two")).to_be_focused()
    await fill(page, [["b", "second"]])
    await page.goto(f"{live.url}/inbox/{asked.id}")
    await expect(field_of(page, "a").locator("input")).to_have_value("first")
    await press(page)
    await expect(field_of(page, "b").locator("input")).to_have_value("second")
    await page.get_by_role("button", name="Back").click()
    await expect(field_of(page, "a").locator("input")).to_have_value("first")
    await press(page)
    await press(page)
    assert await live.result() == {"a": "first", "b": "second"}
