"""``rejoinder hooks runs``: what is held is listed, retried and discarded, the last only on a clear word."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.cli.conftest import Shell
from tests.integration.doors.edge import Edge
from tests.support import assert_eventually

HOOK: dict[str, Any] = {
    "name": "bad",
    "topic": "orders",
    "tool": "plain",
    "execution_key": "owner",
    "start_expr": "1",
}


async def test_a_held_hook_run_is_listed_retried_and_discarded(shell: Shell, server: Edge) -> None:
    made = await shell("hooks", "register", "--params", json.dumps(HOOK))
    assert made.code == 0, made.err
    assert await server.node.deliveries.accept("orders", {}) == "accepted"

    async def held() -> str | None:
        found = (await shell("hooks", "runs", "list", "--status", "failed", "--json")).json
        return found["items"][0]["id"] if found["items"] else None

    identifier = await assert_eventually(held)
    assert identifier is not None
    table = await shell("hooks", "runs", "list", "--status", "failed")
    assert "bad_input" in table.out
    assert "0 outstanding, 1 failed." in table.err
    again = await shell("hooks", "runs", "retry", identifier)
    assert again.out == "It is tried again.\n"
    await assert_eventually(held)
    unsure = await shell("hooks", "runs", "discard", identifier)
    assert unsure.code == 2
    assert "--yes" in unsure.err
    assert (await shell("hooks", "runs", "discard", identifier, "--yes")).out == "Discarded.\n"
    assert (await shell("hooks", "runs", "retry", identifier)).code == 1
