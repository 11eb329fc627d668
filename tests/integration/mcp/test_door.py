"""Who may come in, what they see, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from rejoinder.contract.identity import LOCAL_OWNER
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from tests.integration.mcp.serving import MODERN, Served, connected, serving
from tests.integration.mcp.test_calls import both, pending_of, text_of
from tests.integration.nodes import ANN
from tests.support import client as http_client

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@tool(title="Add numbers", read_only=True, idempotent=True)
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(destructive=True)
def wipe(place: str) -> None:
    """Wipe a place."""


@tool
def breaks() -> None:
    raise RuntimeError("password=hunter2")


@tool
async def mine() -> str:
    return (await ask("Mine?", audience=None)).answer


async def post(
    served: Served, body: Any = LIST, *, key: str | None = None, **headers: str
) -> httpx2.Response:
    async with http_client(served.url, key) as http:
        return await http.post("/mcp", json=body, headers=HEADERS | headers)


@both
async def test_the_list_describes_what_is_exposed_and_nothing_else(database_url: str, mode: str) -> None:
    async with serving(database_url, add, wipe) as served, connected(served, mode) as client:
        tools = {one.name: one for one in (await client.list_tools()).tools}
    assert set(tools) == {
        "ask", "list_parked", "resume_parked", "cancel_parked", "add", "wipe", "check_run",
    }  # fmt: skip
    assert tools["add"].title == "Add numbers"
    assert tools["add"].description == "Add two numbers."
    assert tools["add"].input_schema["required"] == ["a"]
    assert tools["add"].input_schema["additionalProperties"] is False
    hints = tools["add"].annotations
    assert hints is not None
    assert (hints.read_only_hint, hints.idempotent_hint, hints.destructive_hint) == (True, True, None)
    hints = tools["wipe"].annotations
    assert hints is not None
    assert (hints.read_only_hint, hints.destructive_hint) == (False, True)
    assert tools["add"].output_schema is None
    assert tools["ask"].output_schema is not None
    for one in tools.values():
        assert one.input_schema["type"] == "object"


@both
async def test_results_are_structured_and_text(database_url: str, mode: str) -> None:
    async with serving(database_url, add, wipe, breaks) as served, connected(served, mode) as client:
        three = await client.call_tool("add", {"a": 1, "b": 2})
        assert (three.structured_content, text_of(three), three.is_error) == ({"result": 3}, "3", False)
        nothing = await client.call_tool("wipe", {"place": "here"})
        assert (nothing.structured_content, nothing.is_error) == ({"result": None}, False)
        broken = await client.call_tool("breaks", {})
        assert broken.is_error
        assert broken.structured_content["code"] == "tool-failed"
        assert "hunter2" not in broken.model_dump_json()


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("add", {}, "a"),
    ("add", {"a": "one"}, "a"),
    ("add", {"a": 1, "c": 2}, "c"),
    ("add", {"a": 1, "b": None}, "b"),
    ("wipe", {"place": "a\x00b"}, "arguments"),
    ("ask", {"question": ""}, "question"),
    ("ask", {"question": "?", "answer_format": "select"}, "options"),
    ("ask", {"question": "?", "mode": "async"}, "expiry_at"),
    ("check_run", {}, "run_id"),
    ("check_run", {"run_id": "x"}, "run_id"),
    ("check_run", {"run_id": 5}, "run_id"),
    ("check_run", {"run_id": "00000000-0000-0000-0000-000000000000", "wait_seconds": -1}, "wait_seconds"),
    (
        "check_run",
        {"run_id": "00000000-0000-0000-0000-000000000000", "wait_seconds": True},
        "wait_seconds",
    ),
    ("check_run", {"run": "x"}, "arguments"),
]


@both
async def test_bad_arguments_are_named(database_url: str, mode: str) -> None:
    async with serving(database_url, add, wipe) as served, connected(served, mode) as client:
        for name, arguments, field in BAD:
            refused = await client.call_tool(name, arguments)
            assert refused.is_error, (name, arguments)
            assert refused.structured_content["field"] == field, (name, arguments)
            assert text_of(refused) == refused.structured_content["error"]
        assert await served.node.asks.count(by=ANN, cap=10) == 0


async def test_no_arguments_make_a_server_error(database_url: str) -> None:
    """Whatever JSON a client sends as arguments, it gets a result or a refusal with a code."""
    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    )
    tried: list[dict[str, Any]] = []

    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(
        st.dictionaries(st.sampled_from(["a", "b", "run_id", "wait_seconds", "é"]), json_values, max_size=4)
    )
    def collect(arguments: dict[str, Any]) -> None:
        tried.append(arguments)

    collect()
    async with serving(database_url, add) as served, connected(served, MODERN) as client:
        for arguments in tried:
            for name in ("add", "check_run"):
                result = await client.call_tool(name, arguments)
                if result.is_error:
                    assert result.structured_content["code"] in ("bad-argument", "bad-input", "run-not-found")


@both
async def test_a_tool_that_is_not_exposed_is_not_called(database_url: str, mode: str) -> None:
    called = []

    @tool(name="hidden")
    def hidden() -> None:
        called.append(1)

    assert hidden.name == "hidden"
    async with serving(database_url, add) as served, connected(served, mode) as client:
        for name in ("hidden", "", "Add", "__init__", "tools/list"):
            with pytest.raises(MCPError, match="No tool of this name is exposed"):
                await client.call_tool(name, {})
    assert called == []


NO_KEYS = [None, "", "Bearer", "Bearer rjk_wrong", "Basic b3duZXI6", "bearer rjs_x", "Bearer é", "x" * 9000]


async def test_without_a_valid_key_nothing_is_told(database_url: str) -> None:
    async with serving(database_url, add) as served, http_client(served.url) as http:
        for authorization, version in product(NO_KEYS, [None, MODERN, "2025-11-25", "nonsense"]):
            headers: dict[str, Any] = dict(HEADERS)
            if authorization is not None:
                headers["authorization"] = authorization.encode("latin-1")
            if version is not None:
                headers["mcp-protocol-version"] = version
            # A browser's session is no way in: any page could use it.
            headers["cookie"] = "rejoinder=rjc_x"
            refused = await http.post("/mcp", json=LIST, headers=headers)
            assert refused.status_code == 401, (authorization, version)
            assert refused.json() == {"error": "Authentication required", "code": "unauthenticated"}
            assert refused.headers["www-authenticate"].startswith("Bearer")


async def test_a_revoked_key_is_out_at_once(database_url: str) -> None:
    async with serving(database_url, add) as served:
        key = await served.new_key("short", "read", "write")
        assert (await post(served, key=key)).status_code == 200
        await served.node.access.revoke_key("short", by=LOCAL_OWNER)
        assert (await post(served, key=key)).status_code == 401


@both
async def test_grants_are_needed(database_url: str, mode: str) -> None:
    async with serving(database_url, add) as served:
        reader = await served.new_key("reader", "read")
        writer = await served.new_key("writer", "write")
        async with connected(served, mode, reader) as client:
            assert len((await client.list_tools()).tools) > 1
            called = await client.call_tool("add", {"a": 1})
            assert called.is_error
            assert called.structured_content["code"] == "forbidden"
        async with connected(served, mode, writer) as client:
            with pytest.raises(MCPError, match="read grant"):
                await client.list_tools()
        refused = await served.node.database.rows(
            "SELECT actor, via, reason FROM rejoinder.event WHERE kind = 'access.refused' ORDER BY seq"
        )
        assert [tuple(row) for row in refused] == [
            ("reader", "mcp", "no write grant"),
            ("writer", "mcp", "no read grant"),
        ]


@both
async def test_a_restricted_key_asks_itself_and_sees_its_own_runs(database_url: str, mode: str) -> None:
    async with serving(database_url, mine, rejoinder_mcp_hold_seconds=0.2) as served:
        await served.new_key("boss", "read", "write")
        restricted = await served.new_key("helper", "read", "write", owner="boss")
        async with connected(served, mode) as client:
            foreign = pending_of(await client.call_tool("mine", {}))["run_id"]
        async with connected(served, mode, restricted) as client:
            own = pending_of(await client.call_tool("mine", {}))
            assert own["run_id"] != foreign
            question = await served.node.questions.by_id((await served.questions(2))[1].id)
            assert question is not None
            assert question.audience == "helper"
            seen = await client.call_tool("check_run", {"run_id": foreign})
            assert seen.is_error
            assert seen.structured_content["code"] == "forbidden"
            refused = await client.call_tool("ask", {"question": "?", "audience": "boss"})
            assert refused.structured_content["code"] == "cross-identity-audience"
            still = await client.call_tool("check_run", {"run_id": own["run_id"], "wait_seconds": 0})
            assert pending_of(still)["run_id"] == own["run_id"]


async def test_only_post_is_served(database_url: str) -> None:
    async with serving(database_url) as served, http_client(served.url, served.key) as http:
        for method in ("GET", "HEAD", "DELETE", "PUT", "PATCH", "OPTIONS"):
            refused = await http.request(method, "/mcp", headers=HEADERS)
            assert refused.status_code == 405, method
            assert refused.headers["allow"] == "POST"


#: Headers, and the status with a key and with the gate off.
ORIGINS: list[tuple[dict[str, str], int, int]] = [
    ({}, 200, 200),
    ({"host": "inbox.example"}, 200, 200),
    ({"host": "evil.example"}, 421, 421),
    ({"host": "127.0.0.1.evil.example:80"}, 421, 421),
    ({"host": ""}, 421, 421),
    ({"host": "[:"}, 421, 421),
    ({"host": "inbox.example", "origin": "http://inbox.example"}, 200, 200),
    ({"origin": "http://localhost:3000"}, 200, 403),
    ({"origin": "https://inbox.example"}, 200, 403),
    ({"origin": "https://evil.example"}, 403, 403),
    ({"origin": "null"}, 403, 403),
    ({"origin": "https://[:"}, 403, 403),
    ({"origin": "https://localhost.evil.example"}, 403, 403),
    ({"sec-fetch-site": "cross-site"}, 200, 403),
    ({"host": "evil.example", "origin": "https://evil.example"}, 421, 421),
]


async def test_pages_of_other_sites_do_not_get_in(database_url: str) -> None:
    async with (
        serving(database_url, rejoinder_allowed_hosts="inbox.example") as one,
        serving(
            database_url, key="", access_control_enable=False, rejoinder_allowed_hosts="inbox.example"
        ) as two,
    ):
        for headers, with_key, gate_off in ORIGINS:
            assert (await post(one, key=one.key, **headers)).status_code == with_key, headers
            assert (await post(two, **headers)).status_code == gate_off, headers


async def test_junk_is_refused_as_the_client_s_mistake(database_url: str) -> None:
    bodies = [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 50_000,
        b'{"jsonrpc":"2.0"}',
        b'{"id":1e999}',
        b"1" * 5000,
    ]
    async with serving(database_url) as served, http_client(served.url, served.key) as http:
        for body in bodies:
            for version in ({}, {"mcp-protocol-version": MODERN}):
                refused = await http.post("/mcp", content=body, headers={**HEADERS, **version})
                assert 400 <= refused.status_code < 500, body[:20]
        large = await http.post("/mcp", content=b" " * (5 * 2**20), headers=HEADERS)
        assert large.status_code == 413


async def test_the_protocol_is_loaded_only_when_used() -> None:
    code = "import sys, rejoinder.mcp.server; print('mcp' in sys.modules or 'mcp_types' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


async def test_each_message_of_a_session_stands_alone(database_url: str) -> None:
    """A client of the older generation may reach another server with every message, and carry no session."""
    async with serving(database_url, add) as one, serving(database_url, add, key=one.key) as two:
        hello = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        }
        greeted = await post(one, hello, key=one.key)
        assert greeted.status_code == 200
        session = {"mcp-session-id": greeted.headers["mcp-session-id"]}
        for headers in (session, {}):
            listed = await post(two, key=one.key, **{"mcp-protocol-version": "2025-11-25"}, **headers)
            assert '"add"' in listed.text


@both
async def test_a_fault_of_ours_tells_its_id_and_nothing_else(
    database_url: str, mode: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(database_url, add) as served, connected(served, mode) as client:
        await client.list_tools()
        await served.node.database.execute("ALTER TABLE rejoinder.run RENAME TO moved")
        calls: list[tuple[str, dict[str, Any]]] = [
            ("add", {"a": 1}),
            ("check_run", {"run_id": "00000000-0000-0000-0000-000000000000"}),
        ]
        results = [await client.call_tool(name, arguments) for name, arguments in calls]
        await served.node.database.execute("ALTER TABLE rejoinder.moved RENAME TO run")
    logged = caplog.text + capsys.readouterr().err
    for broken in results:
        assert broken.is_error
        assert set(broken.structured_content) == {"error", "code", "id"}, broken.structured_content
        assert broken.structured_content["code"] == "internal"
        assert "moved" not in broken.model_dump_json()
        assert "rejoinder.run" not in broken.model_dump_json()
        assert broken.structured_content["id"] in logged
