"""That the browser tests have a browser: it opens a page of a server of this machine and a click reaches it."""

from __future__ import annotations

import asyncio

from playwright.async_api import Page

_BODY = (
    b"<!doctype html><title>Here</title><p>Waiting</p>"
    b"<button onclick=\"document.querySelector('p').textContent='Clicked'\">Go</button>"
)


async def test_the_browser_opens_a_local_page_and_clicks(page: Page) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(_BODY)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + _BODY)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.get_by_role("button", name="Go").click()
        assert await page.title() == "Here"
        assert await page.inner_text("p") == "Clicked"
