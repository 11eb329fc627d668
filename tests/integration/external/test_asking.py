"""What an external ask takes, in which order it is refused, and that a refused one leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rejoinder import AskAnswer, SuspendedInteraction, ask, ask_blocking, tool
from rejoinder.asks.request import build_request
from rejoinder.contract.errors import AskArgumentError
from rejoinder.contract.public import PublicUrlError, wrong_with
from rejoinder.runs.tools import Tool
from rejoinder.verifiers.registry import Verifiers
from tests.integration.core.support import assert_sound, in_an_hour
from tests.integration.doors.edge import Edge
from tests.integration.external.outside import BASE, DOOR, GOOD, SCHEMA, SHARED, outside, result
from tests.integration.nodes import ANN
from tests.support import assert_eventually

LINK = "https://sign.example/?next={callback_url}&{other}"


def built(**asked: Any) -> Any:
    given: dict[str, Any] = {
        "answer_format": "external",
        "link": LINK,
        "identity": ANN,
        "default_timeout": 60.0,
        "verifiers": Verifiers(),
        "public_base_url": BASE,
    }
    return build_request("?", **(given | asked))


#: Each refusal stands behind all before it: with all of them wrong, the first is told, and so on.
LADDER: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"timeout": 0}, {"timeout": 5}, "timeout"),
    ({"answer_format": "fax"}, {"answer_format": "external"}, "answer_format"),
    ({"options": ["a"]}, {"options": None}, "options"),
    ({"schema": {"type": 1}}, {"schema": SCHEMA}, "schema"),
    ({"audience": " "}, {"audience": "ann"}, "audience"),
    ({"link": None}, {"link": "no placeholder"}, "link"),
    ({"verifier": {"verifier": "nobody"}}, {"verifier": SHARED}, "verifier"),
    ({"public_base_url": None}, {"public_base_url": BASE}, "PublicUrlError"),
    ({}, {"link": LINK}, "link"),
]


def test_the_order_of_refusals() -> None:
    wrong: dict[str, Any] = {}
    for bad, _, _ in LADDER:
        wrong |= bad
    for _, right, told in LADDER:
        if told == "PublicUrlError":
            with pytest.raises(PublicUrlError):
                built(**wrong)
        else:
            with pytest.raises(AskArgumentError) as refused:
                built(**wrong)
            assert refused.value.field == told
        wrong |= right
    assert built(**wrong).external.base == BASE


@pytest.mark.parametrize(
    "link",
    ["https://sign.example/", "", "{callback_url", "javascript:{callback_url}", "ftp://x/{callback_url}", 7, b"{callback_url}",
     "https://u:p@sign.example/{callback_url}", "https:///{callback_url}", "https://sign.example/ {callback_url}",
     "https://sign.example/\u2028{callback_url}", "https://sign.example/{callback_url}" + "x" * 9_000,
     "https://[::1{callback_url}", "https://sign.example:99999/{callback_url}"],
)  # fmt: skip
def test_links_that_nobody_could_open(link: object) -> None:
    with pytest.raises(AskArgumentError) as refused:
        built(link=link)
    assert refused.value.field == "link"


@pytest.mark.parametrize("given", [{"link": LINK}, {"verifier": SHARED}])
@pytest.mark.parametrize("kind", ["text", "confirm", "select", "form"])
def test_a_link_and_a_verifier_go_with_external_only(kind: str, given: dict[str, Any]) -> None:
    needed: dict[str, dict[str, Any]] = {"select": {"options": ["a"]}, "form": {"schema": SCHEMA}}
    with pytest.raises(AskArgumentError) as refused:
        built(answer_format=kind, **({"link": None} | needed.get(kind, {}) | given))
    assert refused.value.field == next(iter(given))


@pytest.mark.parametrize("given", [{"link": LINK}, {"verifier": SHARED}])
def test_the_caller_is_asked_without_either(given: dict[str, Any]) -> None:
    with pytest.raises(AskArgumentError):
        built(
            **(
                {
                    "answer_format": "free",
                    "link": None,
                    "to": "caller",
                    "mode": "async",
                    "expiry_at": in_an_hour(),
                }
                | given
            )
        )


@pytest.mark.parametrize(
    ("url", "fits"),
    [
        ("https://ask.example.org", True),
        ("https://ask.example.org/below/", True),
        ("https://ask.example.org:8443", True),
        ("http://127.0.0.1:8700", True),
        ("http://localhost:8700", True),
        ("http://[::1]:8700", True),
        ("http://ask.example.org", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://10.0.0.1", False),
        ("ftp://ask.example.org", False),
        ("ask.example.org", False),
        ("https://", False),
        ("https://user@ask.example.org", False),
        ("https://:@ask.example.org", False),
        ("https://ask.example.org?x=1", False),
        ("https://ask.example.org#x", False),
        ("https://ask.example.org?", False),
        ("https://ask.example .org", False),
        ("https://ask.example.org\n", False),
        ("https://ask.example.org:x", False),
        ("https://[::1", False),
    ],
)  # fmt: skip
def test_addresses_of_a_deployment(url: str, fits: bool) -> None:
    assert (wrong_with(url) is None) is fits
    if fits:
        assert built(public_base_url=url).external.base == url.rstrip("/")
    else:
        with pytest.raises(PublicUrlError):
            built(public_base_url=url)


# What is refused leaves nothing


def failing(act: Callable[[str], Any]) -> Tool:
    async def fails() -> Any:
        answer: Any = await ask("?", answer_format="external", link=act)
        return answer.as_json()

    return tool(name="fails")(fails)


async def raising(_url: str) -> str:
    raise RuntimeError("the other side is away")


async def to(value: Any) -> Any:
    return value


NOWHERE: list[Callable[[str], Any]] = [
    raising,
    lambda _url: to(None),
    lambda _url: to("javascript:alert(1)"),
    lambda _url: to("https://sign.example/\x00"),
    lambda _url: to("https://sign.example/\ud800"),
    lambda _url: "ftp://not.even/awaitable",
]


async def nothing_was_stored(e: Edge) -> None:
    for table in ("question", "ticket", "run", "park"):
        assert await e.node.database.value(f"SELECT count(*) FROM rejoinder.{table}") == 0, table


async def test_a_link_that_cannot_be_made(database_url: str) -> None:
    def next_one(url: str) -> Any:
        return current(url)

    async with outside(database_url, failing(next_one)) as (e, _):
        for current in NOWHERE:
            reply = await e.owner.post("/api/run-tool", json={"tool_name": "fails", "arguments": {}})
            assert reply.status_code == (500 if current is raising else 400), reply.text
            assert "is away" not in reply.text
            await nothing_was_stored(e)


@pytest.mark.parametrize("url", [None, "http://ask.example.org"])
async def test_without_a_public_address(database_url: str, url: str | None) -> None:
    async with outside(database_url, interactions_public_base_url=url) as (e, system):
        reply = await e.owner.post("/api/run-tool", json={"tool_name": "sign", "arguments": {}})
        assert reply.status_code == 501
        assert reply.json()["code"] == "public-url-not-configured"
        assert system.urls == []
        await nothing_was_stored(e)


async def test_a_run_that_cannot_park_makes_no_link(database_url: str) -> None:
    async with outside(database_url) as (e, system):
        parks = system.tool("parks", mode="async", expiry_at=in_an_hour())
        e.node.registry.add(parks)
        reply = await e.owner.post("/api/run-tool", json={"tool_name": "parks", "arguments": {}})
        assert reply.json()["code"] == "cannot-park"
        assert system.urls == []
        await nothing_was_stored(e)


async def test_past_the_cap_nothing_is_recorded(database_url: str) -> None:
    async with outside(database_url, interactions_max_concurrent=1) as (e, _):
        asked = await e.call("sign", {})
        reply = await e.owner.post("/api/run-tool", json={"tool_name": "sign", "arguments": {}})
        assert reply.json()["code"] == "interaction-limit"
        assert await e.node.database.value("SELECT count(*) FROM rejoinder.ticket") == 1
        await asked.end()


# Ways to ask


async def test_a_template(database_url: str) -> None:
    @tool
    async def template() -> Any:
        answer = await ask("?", answer_format="external", link=LINK, schema=SCHEMA)
        return answer.as_json()

    async with outside(database_url, template) as (e, _):
        asked = await e.call("template", {})
        shown = (await e.owner.get("/api/interactions")).json()["data"]["items"][0]["format_payload"]
        assert shown == {
            "link": LINK.replace("{callback_url}", f"{BASE}{DOOR}******"),
            "schema": SCHEMA,
        }
        await asked.end()


async def test_a_plain_function_asks(database_url: str) -> None:
    async with outside(database_url) as (e, system):

        @tool
        def plainly() -> Any:
            return ask_blocking("?", answer_format="external", link=system.page).as_json()

        e.node.registry.add(plainly)
        asked = await e.call("plainly", {})
        async with e.anonymous() as client:
            await client.post(system.door, json=GOOD)
        assert (await result(asked))["answer"] == GOOD


async def test_the_builtin_tool_takes_a_link_but_no_verifier(database_url: str) -> None:
    async with outside(database_url) as (e, _):
        asked = await e.ask(
            answer_format="external", link="https://sign.example/?x={callback_url}", schema=SCHEMA
        )
        await asked.end()
        for extra in ({"verifier": SHARED}, {"link": {"a": 1}}):
            arguments = {"question": "?", "answer_format": "external", "link": "{callback_url}"} | extra
            reply = await e.owner.post("/api/run-tool", json={"tool_name": "ask", "arguments": arguments})
            assert reply.status_code == 400
            assert reply.json()["field"] in ("verifier", "link")


async def test_a_parked_run_goes_on_with_what_came(database_url: str) -> None:
    kept: list[Any] = []
    async with outside(database_url, worker=True) as (e, system):

        @tool(idempotent=True)
        async def parks() -> SuspendedInteraction:
            return await ask(
                "?",
                answer_format="external",
                link=system.page,
                schema=SCHEMA,
                mode="async",
                expiry_at=datetime.now(UTC) + timedelta(hours=1),
            )

        @parks.continuation
        async def goes_on(ask_result: AskAnswer[Any]) -> str:
            kept.append(ask_result)
            return "went on"

        e.node.registry.add(parks)
        reply = await e.owner.post("/api/run-tool", json={"tool_name": "parks", "arguments": {}})
        assert reply.json()["data"]["kind"] == "parked"
        async with e.anonymous() as client:
            assert (await client.post(system.door, json=GOOD)).status_code == 200
        await assert_eventually(lambda: kept)
        assert kept == [AskAnswer(GOOD)]
    await assert_sound(database_url)
