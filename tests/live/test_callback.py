"""External questions in a real browser: the way out of the inbox, and the page behind a callback URL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Browser, expect
from starlette.types import Receive, Scope, Send

from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.launch.serve import bind
from rejoinder.launch.serve import serving as server_of
from tests.integration.doors.edge import Edge, served
from tests.integration.external.outside import BASE, GOOD, UNLIMITED, Outside, result

HOSTILE = (
    "</h1><script>window.hit = 1</script><img src=x onerror='window.hit = 2'>\u202etxet desrever\x1b[31m"
)
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "mail": {"type": "string", "format": "email", "title": "Your address"},
        "why": {"type": "string", "title": HOSTILE, "description": HOSTILE},
    },
    "required": ["mail"],
}


@dataclass
class Elsewhere:
    """The page of an outside system, and the headers that browsers came to it with."""

    url: str
    came: list[tuple[str, dict[str, str]]] = field(default_factory=list)


@asynccontextmanager
async def elsewhere() -> AsyncIterator[Elsewhere]:
    address = bind("127.0.0.1", 0)
    # Another name than ours: cookies do not look at ports.
    site = Elsewhere(address.url.replace("127.0.0.1", "localhost"))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["path"] == "/sign":
            site.came.append((scope["query_string"].decode(), headers))
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]}
        )
        await send({"type": "http.response.body", "body": b"<title>Elsewhere</title><h1>Sign here</h1>"})

    async with server_of(app, address, grace=0):
        yield site


@asynccontextmanager
async def deployment(url: str) -> AsyncIterator[tuple[Edge, Outside, Elsewhere]]:
    system = Outside()
    async with elsewhere() as site:

        async def link(callback_url: str) -> str:
            system.urls.append(callback_url)
            return f"{site.url}/sign?back={callback_url}"

        tools = [system.tool("sign", link=link), system.tool("form", schema=FORM)]
        given: dict[str, Any] = {"interactions_public_base_url": BASE, "tai_rate_limit_families": UNLIMITED}
        async with served(url, *tools, **given) as e:
            yield e, system, site


async def test_the_way_out_tells_nobody_where_it_came_from(database_url: str, browser: Browser) -> None:
    async with deployment(database_url) as (e, system, site):
        asked = await e.call("sign", {})
        _, secret = await e.node.access.create_key(name="ann", grants=["read", "write"], by=LOCAL_OWNER)
        cookie, _ = await e.node.access.sign_in(secret)
        context = await browser.new_context()
        await context.add_cookies([{"name": "rejoinder", "value": cookie, "url": e.base}])
        page = await context.new_page()
        await page.goto(f"{e.base}/inbox/{asked.id}")
        assert system.ticket not in await page.content()
        async with context.expect_page() as opening:
            await page.get_by_role("button", name="Open localhost").click()
        there = await opening.value
        await expect(there.get_by_role("heading", name="Sign here")).to_be_visible()
        [(query, headers)] = site.came
        assert "referer" not in headers
        assert "cookie" not in headers
        assert await there.evaluate("window.opener") is None
        [back] = parse_qs(query)["back"]
        assert back.startswith(BASE)
        assert back != system.urls[0]
        async with e.anonymous() as client:
            assert (await client.post(urlsplit(back).path, json=GOOD)).status_code == 200
        # The inbox, left open behind it, hears of the answer.
        await expect(page.locator(".outcome")).to_contain_text("Answered by an outside system")
        assert (await result(asked))["answer"] == GOOD
        await context.close()


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_form_at_a_callback_url(database_url: str, browser: Browser, scripts: bool) -> None:
    async with deployment(database_url) as (e, system, _):
        asked = await e.call("form", {})
        await e.node.database.execute(
            "UPDATE rejoinder.question SET question = $2 WHERE id::text = $1", asked.id, HOSTILE
        )
        context = await browser.new_context(
            viewport={"width": 320, "height": 700}, java_script_enabled=scripts
        )
        page = await context.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        await page.goto(e.base + system.door)
        await expect(page.get_by_role("heading", level=1)).to_contain_text("<script>window.hit = 1</script>")
        await expect(page.get_by_role("heading", level=1)).to_contain_text("U+202E")
        if scripts:
            assert await page.evaluate("window.hit") is None
            assert await page.evaluate("document.documentElement.scrollWidth") <= 320
            injected = "const s = document.createElement('script'); s.textContent = 'window.hit = 3'; document.body.append(s)"
            await page.evaluate(injected)
            assert await page.evaluate("window.hit") is None  # and the policy would not let one run
        await page.get_by_role("button", name="Send the answer").last.click()
        await expect(page.get_by_role("alert")).to_contain_text("Your address")
        assert await e.state(asked.id) == "pending"
        await page.get_by_label("Your address").fill("ann@example.org")
        await page.get_by_role("button", name="Send the answer").last.click()
        await expect(page.get_by_text("The answer was recorded")).to_be_visible()
        await page.reload()
        await expect(page.get_by_text("The answer was recorded")).to_be_visible()
        assert (await result(asked))["answer"] == {"mail": "ann@example.org"}
        assert complaints == []
        await context.close()
