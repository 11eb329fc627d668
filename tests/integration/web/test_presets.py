"""The pages of presets: what is fixed in full, what cannot be used here, and nothing of a page for those restricted."""

from __future__ import annotations

from typing import Any

import pytest

from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.runs.tools import tool
from tests.integration.nodes import running
from tests.integration.web.browser import signed_in


@tool
def pay(amount: int, note: str = "") -> Any:
    """Pay."""
    return [amount, note]


async def test_a_preset_is_shown_with_what_it_fixes_and_its_versions(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RENT_NOTE", "hidden-note")
    async with (
        running(database_url, pay, rejoinder_preset_variables="RENT_NOTE") as node,
        signed_in(node) as browser,
    ):
        page = await browser.get("/presets")
        assert "There are no presets yet" in page.text
        fixed = {"note": "!ENV ${RENT_NOTE} <b>"}
        body = {
            "name": "pay_rent",
            "base_tool": "pay",
            "description": "Pays <i>rent</i>.",
            "fixed_kwargs": fixed,
        }
        await node.presets.create(body, by=LOCAL_OWNER)
        await node.presets.save("pay_rent", {"description": "Pays the rent."}, by=LOCAL_OWNER)
        await node.presets.tag("pay_rent", "reviewed", 1, by=LOCAL_OWNER)
        page = await browser.get("/presets")
        assert "pay_rent over pay" in page.text
        assert "fixes note" in page.text
        page = await browser.get("/presets/pay_rent")
        assert '"note": "!ENV ${RENT_NOTE} <b>"' in page.text
        assert "reviewed; by" in page.text
        assert page.tree.all("b") == []
        assert "hidden-note" not in page.text
        assert page.tree.all("form", action="/presets/pay_rent") == []
        page = await browser.get("/presets/nothing")
        assert page.status == 404
    async with running(database_url) as node, signed_in(node, "bob") as browser:
        assert "no tool named pay is exposed" in (await browser.get("/presets")).text
        assert "This server makes no tool of it" in (await browser.get("/presets/pay_rent")).text
        told = "kein Werkzeug namens pay ist freigegeben"
        assert told in (await browser.get("/presets?lang=de")).text
        assert told in (await browser.get("/presets/pay_rent")).text
