"""A tool that holds more rights than its callers is run by nobody who could choose what it is run with."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from rejoinder import call_tool, tool
from rejoinder.contract.errors import ConfigurationError, ToolInternalError
from rejoinder.contract.identity import LOCAL_OWNER, Identity
from rejoinder.runs.internal import Doorkeeper, may_run
from rejoinder.runs.manifest import Registry, load_manifest
from rejoinder.runs.tools import Tool
from rejoinder.store import signals as s
from tests.integration.agents.conftest import model as model
from tests.integration.agents.support import agent
from tests.integration.core.support import run_reaches
from tests.integration.doors.edge import Edge, edge
from tests.integration.mcp.serving import MODERN, connected, serving
from tests.integration.mcp.test_calls import text_of
from tests.integration.nodes import ANN, running
from tests.live.rig.model import Model, prompt, say
from tests.live.rig.model import tool as scripted

ADMIN = Identity(name="ada", grants=frozenset(("read", "write", "admin")))
#: Every grant, but only for what is addressed to it.
OWNED = Identity(name="bot", grants=frozenset(("read", "write", "admin")), restricted=True)


class Deputy:
    """Two internal tools, and what they were called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

        @tool(internal=True, idempotent=True)
        async def confirm_action(event: dict[str, Any] | None = None) -> str:
            self.calls.append(event)
            return "confirmed"

        @tool(internal=True, admin_may_run=True, idempotent=True)
        async def reconcile() -> str:
            self.calls.append("reconcile")
            return "reconciled"

        @tool
        async def go_between(name: str) -> Any:
            return await call_tool(name, {})

        self.confirm_action, self.reconcile, self.go_between = confirm_action, reconcile, go_between

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self.confirm_action, self.reconcile, self.go_between


@pytest.fixture
def deputy() -> Deputy:
    return Deputy()


def crafted(name: str = "confirm_action") -> dict[str, Any]:
    arguments = {"event": {"type": "confirmation.completed"}} if name == "confirm_action" else {}
    return {"tool_name": name, "arguments": arguments}


async def refusals(e: Edge) -> list[tuple[str, str, str]]:
    rows = await e.node.database.rows(
        "SELECT actor, via, detail ->> 'tool' AS tool FROM rejoinder.event WHERE kind = 'access.refused' ORDER BY seq"
    )
    return [(row["actor"], row["via"], row["tool"]) for row in rows]


async def recorded(e: Edge) -> int:
    return int(await e.node.database.value("SELECT count(*) FROM rejoinder.run"))


# By name, through the doors


@pytest.mark.parametrize("path", ["/api/run-tool", "/api/tool-runs"])
@pytest.mark.parametrize("grants", [("read", "write"), ("read", "write", "admin")])
async def test_no_caller_gives_an_internal_tool_an_event(
    database_url: str, deputy: Deputy, path: str, grants: tuple[str, ...]
) -> None:
    async with edge(database_url, *deputy.tools) as e, await e.client("mallory", *grants) as mallory:
        reply = await mallory.post(path, json=crafted())
        assert (reply.status_code, reply.json()["code"]) == (403, "tool-internal")
        assert await refusals(e) == [("mallory", path.removeprefix("/api/"), "confirm_action")]
        assert (await recorded(e), deputy.calls) == (0, [])


async def test_arguments_are_not_looked_at_where_the_tool_may_not_be_run(
    database_url: str, deputy: Deputy
) -> None:
    """Else its refusals would describe it."""
    async with edge(database_url, *deputy.tools) as e, await e.client("mallory", "write") as mallory:
        wrong = {"tool_name": "confirm_action", "arguments": {"no_such": 1}}
        for path in ("/api/run-tool", "/api/tool-runs"):
            assert (await mallory.post(path, json=wrong)).json()["code"] == "tool-internal"


@pytest.mark.parametrize("path", ["/api/run-tool", "/api/tool-runs"])
async def test_only_an_admin_runs_what_an_admin_may_run(database_url: str, deputy: Deputy, path: str) -> None:
    async with edge(database_url, *deputy.tools, worker=True) as e, await e.client("w", "write") as writer:
        assert (await writer.post(path, json=crafted("reconcile"))).status_code == 403
        assert deputy.calls == []
        reply = await e.owner.post(path, json=crafted("reconcile"))
        assert reply.status_code in (200, 202)
        if path == "/api/tool-runs":
            await run_reaches(e.node, UUID(reply.json()["data"]["run_id"]), "succeeded")
        assert deputy.calls == ["reconcile"]


async def test_only_an_admin_is_shown_that_it_is_there(database_url: str, deputy: Deputy) -> None:
    async with edge(database_url, *deputy.tools) as e, await e.client("r", "read", "write") as reader:
        shown = {
            one["name"]: one["internal"] for one in (await e.owner.get("/api/tools")).json()["data"]["items"]
        }
        assert (shown["confirm_action"], shown["reconcile"], shown["go_between"]) == (True, True, False)
        names = {one["name"] for one in (await reader.get("/api/tools")).json()["data"]["items"]}
        assert "go_between" in names
        assert not names & {"confirm_action", "reconcile"}


async def test_no_mcp_client_sees_or_calls_it(database_url: str, deputy: Deputy) -> None:
    async with serving(database_url, *deputy.tools) as served, connected(served, MODERN) as client:
        names = {one.name for one in (await client.list_tools()).tools}
        assert not names & {"confirm_action", "reconcile"}
        for name in ("confirm_action", "reconcile"):
            called = await client.call_tool(name, {})
            assert called.is_error
            assert "internal" in text_of(called)
        assert deputy.calls == []
        assert await served.node.database.value("SELECT count(*) FROM rejoinder.run") == 0


# By way of another tool, or of an agent


@pytest.mark.parametrize("name", ["confirm_action", "reconcile"])
async def test_no_tool_calls_it_for_somebody(database_url: str, deputy: Deputy, name: str) -> None:
    async with edge(database_url, *deputy.tools) as e:
        call = {"tool_name": "go_between", "arguments": {"name": name}}
        reply = await e.owner.post("/api/run-tool", json=call)
        assert (reply.status_code, reply.json()["code"]) == (403, "tool-internal")
        assert deputy.calls == []


MODULE = """
from rejoinder import tool

@tool(internal=True)
async def confirm_action() -> str:
    return "confirmed"

@tool(internal=True)
async def request(callback_url: str) -> str:
    return callback_url

@tool
async def theirs(callback_url: str) -> str:
    return callback_url
"""


def manifest(folder: Path, text: str) -> Registry:
    (folder / "deputies.py").write_text(MODULE)
    (folder / "manifest.yaml").write_text(text)
    return load_manifest(folder / "manifest.yaml")


@pytest.mark.parametrize(
    "agent",
    [
        "{name: a, model: m, tools: [confirm_action]}",
        "{name: a, model: m, subagents: [{name: b, description: c, instructions: d, tools: [confirm_action]}]}",
    ],
)
def test_no_agent_is_given_it(tmp_path: Path, agent: str) -> None:
    with pytest.raises(ConfigurationError, match="confirm_action is internal, and no agent may be given it"):
        manifest(tmp_path, f"tools: [{{module: ./deputies.py}}]\nagents: [{agent}]")


def test_no_agent_is_given_what_is_only_run_pinned(tmp_path: Path) -> None:
    entry = "tools: [{module: ./deputies.py, include: [theirs], only_pinned: [theirs]}]\n"
    with pytest.raises(ConfigurationError, match="theirs is internal, and no agent may be given it"):
        manifest(tmp_path, entry + "agents: [{name: a, model: m, tools: [theirs]}]")
    with pytest.raises(ConfigurationError, match=r"tools\[0\]\.only_pinned: nobody is none of its tools"):
        manifest(tmp_path, entry.replace("only_pinned: [theirs]", "only_pinned: [nobody]"))


async def test_a_graph_that_came_by_it_does_not_run_it(
    database_url: str, model: Model, deputy: Deputy
) -> None:
    said = prompt(say(tools=[scripted("confirm_action", event={})]), say("It would not."))
    async with running(database_url, agent(deputy.confirm_action)) as node:
        done = await node.run_service.call("helper", {"message": said}, by=ADMIN, door="test")
    assert (done.result, deputy.calls) == ("It would not.", [])


ATTACHED = """
extensions_modules: [rejoinder.tools.ask_external]
tools:
  - module: ./deputies.py
    include: []
    extensions:
      request: [[ask_external]]
      theirs: [[ask_external]]
"""


def test_what_wraps_an_internal_tool_is_internal(tmp_path: Path) -> None:
    registry = manifest(tmp_path, ATTACHED)
    assert registry.get("request_ask_external").internal
    assert not registry.get("theirs_ask_external").internal


@pytest.mark.parametrize(
    ("marks", "internal"),
    [
        ("internal: [theirs]", {"theirs", "theirs_ask_external"}),
        ("internal: [theirs_ask_external]", {"theirs_ask_external"}),
        ("internal: true", {"theirs", "theirs_ask_external"}),
        ("internal: [theirs]\n    requires_approval: [theirs]", {"theirs", "theirs_ask_external"}),
        ("requires_approval: true", set()),
    ],
)
def test_an_operator_marks_what_is_not_theirs_to_mark(tmp_path: Path, marks: str, internal: set[str]) -> None:
    registry = manifest(tmp_path, ATTACHED.replace("include: []", f"include: [theirs]\n    {marks}"))
    found = {one.tool.name for one in registry if one.tool.internal and one.tool.name.startswith("theirs")}
    assert found == internal


def test_the_mark_holds_for_what_is_made_of_a_tool_that_stays_hidden(tmp_path: Path) -> None:
    registry = manifest(tmp_path, ATTACHED.replace("include: []", "include: []\n    internal: [theirs]"))
    assert registry.get("theirs_ask_external").internal
    assert "theirs" not in registry


@pytest.mark.parametrize(
    ("marks", "pinned"),
    [
        ("only_pinned: [theirs]", {"theirs", "theirs_ask_external"}),
        ("only_pinned: [theirs_ask_external]", {"theirs_ask_external"}),
        ("only_pinned: [theirs_ask_external]\n    internal: [theirs]", None),
        ("only_pinned: [theirs]\n    internal: [theirs]", None),
        ("only_pinned: [theirs]\n    internal: [theirs_ask_external]", {"theirs"}),
        ("only_pinned: [theirs]\n    internal: true", None),
        ("only_pinned: true\n    internal: [theirs]", None),
        ("only_pinned: [request_ask_external]", None),
        ("only_pinned: [request]", None),
        ("only_pinned: true", None),
    ],
)
def test_what_is_only_run_pinned_is_so_under_every_name_and_frees_nothing_internal(
    tmp_path: Path, marks: str, pinned: set[str] | None
) -> None:
    """``request`` is internal by its author's own word. A preset may be called by everybody."""
    text = ATTACHED.replace("include: []", f"include: [theirs]\n    {marks}")
    if pinned is None:
        with pytest.raises(ConfigurationError, match=r"only_pinned: \w+ is internal, and no preset may be"):
            manifest(tmp_path, text)
        return
    registry = manifest(tmp_path, text)
    assert {one.tool.name for one in registry if one.tool.only_pinned} == pinned
    assert all(registry.get(name).internal for name in pinned)


@pytest.mark.parametrize("marks", ["internal: [nobody]", "internal: 1", "internal: [[theirs]]"])
def test_a_mark_that_marks_nothing_stops_the_start(tmp_path: Path, marks: str) -> None:
    with pytest.raises(ConfigurationError, match=r"tools\[0\]\.internal"):
        manifest(tmp_path, ATTACHED.replace("include: []", f"include: [theirs]\n    {marks}"))


def test_a_mark_that_frees_nothing_stops_the_start() -> None:
    with pytest.raises(ConfigurationError, match="admin_may_run is for internal tools"):

        @tool(admin_may_run=True)
        async def free() -> None: ...


# How things stand when it runs


@pytest.mark.parametrize(
    ("door", "by", "vouched", "may"),
    [
        ("hooks", ANN, True, (True, True)),
        ("hooks", ADMIN, False, (False, False)),
        ("run-tool", ADMIN, False, (False, True)),
        ("tool-runs", ADMIN, False, (False, True)),
        ("schedules", ADMIN, False, (False, True)),
        ("schedules", LOCAL_OWNER, False, (False, True)),
        ("schedules", ANN, False, (False, False)),
        ("schedules", OWNED, False, (False, False)),
        ("run-tool", ADMIN, True, (False, True)),
        ("mcp", ADMIN, True, (False, False)),
        ("agents", ADMIN, True, (False, False)),
        ("nested", ADMIN, True, (False, False)),
        ("a door that nobody has thought of yet", ADMIN, True, (False, False)),
    ],
)
def test_which_doors_lead_to_internal_tools(
    deputy: Deputy, door: str, by: Identity, vouched: bool, may: tuple[bool, bool]
) -> None:
    both = (deputy.confirm_action, deputy.reconcile)
    assert tuple(may_run(one, door, by, vouched=vouched) for one in both) == may
    assert may_run(deputy.go_between, door, by)
    assert not may_run(deputy.go_between.made_only_pinned(), door, by, vouched=vouched)


async def test_a_run_that_waits_for_a_worker_is_looked_at_again(database_url: str, deputy: Deputy) -> None:
    """It was let in before the manifest marked its tool, or while its key still was an admin's."""
    async with edge(database_url, *deputy.tools, worker=True) as e:
        key, _ = await e.node.access.create_key(
            name="ada", grants=["read", "write", "admin"], owner=None, by=LOCAL_OWNER
        )
        for door in ("tool-runs", "schedules", "hooks"):
            run_id = uuid4()
            await e.node.runs.start(
                run_id,
                tool="confirm_action",
                arguments={"event": {}},
                door=door,
                identity=key.identity,
                key_id=key.id,
                idempotent=True,
                trace=None,
            )
            e.node.signals.tell(s.STARTS)
            await run_reaches(e.node, run_id, "failed")
            run = await e.node.runs.by_id(run_id)
            assert run is not None
            assert run.error is not None
            assert run.error["code"] == "tool-internal"
        assert deputy.calls == []


async def test_who_vouches_is_asked_about_the_run_itself(deputy: Deputy) -> None:
    asked: list[UUID] = []

    async def vouches(run_id: UUID) -> bool:
        asked.append(run_id)
        return len(asked) == 1

    keeper, run_id = Doorkeeper(None, vouches), uuid4()
    await keeper.admit(deputy.confirm_action, door="hooks", by=ANN, run_id=run_id)
    with pytest.raises(ToolInternalError):
        await keeper.admit(deputy.confirm_action, door="hooks", by=ANN, run_id=run_id)
    with pytest.raises(ToolInternalError):
        await keeper.admit(deputy.confirm_action, door="hooks", by=ANN)
    await keeper.admit(deputy.go_between, door="hooks", by=ANN, run_id=run_id)
    assert asked == [run_id, run_id]
