"""Hook runs that are held, on the page of hooks: what went wrong is text, and a form lets each go on or be given up."""

from __future__ import annotations

from typing import Any

from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.node import Node
from tests.integration.hooks.events import becomes
from tests.integration.nodes import running
from tests.integration.web.browser import signed_in


async def held(node: Node) -> dict[str, Any]:
    await node.access.create_key(name="worker", grants=["read", "write"], by=LOCAL_OWNER)
    body = {"name": "one", "topic": "orders", "tool": "ask", "execution_key": "worker", "start_expr": "1"}
    await node.hook_records.register(body, by=LOCAL_OWNER)
    await node.deliveries.accept("orders", {"ticket": "a live one"})
    [found] = await becomes(node, "failed")
    return found


async def test_a_held_one_is_tried_again_and_given_up(database_url: str) -> None:
    async with running(database_url, worker=True) as node, signed_in(node) as browser:
        assert "held for an operator" not in (await browser.get("/inbox")).text
        found = await held(node)
        assert "1 event is held for an operator" in (await browser.get("/inbox")).text
        page = await browser.get("/hooks")
        assert "start_expr must come to an object" in page.text
        assert "a live one" not in page.text
        german = await browser.get("/hooks", headers={"accept-language": "de"})
        assert "Ungültige Eingabe: start_expr muss ein Objekt oder null ergeben" in german.text
        path = f"/hooks/runs/{found['id']}"
        again, given_up = page.form(f"{path}/retry"), page.form(f"{path}/discard")
        assert (await again.press("Try again")).status == 200
        await becomes(node, "failed")
        page = await given_up.press("Give it up")
        assert "Give it up" not in page.text
        [row] = await node.database.rows("SELECT status, attempts FROM rejoinder.hook_run")
        assert tuple(row) == ("discarded", 2)
        late = await again.press("Try again")
        assert late.status == 409
        assert "there is nothing to retry" in late.text


async def test_who_may_only_look_is_given_no_buttons(database_url: str) -> None:
    async with running(database_url, worker=True) as node:
        await held(node)
        async with signed_in(node, "reader", ("read",)) as browser:
            page = await browser.get("/hooks")
            assert "start_expr must come to an object" in page.text
            assert "Give it up" not in page.text
