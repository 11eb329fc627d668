"""A real browser for the tests of the pages, and the real programs of the rig. They never leave this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any, TypeAlias

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, async_playwright

from tests.live.demo import Live, serving
from tests.live.rig import fixtures

Visit: TypeAlias = "Callable[..., Awaitable[Visitor]]"

#: Without these it looks for updates and other things on a network that it may not reach.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

rig_folder, session_model, model = fixtures.rig_folder, fixtures.session_model, fixtures.model
session_gateway, gateway = fixtures.session_gateway, fixtures.gateway
session_host, host, host_page = fixtures.session_host, fixtures.host, fixtures.host_page


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # The first test that asks for a program waits for its start.
        if {"session_gateway", "session_host"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.timeout(240))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    found = yield
    fixtures.report(item, found)
    return found


def chromium() -> str:
    for name in (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome"):
        if name and (path := shutil.which(name)):
            return path
    raise RuntimeError("no Chromium is installed; make live installs Debian's")


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield started
        await started.close()


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A page on a desktop's size; ``page.set_viewport_size`` makes it a phone's."""
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    yield await context.new_page()
    await context.close()


@pytest.fixture
async def live(database_url: str) -> AsyncIterator[Live]:
    """A server of this test's own."""
    async with serving(database_url) as started:
        yield started


class Visitor:
    """One person at one browser. Whatever the browser complains of, or asks other hosts for, is kept."""

    def __init__(self, live: Live, context: BrowserContext, page: Page) -> None:
        self.live = live
        self.context = context
        self.page = page
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._listen)
        context.on("request", self._watch)

    def _listen(self, message: ConsoleMessage) -> None:
        # A page that was drawn with 4xx on purpose is told to the console as well; that is no fault of the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def _watch(self, request: Request) -> None:
        if not request.url.startswith((self.live.url + "/", "data:")):
            self.foreign.append(request.url)

    async def open(self, path: str) -> Page:
        await self.page.goto(self.live.url + path)
        return self.page

    async def sign_in(self, name: str = "ann", **given: Any) -> Visitor:
        """With a session cookie of its own, as a sign-in gives it."""
        cookie, _ = await self.live.node.access.sign_in(await self.live.key(name, **given))
        await self.context.add_cookies([{"name": "rejoinder", "value": cookie, "url": self.live.url}])
        return self


@pytest.fixture
async def visit(browser: Browser, live: Live) -> AsyncIterator[Visit]:
    """Opens a browser window: ``await visit(width=320, dark=True, scripts=False)``."""
    visitors: list[Visitor] = []

    async def start(
        *,
        width: int = 1440,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
        name: str | None = "ann",
        **given: Any,
    ) -> Visitor:
        context = await browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            timezone_id="Europe/Berlin",
            locale="en-GB",
        )
        context.set_default_timeout(20_000)
        visitor = Visitor(live, context, await context.new_page())
        visitors.append(visitor)
        if name is not None:
            await visitor.sign_in(name, **given)
        return visitor

    yield start
    for visitor in visitors:
        await visitor.context.close()
        assert visitor.complaints == []
        assert visitor.foreign == []
