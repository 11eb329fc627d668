"""The shared cases of forms in a real browser, with the page's script and without any."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, Request, expect

from rejoinder.contract.identity import Identity
from rejoinder.forms.shape import same
from tests.cases.forms import TYPED
from tests.live.conftest import Visit
from tests.live.demo import Live, picture
from tests.live.filling import field_of, fill, is_last, press
from tests.live.test_looks import small_targets, violations

BOB = Identity(name="bob", grants=frozenset(("read", "write")))
PICTURE = picture()


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


#: What an agent may put into every text that a person is shown.
MARKUP = [
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "</textarea></option></select><svg onload=document.title='owned'>",
    "\"><input autofocus onfocus=document.title='owned'>",
    "' onmouseover='document.title=1' style='position:fixed;inset:0'",
    "<style>*{display:none}</style><link rel=stylesheet href=https://evil.example/x.css>",
    "<iframe srcdoc='<script>parent.document.title=1</script>'></iframe><base href=https://evil.example/>",
    "javascript:document.title='owned'",
    "{{ 7*7 }}{% raw %}${7*7}",
    "pay\u202e 0001\u202c \u2066me\u2069 \u200bnow\u00ad\u061c",
    "bell\x07 esc\x1b[31m back\x08 del\x7f c1\x9b",
    "]]><!-- --!> &lt;b&gt; &#x3c;script&#x3e;",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
]


@pytest.mark.timeout(180)
async def test_nothing_that_is_asked_with_runs_or_hides(live: Live, visit: Visit) -> None:
    """In the question, its options, a form's texts, its words and its media: text stays text, in a real browser."""
    ann = await visit(width=768)
    await ann.page.add_init_script(
        "addEventListener('securitypolicyviolation', e => console.error('Content Security Policy: ' + e.blockedURI))"
    )
    for evil in MARKUP:
        for given in evil_asks(evil):
            asked = await live.ask(evil, **given)
            page = await ann.open(f"/inbox/{asked.id}")
            assert page.url.startswith(live.url)
            seen = await page.evaluate(STRANGE)
            assert seen == [], (evil, given["answer_format"], seen)
            assert "owned" not in (await page.title()).replace(evil.split("\n")[0][:60], "")
            text = await page.locator("main").inner_text()
            for hidden in ("\u202e", "\u2066", "\u200b", "\u00ad", "\u061c", "\x07", "\x1b", "\x9b"):
                assert hidden not in text
            await live.node.asks.cancel(asked.id, by=BOB, via="http")
    assert ann.complaints == []
    assert ann.foreign == []


#: Elements and attributes that no page of ours has.
STRANGE = """() => [...document.querySelectorAll('script:not([src]), iframe, object, embed, base, style, meta[http-equiv], link[href^=http]')]
    .map(e => e.outerHTML.slice(0, 80))
    .concat([...document.querySelectorAll('*')].flatMap(e => [...e.attributes])
        .filter(a => /^on/.test(a.name) || a.name === 'style' || a.name === 'srcdoc'
            || /^(href|src|action|formaction)$/.test(a.name) && /^\\s*(javascript|data:text)/i.test(a.value))
        .map(a => a.name + '=' + a.value.slice(0, 60)))"""


def evil_asks(evil: str) -> list[dict[str, Any]]:
    media = [
        {"kind": "link", "url": "https://example.com/", "caption": evil},
        {"kind": "document", "url": "https://example.com/a", "filename": evil[:200], "caption": evil},
        {"kind": "image", "url": PICTURE, "caption": evil},
    ]
    field = {"title": evil, "description": evil}
    schema = {
        "type": "object",
        "title": evil,
        "required": ["text", evil],
        "properties": {
            "text": field | {"type": "string", "maxLength": 20, "default": evil[:20]},
            "long": field | {"type": "string", "control": "textarea", "default": evil},
            evil: field | {"type": "string", "enum": [evil, "other"]},
            "many": field | {"type": "string", "enum": [evil, *"abcdef"], "default": evil},
            "several": field | {"type": "array", "items": {"type": "string", "enum": [evil, "b"]}},
            "list": field | {"type": "array", "items": {"type": "string"}},
            "sure": field | {"type": "boolean"},
            "shown": field | {"type": "string", "visibleWhen": {"field": evil, "equals": evil}},
            "group": field | {"type": "object", "properties": {evil: field | {"type": "string"}}},
            "other": field,
        },
    }
    words = {
        "form": {
            "title": evil, "submit": evil, "back": evil, "error_line": evil, "step_progress": evil + "{step}{steps}",
            "fields": {
                "text": {"required": evil, "invalid": evil, "length_hint": evil + "{max}"},
                "many": {"choice_label": evil},
                "sure": {"true_label": evil, "false_label": evil},
                "list": {"add_item": evil, "remove_item": evil, "item_label": evil + "{n}", "no_items": evil},
            },
        }
    }  # fmt: skip
    data = {
        "values": {"list": [evil.replace("\n", " ")], "text": evil[:20]},
        "options": {"several": [{"value": evil, "label": evil, "description": evil}]},
    }
    rest = [name for name in schema["properties"] if name != "text"]
    pages = [
        {"title": evil, "fields": ["text"], "display": [{"kind": "heading", "text": evil}, {"kind": "text", "text": evil}]},
        {"title": evil, "fields": rest, "button_label": evil},
    ]  # fmt: skip
    return [
        {"answer_format": "text", "options": [evil, "b"], "media": media, "group_id": evil,
         "wording": {"answer": {"submit": evil, "reply_hint": evil}}},
        {"answer_format": "confirm", "wording": {"answer": {"confirm": evil, "decline": evil}}},
        {"answer_format": "select", "options": [evil, "b"],
         "wording": {"choice": {"label": evil, "group_label": evil, "reply_hint": evil}}},
        {"answer_format": "select", "options": [evil, *"bcdefghijkl"], "wording": {"choice": {"label": evil}}},
        {"answer_format": "form", "schema": schema, "wording": words, "data": data},
        {"answer_format": "form", "schema": schema, "wording": words, "data": data, "pages": pages},
    ]  # fmt: skip


BOOKING = {
    "type": "object",
    "required": ["mail", "from", "to", "pay", "card"],
    "properties": {
        "mail": {"type": "string", "format": "email", "title": "Your e-mail", "description": "The confirmation goes there."},
        "room": {"type": "string", "title": "Room", "control": "chips", "enum": ["small", "large", "any", "quiet", "high", "low"]},
        "from": {"type": "string", "format": "date", "title": "First day", "unavailableDates": ["sunday"]},
        "to": {"type": "string", "format": "date", "title": "Last day", "rangeStart": "from", "maxDays": 14},
        "pay": {"type": "string", "title": "Payment", "enum": ["card", "cash", "bill"]},
        "card": {"type": "string", "title": "Card number", "visibleWhen": {"field": "pay", "equals": "card"}},
        "guests": {"type": "array", "title": "Guests", "items": {"type": "string"}},
        "days": {"type": "array", "title": "Breakfast", "items": {"type": "string", "enum": ["Mon", "Tue"]}},
        "call": {"type": "string", "format": "date-time", "title": "Call me at"},
        "sure": {"type": "boolean", "title": "Sure?"},
    },
}  # fmt: skip
PARTED = [
    {"title": "Who and when", "fields": ["mail", "room", "from", "to"], "display": [{"kind": "heading", "text": "A room"}, {"kind": "text", "text": "In the old town."}]},
    {"title": "Payment", "fields": ["pay", "card"]},
    {"title": "More", "fields": ["guests", "days", "call", "sure"]},
    {"title": "All right?", "kind": "review"},
]  # fmt: skip
GUESTS = {
    "form": {"title": "Book", "fields": {"guests": {"item_label": "Guest {n}", "no_items": "Nobody yet"}}}
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("width", "dark", "lang"), [(320, True, "de"), (768, False, "en"), (1440, True, "en")]
)
async def test_forms_are_accessible_and_fit(
    live: Live, visit: Visit, width: int, dark: bool, lang: str
) -> None:
    whole = await live.ask("Which room?", answer_format="form", schema=BOOKING, wording=GUESTS,
                           data={"values": {"guests": ["Bob"]}})  # fmt: skip
    parted = await live.ask("Which room?", answer_format="form", schema=BOOKING, wording=GUESTS, pages=PARTED)
    ann = await visit(width=width, dark=dark)
    page = await ann.open(f"/inbox/{whole.id}?lang={lang}")
    wrong = await faults_of(page, "whole")
    await press(page)
    wrong += await faults_of(page, "whole, with faults")
    await ann.open(f"/inbox/{parted.id}")
    wrong += await faults_of(page, "first page")
    await fill(
        page, [["mail", "a@example.com"], ["from", "2030-02-01"], ["to", "2030-02-02"], ["pay", "cash"]]
    )
    wrong += await faults_of(page, "second page")
    await press(page)
    wrong += await faults_of(page, "third page")
    await press(page)
    wrong += await faults_of(page, "review")
    await press(page)
    wrong += await faults_of(page, "answered")
    assert wrong == []


async def faults_of(page: Page, name: str) -> list[str]:
    wide = await page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    found = [
        *await violations(page),
        *await small_targets(page),
        *(["wider than the window"] if wide else []),
    ]
    return [f"{name}: {one}" for one in found]
