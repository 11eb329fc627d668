"""The pages behind a callback URL, and the way there from the inbox: by buttons, without scripts, and told to nobody."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from rejoinder.doors.bodies import LARGE
from tests.integration.doors.edge import Edge
from tests.integration.external.outside import (
    BASE,
    DOOR,
    GOOD,
    NOT_FOUND,
    SCHEMA,
    outside,
    proof,
    result,
    with_ticket,
)
from tests.integration.web.browser import Browser, Page, signed_in

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "mail": {"type": "string", "format": "email", "title": "Your address"},
        "size": {"type": "string", "enum": ["S", "M", "L"]},
    },
    "required": ["mail"],
}


@asynccontextmanager
async def stranger(e: Edge) -> AsyncIterator[Browser]:
    """A browser without scripts, and without a key."""
    browser = Browser(e.node)
    async with browser.http:
        yield browser


async def filled(page: Page, mail: str) -> Page:
    form = page.form()
    return await form.fill({form.label("Your address"): mail}).press("Send the answer")


async def look(browser: Browser, path: str) -> Page:
    page = await browser.get(path)
    assert page.response.headers["content-type"].startswith("text/html"), page.html
    # Its one script may tell what is wrong with a form before it is sent; the page works without.
    assert [one.get("src")[:8] for one in page.tree.all("script")] in ([], ["/assets/"])
    return page


async def test_one_button_for_an_external_question(database_url: str) -> None:
    async with outside(database_url) as (e, system):
        asked = await e.call("sign", {})
        async with stranger(e) as browser:
            page = await look(browser, f"{system.door}?by=ann&by=bob")
            assert "Sign the contract?" in page.text
            assert await e.state(asked.id) == "pending"
            page = await page.form().press("Confirm")
            assert page.status == 200
            assert "The answer was recorded" in page.text
            page = await look(browser, system.door)
            assert "The answer was recorded" in page.text
        assert (await result(asked))["answer"] == {"by": ["ann", "bob"]}


async def test_a_schema_is_a_form_and_never_json(database_url: str) -> None:
    async with outside(database_url) as (e, system):
        e.node.registry.add(system.tool("mail", schema=FORM))
        asked = await e.call("mail", {})
        async with stranger(e) as browser:
            page = await look(browser, system.door)
            page = await filled(page, "nobody")
            assert page.status == 422
            assert "Enter a valid email address" in page.text
            assert await e.state(asked.id) == "pending"
            page = await filled(page, "ann@example.org")
            assert "The answer was recorded" in page.text
        assert (await result(asked))["answer"] == {"mail": "ann@example.org"}


async def test_json_that_is_called_a_form_is_json(database_url: str) -> None:
    """curl says of every body that it is a form: what it says itself must count, not what a page would have filled in."""
    async with outside(database_url) as (e, system):
        asked = await e.call("checked", {})
        form = {"content-type": "application/x-www-form-urlencoded"}
        async with e.anonymous() as client:
            for body in ('{"decision": "declined"}', "decision=declined", "decision=confirmed"):
                assert (await client.post(system.door, content=body, headers=form)).status_code == 400
            assert await e.state(asked.id) == "pending"
            assert (await client.post(system.door, json=GOOD, headers=form)).status_code == 200
        await result(asked)


@pytest.mark.parametrize(("button", "value"), [("Yes", True), ("No", False)])
async def test_a_confirm_question_can_be_denied(database_url: str, button: str, value: bool) -> None:
    async with outside(database_url) as (e, _):
        asked, path = await with_ticket(e, answer_format="confirm", question="Delete it?")
        async with stranger(e) as browser:
            page = await look(browser, path)
            assert "Delete it?" in page.text
            page = await page.form().press(button)
            assert "The answer was recorded" in page.text
        assert (await result(asked))["answer"] is value


@pytest.mark.parametrize("asked", [{"answer_format": "text"}, {"answer_format": "select", "options": ["a"]}])
async def test_a_text_is_answered_where_it_came_from(database_url: str, asked: dict[str, Any]) -> None:
    async with outside(database_url) as (e, _):
        question, path = await with_ticket(e, **asked)
        async with stranger(e) as browser:
            page = await look(browser, path)
            assert "Reply to the message" in page.text
            assert page.tree.all("form") == []
        async with e.anonymous() as client:
            reply = await client.post(
                path,
                content="sent_by=page&answer=x",
                headers={"content-type": "application/x-www-form-urlencoded"},
            )
            assert (reply.status_code, reply.headers["content-type"][:9]) == (400, "text/html")
        assert await e.state(question.id) == "pending"
        await question.end()


async def test_a_form_ticket_is_the_form(database_url: str) -> None:
    async with outside(database_url) as (e, _):
        question, path = await with_ticket(e, answer_format="form", schema=FORM)
        async with stranger(e) as browser:
            page = await look(browser, path)
            page = await filled(page, "ann@example.org")
            assert "The answer was recorded" in page.text
        assert (await result(question))["answer"] == {"mail": "ann@example.org"}


async def test_the_senders_own_words(database_url: str) -> None:
    wording = {
        "answer": {"confirm": "I have signed"},
        "answer_page": {
            "confirm": {"heading": "Almost done"},
            "done": {"heading": "Thank you", "text": "Goodbye."},
        },
    }
    async with outside(database_url) as (e, system):
        e.node.registry.add(system.tool("worded", wording=wording))
        asked = await e.call("worded", {})
        async with stranger(e) as browser:
            page = await look(browser, system.door)
            assert "Almost done" in page.text
            page = await page.form().press("I have signed")
            assert "Thank you" in page.text
            assert "Goodbye." in page.text
        await result(asked)


async def test_what_the_link_carries_may_not_fit(database_url: str) -> None:
    """A page without a form sends the link's own query: where that does not fit, the person is told so in words."""
    async with outside(database_url) as (e, system):
        asked = await e.call("sign", {})
        async with stranger(e) as browser:
            page = await look(browser, f"{system.door}?a=%00")
            page = await page.form().press("Confirm")
            assert page.status == 422
            assert "Nothing was sent" in page.text
        assert await e.state(asked.id) == "pending"
        await asked.end()


@pytest.mark.parametrize(
    ("sent", "status", "told"),
    [
        ("&".join(["f.mail=a"] * 5_000), 413, "more than a form may send"),
        ("&".join(["f.mail=a"] * 5_200), 400, "could not read what was sent"),
        ("f.mail=%FF", 400, "could not read what was sent"),
        ("f.mail=ann%40example.org&f.note=%00", 422, "a NUL character"),
    ],
)
async def test_what_no_browser_sends_is_refused_with_the_page(
    database_url: str, sent: str, status: int, told: str
) -> None:
    """It is theirs and not ours, so it is no fault, and the ticket is as good as it was."""
    schema = FORM | {"properties": FORM["properties"] | {"note": {"type": "string"}}}
    async with outside(database_url) as (e, system):
        e.node.registry.add(system.tool("mail", schema=schema))
        asked = await e.call("mail", {})
        async with e.anonymous() as client:
            form = {"content-type": "application/x-www-form-urlencoded"}
            reply = await client.post(system.door, headers=form, content=f"sent_by=page&{sent}")
            assert (reply.status_code, reply.headers["content-type"][:9]) == (status, "text/html")
            assert told in reply.text
        assert await e.state(asked.id) == "pending"
        await asked.end()


@pytest.mark.parametrize("size", [70_000, LARGE + 1])
async def test_more_than_a_form_may_send_is_refused_with_a_page(database_url: str, size: int) -> None:
    async with outside(database_url) as (e, system):
        asked = await e.call("sign", {})
        form = {"content-type": "application/x-www-form-urlencoded"}
        content = "sent_by=page&f.note=".ljust(size, "x")
        async with e.anonymous() as client:
            for wishes, told in (("en", "Shorten it"), ("de", "Kürzen Sie es")):
                browser = form | {"accept": "text/html,*/*;q=0.8", "accept-language": wishes}
                reply = await client.post(system.door, headers=browser, content=content)
                assert (reply.status_code, reply.headers["content-type"][:9]) == (413, "text/html")
                assert told in reply.text
                assert "xxx" not in reply.text
                assert reply.headers["referrer-policy"] == "no-referrer"
            program = await client.post(system.door, headers=form, content=content)
            assert (program.status_code, program.json()["code"]) == (413, "too-large")
        assert await e.state(asked.id) == "pending"
        await asked.end()


async def test_a_fault_of_ours_is_the_constant_text(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outside(database_url, interactions_callback_fault_text="Out of order.") as (e, system):
        asked = await e.call("checked", {})
        await e.node.database.execute(
            "UPDATE rejoinder.question SET format_payload = $2 WHERE id::text = $1",
            asked.id,
            {"link": [""], "schema": {"$ref": "#/nowhere"}},
        )
        async with e.anonymous() as client:
            form = {"content-type": "application/x-www-form-urlencoded"}
            pressed = await client.post(system.door, headers=form, content="sent_by=page&f.count=1")
            for reply in (await client.get(system.door), pressed):
                assert (reply.status_code, reply.text) == (500, "Out of order.")
        await asked.end()


async def test_the_texts_are_the_operators(database_url: str) -> None:
    given = {"interactions_callback_gone_text": "Nothing here."}
    async with outside(database_url, **given) as (e, _), e.anonymous() as client:
        assert (await client.get(DOOR + "x" * 43)).text == "Nothing here."
        form = {"content-type": "application/x-www-form-urlencoded"}
        reply = await client.post(DOOR + "x" * 43, headers=form, content="sent_by=page")
        assert (reply.status_code, reply.text) == (404, "Nothing here.")
        assert (await client.post(DOOR + "x" * 43, headers=form)).json() == NOT_FOUND


async def test_pages_are_strict_and_hold_nothing_of_the_request(database_url: str) -> None:
    async with outside(database_url) as (e, system):
        asked = await e.call("sign", {})
        marked = f"{system.door}?zqxj=zqxj"
        headers = {
            "user-agent": "zqxj",
            "referer": "https://zqxj.example/",
            "cookie": "zqxj=zqxj",
            "x-forwarded-host": "zqxj.example",
        }
        async with e.anonymous() as client:
            plain = (await client.get(system.door)).text
            reply = await client.get(marked, headers=headers)
            assert reply.text == plain  # the same bytes, whatever asked for them
            assert system.ticket not in plain
            assert "zqxj" not in plain
            policy = reply.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "script-src 'self';" in policy or "script-src" not in policy
            expected = {
                "x-frame-options": "DENY",
                "referrer-policy": "no-referrer",
                "x-content-type-options": "nosniff",
                "cache-control": "no-store",
            }
            assert expected.items() <= dict(reply.headers).items()
            assert "set-cookie" not in reply.headers
        await asked.end()


# From the inbox


async def pressed(page: Page) -> httpx2.Response:
    """Press the button that leads out; what comes back goes there by itself."""
    return (await page.form("/open").press("Open sign.example")).response


async def test_the_person_asked_is_sent_out_with_a_ticket_of_their_own(database_url: str) -> None:
    async with outside(database_url) as (e, system):
        asked = await e.call("sign", {})
        path = f"/inbox/{asked.id}"
        async with signed_in(e.node, "ann") as browser:
            page = await browser.get(path)
            assert "sign.example" in page.text
            assert system.ticket not in page.html
            reply = await pressed(page)
            assert reply.status_code == 200
            target = reply.headers["refresh"].removeprefix("0; url=")
            assert target.startswith("https://sign.example/documents/1?back=" + BASE + DOOR)
            ticket = target.rpartition("/")[2]
            assert ticket != system.ticket
            assert reply.headers["referrer-policy"] == "no-referrer"
        trail = (await e.owner.get("/api/audit", params={"kind": "link"})).json()["data"]["items"]
        assert [(one["kind"], one["actor"]) for one in trail] == [("link.opened", "ann")]
        async with e.anonymous() as client:
            assert (await client.post(DOOR + ticket, json=GOOD)).status_code == 200
            assert (await client.post(system.door, json=GOOD)).json()["data"]["status"] == "already_answered"
        assert (await result(asked))["answer"] == GOOD
        async with signed_in(e.node, "bob") as browser:
            page = await browser.get(path)
            assert "/open" not in page.html
            assert "an outside system" in page.text
            assert "confirmed" in page.text


async def test_readers_and_others_get_no_ticket(database_url: str) -> None:
    async with outside(database_url) as (e, system):
        e.node.registry.add(system.tool("for_ann", audience="ann"))
        asked = await e.call("for_ann", {})
        path = f"/inbox/{asked.id}"
        async with signed_in(e.node, "reader", ("read",)) as browser:
            page = await browser.get(path)
            assert "Sign the contract?" in page.text
            assert "/open" not in page.html
        reader = await e.client("r2", "read")
        stranger = await e.client("s2", "read", "write", owner="owner")
        for client, status in ((reader, 403), (stranger, 404)):
            async with client:
                assert (await client.post(f"/api/interactions/{asked.id}/open")).status_code == status
        assert await e.node.database.value("SELECT count(*) FROM rejoinder.ticket") == 1
        reply = await e.owner.post(f"/api/interactions/{asked.id}/open")
        assert re.fullmatch(
            r"https://sign\.example/documents/1\?back=https://ask\.example\.org/api/\S+",
            reply.json()["data"]["url"],
        )
        await asked.end()


async def test_links_that_cannot_be_opened(database_url: str, secret: None) -> None:
    async with outside(database_url) as (e, _):
        text = await e.ask()
        assert (await e.owner.post(f"/api/interactions/{text.id}/open")).status_code == 400
        await text.end()
        asked = await e.call("bound", {})
        door = (
            (await e.owner.post(f"/api/interactions/{asked.id}/open"))
            .json()["data"]["url"]
            .partition("back=" + BASE)[2]
        )
        async with e.anonymous() as client:
            assert (await client.post(door, json=GOOD)).status_code == 401  # the fresh ticket is bound too
            assert (await client.post(door, json=GOOD, headers=proof())).status_code == 200
        await result(asked)
        assert (await e.owner.post(f"/api/interactions/{asked.id}/open")).status_code == 409
        late = await e.call("sign", {})
        await e.node.database.execute(
            "UPDATE rejoinder.question SET timeout_at = rejoinder.clock() WHERE id::text = $1", late.id
        )
        assert (await e.owner.post(f"/api/interactions/{late.id}/open")).status_code == 409
        await late.end()
        assert (await e.owner.post(f"/api/interactions/{asked.id[:-1]}0/open")).status_code == 404
        many = await e.call("sign", {})
        await e.node.database.execute(
            "INSERT INTO rejoinder.ticket SELECT sha256(g::text::bytea), q.id FROM generate_series(1, 99) g, rejoinder.question q WHERE q.id::text = $1",
            many.id,
        )
        assert (await e.owner.post(f"/api/interactions/{many.id}/open")).status_code == 503
        await many.end()


async def test_a_link_without_its_ticket_is_opened_as_it_is(database_url: str) -> None:
    async with outside(database_url) as (e, system):

        async def pay(callback_url: str) -> str:
            system.urls.append(callback_url)
            return "https://pay.example/session/7"

        e.node.registry.add(system.tool("pay", link=pay, schema=SCHEMA))
        asked = await e.call("pay", {})
        reply = await e.owner.post(f"/api/interactions/{asked.id}/open")
        assert reply.json()["data"]["url"] == "https://pay.example/session/7"
        assert await e.node.database.value("SELECT count(*) FROM rejoinder.ticket") == 1
        await asked.end()
