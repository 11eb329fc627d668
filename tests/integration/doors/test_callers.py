"""A run that asks its caller, over HTTP and on the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.integration.cli.conftest import Shell
from tests.integration.core.test_callers import TOOLS
from tests.integration.doors.edge import Edge, edge, served
from tests.support import assert_eventually


async def run(e: Edge, tool: str, who: Any = None, /, **arguments: Any) -> dict[str, Any]:
    reply = await (who or e.owner).post("/api/run-tool", json={"tool_name": tool, "arguments": arguments})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()["data"]
    return found


async def resume(e: Edge, run_id: str, body: Any, who: Any = None) -> Any:
    return await (who or e.owner).post(f"/api/tool-runs/{run_id}/resume", json=body)


async def test_asked_shown_and_resumed(database_url: str) -> None:
    async with edge(database_url, *TOOLS, worker=True) as e:
        told = await run(e, "parent", given={"word": "size"})
        assert told["kind"] == "asks"
        [one] = told["result"]["asks"]
        run_id = told["result"]["run_id"]
        assert one["payload"] == {"need": "size"}
        assert one["run_id"] != run_id, "the inner run asks, the outer one is the caller's"
        shown = (await e.owner.get(f"/api/tool-runs/{run_id}")).json()["data"]
        assert (shown["status"], shown["asks"]) == ("parked", [one])
        done = await resume(e, run_id, {"answers": {one["interaction_id"]: "L"}})
        assert done.json() == {"data": {"kind": "result", "result": {"child": {"got": "L"}}}}
        assert "asks" not in (await e.owner.get(f"/api/tool-runs/{run_id}")).json()["data"]


async def test_the_inbox_s_doors_do_not_know_it(database_url: str) -> None:
    async with edge(database_url, *TOOLS) as e:
        told = await run(e, "child")
        identifier = told["result"]["asks"][0]["interaction_id"]
        assert (await e.owner.get("/api/interactions")).json()["data"]["items"] == []
        assert (await e.owner.get("/api/interactions/pending")).json()["data"]["items"] == []
        assert (await e.owner.get(f"/api/interactions/{identifier}")).status_code == 404
        answered = await e.owner.post(f"/api/interactions/{identifier}/answer", json={"answer": 1})
        assert (answered.status_code, answered.json()["code"]) == (409, "caller-ask")
        async with await e.client("bea", "read", "write") as bea:
            assert (await bea.post(f"/api/interactions/{identifier}/cancel", json={})).status_code == 403
        assert await e.state(identifier) == "pending"
        cancelled = await e.owner.post(f"/api/interactions/{identifier}/cancel", json={})
        assert cancelled.status_code == 200
        gone = await resume(e, told["result"]["run_id"], {"answers": {identifier: 1}})
        assert (gone.status_code, gone.json()["code"]) == (410, "parked-entry-gone")


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 400, "answers"),
        ({"answers": {}}, 400, "answers"),
        ({"answers": [1]}, 400, "answers"),
        ({"answers": {"x": 1}}, 400, "answers"),
        ({"answers": {str(uuid4()): 1}}, 400, None),
        ({"answers": {"ID": 1}, "wait_seconds": -1}, 400, "wait_seconds"),
        ({"answers": {"ID": 1}, "wait_seconds": True}, 400, "wait_seconds"),
        ({"answers": {"ID": None}}, 400, None),
        ({"answers": {"ID": 1}, "more": 1}, 400, "more"),
    ],
)
async def test_a_visit_that_cannot_be_changes_nothing(
    database_url: str, body: dict[str, Any], status: int, field: str | None
) -> None:
    async with edge(database_url, *TOOLS) as e:
        told = await run(e, "child")
        identifier = told["result"]["asks"][0]["interaction_id"]
        given = json.loads(json.dumps(body).replace('"ID"', f'"{identifier}"'))
        refused = await resume(e, told["result"]["run_id"], given)
        assert refused.status_code == status, refused.text
        if field is not None:
            assert refused.json()["field"] == field
        assert await e.state(identifier) == "pending"


async def test_only_who_called_may_come_back(database_url: str) -> None:
    async with edge(database_url, *TOOLS, worker=True) as e:
        reader, bea = await e.client("reader", "read"), await e.client("bea", "read", "write")
        owned = await e.client("owned", "read", "write", owner="owner")
        async with reader, bea, owned:
            told = await run(e, "child", bea)
            run_id = told["result"]["run_id"]
            body = {"answers": {told["result"]["asks"][0]["interaction_id"]: 1}}
            for who, status in ((reader, 403), (e.owner, 403), (owned, 403), (e.anonymous(), 401)):
                assert (await resume(e, run_id, body, who)).status_code == status
            assert (await resume(e, str(uuid4()), body, bea)).status_code == 404
            assert (await resume(e, run_id, body, bea)).json()["data"]["result"] == {"got": 1}


async def test_a_failure_on_the_way_on_is_told(database_url: str) -> None:
    async with edge(database_url, *TOOLS, worker=True) as e:
        told = await run(e, "child", fail="meant")
        body = {"answers": {told["result"]["asks"][0]["interaction_id"]: 1}}
        failed = await resume(e, told["result"]["run_id"], body)
        assert (failed.status_code, failed.json()) == (
            409,
            {"error": "the child gave up", "code": "parkable-run-failed"},
        )


async def test_a_visitor_that_leaves_has_answered_all_the_same(database_url: str) -> None:
    async with served(database_url, *TOOLS) as e:
        told = await run(e, "child")
        identifier = told["result"]["asks"][0]["interaction_id"]
        body = {"answers": {identifier: 1}, "wait_seconds": 100}
        visit = asyncio.create_task(resume(e, told["result"]["run_id"], body))

        async def answered() -> bool:
            return await e.state(identifier) == "answered"

        await assert_eventually(answered, "it was not answered")
        visit.cancel()
        await asyncio.gather(visit, return_exceptions=True)
        still = await resume(e, told["result"]["run_id"], {"answers": {identifier: 1}, "wait_seconds": 0})
        assert still.json()["data"] == {
            "kind": "parked",
            "result": {"run_id": told["result"]["run_id"], "status": "parked"},
        }


async def test_on_the_command_line(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with served(database_url, *TOOLS, worker=True) as e:
        monkeypatch.setenv("REJOINDER_SERVER", e.base)
        monkeypatch.setenv("REJOINDER_API_KEY", e.owner.headers["authorization"].split()[1])
        monkeypatch.setenv("REJOINDER_DATA", str(tmp_path / "nothing here"))
        shell = Shell(monkeypatch)
        ran = await shell("tools", "run", "child", "--arg", "word=\x1b[31mred")
        assert "asks you, its caller" in ran.out
        assert "\x1b" not in ran.out
        run_id = ran.out.split("tools resume ")[1].split()[0]
        assert "red" in (await shell("tools", "resume", run_id)).out
        assert [a["payload"] for a in (await shell("tools", "resume", run_id, "--json")).json["asks"]]
        wrong = await shell("tools", "resume", run_id, "--answer", "{")
        assert (wrong.code, "--answer" in wrong.err) == (2, True)
        done = await shell("tools", "resume", run_id, "--answer", '{"hex": "f00"}')
        assert (done.code, "f00" in done.out) == (0, True)
        assert (await shell("tools", "resume", run_id, "--answer", "1")).code == 2
        assert "nothing now" in (await shell("tools", "resume", run_id)).err
