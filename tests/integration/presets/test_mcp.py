"""Presets over MCP: listed as tools are, called as tools are, and never with what they fix."""

from __future__ import annotations

from rejoinder.contract.identity import LOCAL_OWNER
from tests.integration.mcp.serving import connected, serving
from tests.integration.mcp.test_calls import both, text_of
from tests.integration.presets.tools import pay


@both
async def test_a_preset_is_listed_and_called(database_url: str, mode: str) -> None:
    async with serving(database_url, pay) as served:
        body = {
            "name": "pay_rent",
            "base_tool": "pay",
            "description": "Pay the rent.",
            "fixed_kwargs": {"note": "rent"},
        }
        await served.node.presets.create(body, by=LOCAL_OWNER)
        async with connected(served, mode) as client:
            tools = {one.name: one for one in (await client.list_tools()).tools}
            shown = tools["pay_rent"]
            assert shown.description == "Pay the rent."
            assert list(shown.input_schema["properties"]) == ["amount", "currency", "options"]
            assert shown.annotations is not None
            assert shown.annotations.read_only_hint is True
            good = await client.call_tool("pay_rent", {"amount": 7})
            assert '"note": "rent"' in text_of(good) or '"note":"rent"' in text_of(good)
            bad = await client.call_tool("pay_rent", {"amount": 7, "note": "rent"})
            assert bad.is_error
            assert "note" in text_of(bad)
            await served.node.presets.delete("pay_rent", by=LOCAL_OWNER)
            assert "pay_rent" not in {one.name for one in (await client.list_tools()).tools}
