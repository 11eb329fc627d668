"""Runs in the background, over HTTP."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from rejoinder.contract.errors import RunTerminalFailed
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from tests.integration.doors.edge import Edge, edge
from tests.support import assert_eventually


@tool(title="Greeter", read_only=True)
async def greet(name: str) -> str:
    """Say hello."""
    return f"hello {name}"


@tool
async def fail() -> None:
    """Ends as failed."""
    raise RunTerminalFailed("There was nothing to greet.")


@tool
async def slow() -> str:
    """Asks first."""
    return (await ask("Now?")).answer


async def start(e: Edge, name: str, arguments: dict[str, object] | None = None) -> str:
    reply = await e.owner.post("/api/tool-runs", json={"tool_name": name, "arguments": arguments or {}})
    assert reply.status_code == 202
    identifier: str = reply.json()["data"]["run_id"]
    assert reply.headers["location"] == f"/api/tool-runs/{identifier}"
    return identifier


async def test_started_waited_for_and_shown(database_url: str) -> None:
    async with edge(database_url, greet, fail, worker=True) as e:
        good, bad = await start(e, "greet", {"name": "Ada"}), await start(e, "fail")
        ended = (await e.owner.get(f"/api/tool-runs/{good}/wait", params={"seconds": 30})).json()["data"]
        assert (ended["status"], ended["result"], ended["arguments"]) == (
            "succeeded",
            "hello Ada",
            {"name": "Ada"},
        )
        failed = (await e.owner.get(f"/api/tool-runs/{bad}/wait", params={"seconds": 30})).json()["data"]
        assert failed["status"] == "failed"
        assert failed["error"]["error"] == "There was nothing to greet."
        assert (await e.owner.get(f"/api/tool-runs/{good}")).json()["data"] == ended
        listed = (await e.owner.get("/api/tool-runs", params={"tool_name": "greet"})).json()["data"]["items"]
        assert [one["run_id"] for one in listed] == [good]
        assert "result" not in listed[0]
        for parameters, count in (
            ({"status": "failed"}, 1),
            ({"status": "lost"}, 0),
            ({"limit": "1"}, 1),
            ({}, 2),
        ):
            found = (await e.owner.get("/api/tool-runs", params=parameters)).json()["data"]["items"]
            assert len(found) == count


async def test_waiting_ends_with_its_time_and_with_the_run(database_url: str) -> None:
    async with edge(database_url, slow, worker=True) as e:
        identifier = await start(e, "slow")

        async def asked() -> set[str]:
            return await e.open_ids()

        (question,) = await assert_eventually(asked, "nothing was asked")
        now = (await e.owner.get(f"/api/tool-runs/{identifier}/wait", params={"seconds": 0})).json()["data"]
        assert now["status"] == "running"
        waiting = asyncio.create_task(e.owner.get(f"/api/tool-runs/{identifier}/wait?seconds=60"))
        await e.owner.post(f"/api/interactions/{question}/answer", json={"answer": "now"})
        assert (await waiting).json()["data"]["result"] == "now"


async def test_what_is_not_held_is_neither_retried_nor_discarded(database_url: str) -> None:
    async with edge(database_url, greet) as e:
        identifier = await start(e, "greet", {"name": "Ada"})
        assert (await e.owner.post(f"/api/tool-runs/{identifier}/retry")).status_code == 409
        assert (await e.owner.delete(f"/api/tool-runs/{identifier}")).status_code == 409
        for unknown in (uuid4(), "x", "%00"):
            assert (await e.owner.get(f"/api/tool-runs/{unknown}")).status_code == 404
            assert (await e.owner.get(f"/api/tool-runs/{unknown}/wait")).status_code == 404
            assert (await e.owner.post(f"/api/tool-runs/{unknown}/retry")).status_code == 404
            assert (await e.owner.delete(f"/api/tool-runs/{unknown}")).status_code == 404


async def test_a_held_run_is_retried_or_discarded(database_url: str) -> None:
    async with edge(database_url, greet, worker=True) as e:
        identifier = await start(e, "greet", {"name": "Ada"})
        await e.owner.get(f"/api/tool-runs/{identifier}/wait", params={"seconds": 30})
        hold = "UPDATE rejoinder.run SET held = true, state = 'failed'"
        await e.node.database.execute(hold)
        held = (await e.owner.get("/api/tool-runs", params={"held": "true"})).json()["data"]["items"]
        assert [one["run_id"] for one in held] == [identifier]
        again = await e.owner.post(f"/api/tool-runs/{identifier}/retry")
        assert again.json()["data"] == {"run_id": identifier, "status": "queued"}
        ended = await e.owner.get(f"/api/tool-runs/{identifier}/wait", params={"seconds": 30})
        assert ended.json()["data"]["status"] == "succeeded"
        await e.node.database.execute(hold)
        gone = await e.owner.delete(f"/api/tool-runs/{identifier}")
        assert gone.json()["data"]["status"] == "discarded"
        assert (await e.owner.get("/api/tool-runs?held=true")).json()["data"]["items"] == []


async def test_restricted_keys_see_their_own_runs_only(database_url: str) -> None:
    async with edge(database_url, greet) as e:
        sue = await e.client("sue", "read", "write", owner="owner")
        theirs = await start(e, "greet", {"name": "Ada"})
        mine = (
            await sue.post("/api/tool-runs", json={"tool_name": "greet", "arguments": {"name": "Sue"}})
        ).json()["data"]["run_id"]
        assert [one["run_id"] for one in (await sue.get("/api/tool-runs")).json()["data"]["items"]] == [mine]
        assert (await sue.get(f"/api/tool-runs/{theirs}")).status_code == 403
        assert (await sue.get(f"/api/tool-runs/{mine}")).status_code == 200


@pytest.mark.parametrize(
    ("path", "parameters", "field"),
    [
        ("", {"status": "asleep"}, "status"),
        ("", {"held": "perhaps"}, "held"),
        ("", {"limit": "0"}, "limit"),
        ("", {"tool_name": "\x00"}, "tool_name"),
        ("/wait", {"seconds": "-1"}, "seconds"),
        ("/wait", {"seconds": "nan"}, "seconds"),
        ("/wait", {"seconds": "x"}, "seconds"),
    ],
)
async def test_a_bad_parameter_is_named(
    database_url: str, path: str, parameters: dict[str, str], field: str
) -> None:
    async with edge(database_url) as e:
        prefix = f"/{uuid4()}{path}" if path else ""
        refused = await e.owner.get(f"/api/tool-runs{prefix}", params=parameters)
        assert (refused.status_code, refused.json()["field"]) == (400, field)


async def test_the_exposed_tools(database_url: str) -> None:
    async with edge(database_url, greet) as e:
        tools = {one["name"]: one for one in (await e.owner.get("/api/tools")).json()["data"]["items"]}
        assert set(tools) == {"ask", "list_parked", "resume_parked", "cancel_parked", "greet"}
        assert tools["greet"]["title"] == "Greeter"
        assert tools["greet"]["description"] == "Say hello."
        assert tools["greet"]["input_schema"]["properties"]["name"]["type"] == "string"
        assert tools["greet"]["read_only"] is True
