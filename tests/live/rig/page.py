"""The Host's page in a real browser, signed in as the administrator."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, Locator, Page, Route, expect

from tests.live.rig.host import Host

_LOAD_MS = 60_000


class ChatPage:
    """One tab with the Host's page. ``complaints`` are the scripts' errors, ``foreign`` requests that left the machine."""

    def __init__(self, host: Host, page: Page) -> None:
        self.host = host
        self.page = page
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    async def show(self, chat_id: str) -> ChatPage:
        """Open a chat."""
        await self.page.goto(f"{self.host.url}/c/{chat_id}", timeout=_LOAD_MS)
        await self.page.locator("#chat-input").wait_for(timeout=_LOAD_MS)
        return self

    async def reload(self) -> ChatPage:
        await self.page.reload(timeout=_LOAD_MS)
        await self.page.locator("#chat-input").wait_for(timeout=_LOAD_MS)
        return self

    def message(self, message_id: str) -> Locator:
        """A message, whether it is shown or not."""
        return self.page.locator(f"#message-{message_id}")

    @property
    def messages(self) -> Locator:
        """All messages that are shown."""
        return self.page.locator("[id^='message-']")

    async def shows(self, message_id: str, text: str, *, within: float = 20) -> None:
        """Until the message is there and has this text in it."""
        await expect(self.message(message_id)).to_contain_text(text, timeout=within * 1000)

    async def ids(self) -> list[str]:
        """The messages' ids from top to bottom."""
        found = await self.messages.evaluate_all("all => all.map(one => one.id.slice('message-'.length))")
        return [one for one in found if len(one) == 36]

    async def send(self, text: str) -> None:
        """Type a message and send it."""
        await self.page.locator("#chat-input").click()
        await self.page.keyboard.type(text)
        await self.page.keyboard.press("Enter")

    @property
    def stop(self) -> Locator:
        """The button that stops what is being generated; shown only then."""
        return self.page.get_by_role("button", name="Stop", exact=True)

    async def generating(self, yes: bool = True) -> None:
        """Until the page shows, or no longer shows, that an answer is being generated."""
        await expect(self.stop).to_have_count(1 if yes else 0, timeout=20_000)


@asynccontextmanager
async def chat_page(browser: Browser, host: Host) -> AsyncIterator[ChatPage]:
    """A new tab of a browser of its own cookies. It reaches this machine only."""
    context = await browser.new_context(viewport={"width": 1100, "height": 800}, locale="en-US")
    context.set_default_timeout(20_000)
    signed = {"token": host.token, "locale": "en-US"}
    await context.add_init_script(
        f"for (const [k, v] of Object.entries({json.dumps(signed)})) localStorage.setItem(k, v)"
    )
    shown = ChatPage(host, await context.new_page())
    await _stay_here(context, shown)
    try:
        yield shown
    finally:
        await context.close()


async def _stay_here(context: BrowserContext, shown: ChatPage) -> None:
    async def look(route: Route) -> None:
        address = urlsplit(route.request.url)
        if address.scheme in ("data", "blob") or address.hostname == "127.0.0.1":
            await route.continue_()
        else:
            shown.foreign.append(route.request.url)
            await route.abort()

    await context.route("**/*", look)
