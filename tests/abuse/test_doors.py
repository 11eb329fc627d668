"""Junk at every door: never a 5xx, never a change in the database, never an answer that echoes it."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rejoinder.contract.errors import BadInputError
from rejoinder.doors import bodies
from rejoinder.doors.admission import grant_of
from tests.integration.doors.edge import Edge, edge, served

ID = "00000000-0000-0000-0000-000000000000"
MARK = "zqxj"

BODIES: list[bytes] = [
    b"",
    b"\x00",
    b"\xff\xfe\x00",
    b"null",
    b"[]",
    b"1",
    b'"text"',
    b"{}",
    b"{" * 60_000,
    b"[" * 60_000,
    b'{"answer": ' * 5_000,
    b'{"tool_name": "ask", "arguments": ' + b'{"a":' * 100 + b"1" + b"}" * 100 + b"}",
    b'{"tool_name": {"$ref": "#"}, "arguments": {}}',
    b'{"tool_name": "ask", "arguments": {"question": "\\ud800"}}',
    b'{"tool_name": "ask", "arguments": {"\\ud800": 1}}',
    b'{"tool_name": "ask\\u0000", "arguments": {}}',
    b'{"answer": NaN}',
    b'{"answer": "zqxj", "answer": "zqxj"}',
    b'{"__proto__": {"answer": 1}}',
    b'{"name": "zqxj", "grants": ["zqxj"]}',
    b'{"name": ["zqxj"], "grants": "read"}',
    b"answer=zqxj&tool_name=ask",
    b"--b\r\nContent-Disposition: form-data; name=answer\r\n\r\nzqxj\r\n--b--",
    b'{"answer": "' + b"x" * 70_000 + b'"}',
    b'{"tool_name": "ask", "arguments": {"question": "' + b"x" * 1_400_000 + b'"}}',
]
#: Calls that only the tool itself finds wrong: a background run of them is recorded, and fails.
CALLS: list[bytes] = [
    b'{"tool_name": "ask", "arguments": {"question": "?", "timeout": 1e308}}',
    b'{"tool_name": "ask", "arguments": {"question": "?", "timeout": 1e309}}',
    b'{"tool_name": "ask", "arguments": {"question": "?", "answer_format": "form", "schema": {"$ref": "http://127.0.0.1:1/"}}}',
    b'{"tool_name": "ask", "arguments": {"question": "?", "answer_format": "form", "schema": {"pattern": "^(a+)+$"}}}',
]
TYPES = [
    "application/json",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=b",
    "",
]
IDS = [
    ID,
    MARK,
    "%00",
    "%ff%fe",
    "..%2f..%2fetc%2fpasswd",
    "%7B7*7%7D",
    "1' OR '1'='1",
    "\u202e\u0000",
    "-1",
    "a" * 8_000,
    "9" * 400,
    "%E2%80%8B",
]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]
HEADERS: list[dict[bytes, bytes]] = [
    {b"authorization": b"\xff\x00"},
    {b"authorization": b"Bearer " + b"x" * 60_000},
    {b"cookie": b"rejoinder=" + b"\xff" * 100 + b"; =; ;;; rejoinder"},
    {b"cookie": b'rejoinder=rjc_"\\777'},
    {b"content-length": b"-1"},
    {b"content-length": b"zqxj"},
    {b"content-length": b"9" * 400},
    {b"content-length": b"\xb2"},
    {b"content-type": b"application/json; charset=utf-7"},
    {b"content-encoding": b"gzip"},
    {b"last-event-id": b"\xff"},
    {b"last-event-id": b"9" * 400},
    {b"traceparent": b"00-" + b"z" * 5_000},
    {b"traceparent": b"\xff"},
    {b"origin": b"http://[::1"},
    {b"sec-fetch-site": b"\xff"},
    {b"host": b"\xff\x00"},
    {b"host": b""},
    {b"x-forwarded-for": b"\xff, 1"},
    {b"accept": b"\xff"},
    {b"x-rejoinder-form": b"\xff"},
    {b"expect": b"zqxj"},
]


async def changes(e: Edge) -> dict[str, str]:
    """A sum of every row that a caller's junk must not touch. What is refused may be noted in the trail."""
    names = await e.node.database.rows(
        "SELECT tablename AS t FROM pg_tables WHERE schemaname = 'rejoinder' AND tablename NOT IN ('process', 'event', 'flood')"
    )
    return {
        row["t"]: await e.node.database.value(
            f"SELECT count(*) || ':' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM rejoinder.{row['t']} AS t"
        )
        for row in names
    }


def doors(e: Edge) -> list[str]:
    found = {route.path for route in e.app.routes}  # type: ignore[attr-defined]
    return sorted(path for path in found if not path.endswith("/stream") and path != "/mcp")


def filled(path: str, value: str) -> str:
    return re.sub(r"{\w+}", lambda _name: value, path)


async def send(e: Edge, method: str, path: str, **options: Any) -> None:
    # A URL of the client's own making would refuse much of this before it is sent: give the server the raw path.
    request = e.owner.build_request(method, e.base, **options)
    request.url = request.url.copy_with(raw_path=path.encode("ascii"))
    reply = await e.owner.send(request)
    assert reply.status_code < 500, f"{method} {path[:80]} gave {reply.status_code}: {reply.text[:200]}"
    if (
        path != "/mcp"  # its problems are JSON-RPC's
        and reply.headers.get("content-type") == "application/json"
        and reply.status_code >= 400
        and method != "HEAD"
    ):
        problem = reply.json()
        assert problem["error"], problem
        assert problem["code"], problem
        assert MARK not in problem["error"]
        for inner in ("Traceback", "<class", "Error(", "asyncpg", "pydantic", "/src/"):
            assert inner not in reply.text


def raw(value: str) -> str:
    return "".join(
        c if c.isascii() and c.isprintable() and c != " " else "".join(f"%{b:02X}" for b in c.encode())
        for c in value
    )


async def test_bodies(database_url: str) -> None:
    async with edge(database_url) as e:
        asked = await e.ask(answer_format="confirm")
        before = await changes(e)
        for path in doors(e):
            for body in BODIES if path == "/api/tool-runs" else BODIES + CALLS:
                for method in ("POST", "DELETE"):
                    if method == "DELETE" and b"zqxj" not in body:
                        continue
                    target = filled(path, asked.id if "answer" in path else ID)
                    if target in ("/api/sign-in-links",):
                        continue  # takes no body: making a link is what it does
                    await send(e, method, target, content=body, headers={"content-type": "application/json"})
        for kind in TYPES:
            await send(
                e,
                "POST",
                f"/api/interactions/{asked.id}/answer",
                content=b"answer=zqxj",
                headers={"content-type": kind},
            )
        assert await changes(e) == before
        assert not asked.call.done()
        await asked.end()


async def test_ids_methods_and_headers(database_url: str) -> None:
    async with edge(database_url) as e:
        before = await changes(e)
        for path in doors(e):
            for value in IDS if "{" in path else ["x"]:
                for method in METHODS:
                    if method == "POST" and path == "/api/sign-in-links":
                        continue
                    await send(e, method, filled(path, raw(value)))
        for headers in HEADERS:
            for method, path in (
                ("GET", "/api/interactions"),
                ("POST", "/api/run-tool"),
                ("GET", "/inbox"),
                ("POST", "/mcp"),
            ):
                merged = {b"authorization": e.owner.headers["authorization"].encode()} | headers
                await send(e, method, path, headers=merged)
        assert await changes(e) == before


async def test_queries(database_url: str) -> None:
    values = [
        "",
        "\x00",
        "\ud7ff",
        "-1",
        "9" * 400,
        "1e9",
        "NaN",
        "null",
        "[]",
        "' OR 1=1 --",
        "\u202e",
        "x" * 5_000,
    ]
    async with edge(database_url) as e:
        before = await changes(e)
        for path, operations in e.app.openapi()["paths"].items():
            for method, operation in operations.items():
                names = [p["name"] for p in operation.get("parameters", []) if p["in"] == "query"]
                if path.endswith("/stream"):
                    names = []
                for name, value in itertools.product(names, values):
                    reply = await e.owner.request(method, filled(path, ID), params={name: value})
                    assert reply.status_code < 500, (path, name, value[:20])
                if names:
                    twice: list[tuple[str, Any]] = [(name, value) for name in names for value in ("1", "2")]
                    assert (await e.owner.request(method, filled(path, ID), params=twice)).status_code < 500
        assert await changes(e) == before


async def test_a_body_that_never_comes_is_given_up(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "PATIENCE", 0.1)
    async with served(database_url) as e:
        address = urlsplit(e.base)
        for length in (b"content-length: 100", b"transfer-encoding: chunked"):
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(
                b"POST /api/run-tool HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: %b\r\n%b\r\n\r\n"
                % (e.owner.headers["authorization"].encode(), length)
            )
            line = await asyncio.wait_for(reader.readline(), 20)
            assert b" 408 " in line
            writer.close()
        assert (await e.owner.get("/health")).status_code == 200


async def test_a_caller_that_leaves_in_the_middle_of_its_body(database_url: str) -> None:
    async with served(database_url) as e:
        address = urlsplit(e.base)
        for _ in range(20):
            _reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(
                b"POST /api/run-tool HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: %b\r\ncontent-length: 100\r\n\r\n{"
                % e.owner.headers["authorization"].encode()
            )
            await writer.drain()
            writer.transport.abort()
        assert (await e.owner.get("/api/interactions")).json()["data"]["total"] == 0


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /\x00 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /api/run-tool HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: " + b"b" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET http://evil.example/api/keys HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET //api/keys HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)
async def test_what_is_hardly_http(database_url: str, head: bytes) -> None:
    async with served(database_url) as e:
        address = urlsplit(e.base)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(head)
        writer.write_eof()
        reply = await asyncio.wait_for(reader.read(4096), 20)
        assert not reply.startswith((b"HTTP/1.1 2", b"HTTP/1.1 5"))
        writer.close()
        assert (await e.owner.get("/health")).status_code == 200


# The parser by itself

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_what_is_json_comes_in_as_it_is(value: Any) -> None:
    text = json.dumps(value).encode()
    assert bodies.parse_json(text) == value
    assert json.loads(bodies.to_bytes(bodies.parse_json(text))) == value


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.filter_too_much])
def test_bytes_are_json_or_refused(content: bytes) -> None:
    try:
        bodies.parse_json(content)
    except BadInputError:
        return


def test_every_door_declares_its_grant(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare:
        path = "/bare"

    with pytest.raises(Exception, match="does not say"):
        grant_of(Bare())  # type: ignore[arg-type]
