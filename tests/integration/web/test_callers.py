"""Runs that asked their caller and called others, on the pages of people."""

from __future__ import annotations

import re

from tests.integration.core.test_callers import TOOLS, asked, call, children_of, resume
from tests.integration.nodes import ANN, running
from tests.integration.web.browser import signed_in


async def test_a_chain_is_shown_and_every_link_of_it_leads_somewhere(database_url: str) -> None:
    async with running(database_url, *TOOLS, worker=True) as node, signed_in(node) as browser:
        first = await call(node, "parent", given={"word": "<b>colour</b>"})
        [inner] = await children_of(node, first.run_id)
        await call(node, "asks_a_person")
        outer_page = await browser.get(f"/runs/{first.run_id}")
        inner_page = await browser.get(f"/runs/{inner}")
        assert "Waits for a run that it called" in outer_page.text
        assert f"/runs/{inner}" in outer_page.html
        assert "Asks its caller" in inner_page.text
        assert "<b>colour</b>" in inner_page.text
        assert f"/runs/{first.run_id}" in inner_page.html
        # In the inbox is what a person is asked, and nothing else.
        inbox = await browser.get("/inbox")
        assert "A person?" in inbox.text
        assert "colour" not in inbox.text
        for end in (False, True):
            if end:
                await resume(node, first.run_id, dict.fromkeys(asked(first), 1), ANN)
            audit = await browser.get("/audit")
            assert "/inbox/" in audit.html
            for page in (outer_page, inner_page, audit):
                for path in set(re.findall(r'href="(/(?:runs|inbox)/[0-9a-f-]{36})"', page.html)):
                    assert (await browser.get(path)).status == 200, path
