"""A tool that asks its caller, over MCP: the model is told, answers with a tool, and reads the result."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.core.support import in_an_hour
from tests.integration.core.test_callers import TOOLS
from tests.integration.mcp.serving import LEGACY, MODERN, connected, serving
from tests.integration.mcp.test_calls import text_of


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
@pytest.mark.parametrize("tool", ["child", "parent"])
async def test_the_model_is_asked_and_answers(database_url: str, mode: str, tool: str) -> None:
    async with (
        serving(database_url, *TOOLS, worker=True, rejoinder_mcp_hold_seconds=5) as served,
        connected(served, mode) as client,
    ):
        told = await client.call_tool(tool, {})
        assert not told.is_error
        assert "asks you, the caller" in text_of(told)
        [one] = told.structured_content["asks"]
        run_id = told.structured_content["run_id"]
        assert one["payload"] == {"need": "size"}
        # The same call, and asking for the run, tell it again; nothing is run twice.
        again = await client.call_tool("check_run", {"run_id": run_id})
        assert again.structured_content["asks"] == [one]
        answer: dict[str, Any] = {"interaction_id": one["interaction_id"], "payload": {"eu": 44}}
        answered = await client.call_tool("resume_parked", answer)
        assert answered.structured_content["status"] == "answered"
        done = await client.call_tool("check_run", {"run_id": run_id})
        got = {"got": {"eu": 44}}
        assert done.structured_content == (got if tool == "child" else {"child": got})


async def test_the_builtin_ask_told_again_keeps_to_its_schema(database_url: str) -> None:
    """A client that lost patience calls again: the run is the same, and what it is told fits the tool's own schema."""
    async with (
        serving(database_url, rejoinder_mcp_hold_seconds=1) as served,
        connected(served, MODERN) as client,
    ):
        arguments = {
            "payload": {"need": "size"},
            "to": "caller",
            "mode": "async",
            "expiry_at": in_an_hour().isoformat(),
        }
        first = await client.call_tool("ask", arguments)
        again = await client.call_tool("ask", arguments)
        assert again.structured_content == first.structured_content
