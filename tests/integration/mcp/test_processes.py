"""The MCP door of real server processes: one is killed while a person is asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from rejoinder.contract.identity import LOCAL_OWNER
from tests.integration.mcp.serving import LEGACY, MODERN
from tests.integration.mcp.test_calls import pending_of, text_of
from tests.integration.nodes import ANN, running
from tests.support import Processes, assert_eventually

ASK = {"question": "Go on?", "answer_format": "confirm"}


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_killed_server_s_call_is_told_lost_and_begun_anew(
    database_url: str, processes: Processes, tmp_path: Path, mode: str
) -> None:
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text("tools:\n  - module: rejoinder.tools.interactions\n")
    options: dict[str, Any] = {
        "database_url": database_url,
        "env": {"REJOINDER_MCP_HOLD_SECONDS": "1", "REJOINDER_MANIFEST": str(manifest)},
    }
    async with running(database_url) as node:
        _, key = await node.access.create_key(name="owner", grants=["admin"], by=LOCAL_OWNER)
        one, two = processes.start("serve", **options), processes.start("serve", **options)
        await asyncio.gather(one.wait_ready(), two.wait_ready())

        async def call(url: str, name: str, arguments: dict[str, Any]) -> Any:
            headers = {"Authorization": f"Bearer {key}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False) as http,
                Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
            ):
                return await client.call_tool(name, arguments)

        told = pending_of(await call(one.url, "ask", ASK))
        # The other server takes the same call up; so it does after a restart of the client.
        assert pending_of(await call(two.url, "ask", ASK))["run_id"] == told["run_id"]
        one.kill()

        async def withdrawn() -> bool:
            return await node.asks.count(by=ANN, cap=10) == 0

        await assert_eventually(withdrawn, "the dead server's question stayed open")
        lost = await call(two.url, "check_run", {"run_id": told["run_id"]})
        assert lost.is_error
        assert lost.structured_content["code"] == "run-lost"
        anew = pending_of(await call(two.url, "ask", ASK))
        assert anew["run_id"] != told["run_id"]
        (question,) = await node.asks.page(by=ANN, limit=10)
        await node.asks.answer(question.id, True, by=ANN, via="test")

        async def finished() -> Any:
            result = await call(two.url, "ask", ASK)
            return None if "rejoinder:pending" in result.structured_content else result

        done = await assert_eventually(finished, "the call did not finish")
        assert done.structured_content == {"answer": True, "reply_to": None, "params": None}
        assert done.meta["rejoinder/lost_run_id"] == told["run_id"]
        assert told["run_id"] in text_of(done)
        # It was told, and left the server: the same words are a new question.
        new = pending_of(await call(two.url, "ask", ASK))
        assert new["run_id"] not in (told["run_id"], anew["run_id"])
