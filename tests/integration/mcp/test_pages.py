"""Clients that open pages: their person is sent to a question's page where the protocol's forms do not do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from rejoinder import ask, tool
from rejoinder.asks.tickets import digest_of
from rejoinder.contract.questions import Question
from rejoinder.mcp.stdio import Target
from tests.integration.mcp.serving import LEGACY, Served, connected, serving
from tests.integration.mcp.test_asking import Person, until_held
from tests.integration.mcp.test_calls import Counting, both
from tests.integration.mcp.test_states_and_tasks import FORMS, HELLO, TASKS, Raw, message_of, older
from tests.integration.mcp.test_stdio import modes as over_pipes_modes
from tests.integration.mcp.test_stdio import over_pipes
from tests.support import assert_eventually

SITE = "https://ask.example.org"
PAGES: dict[str, Any] = {"elicitation": {"url": {}}}
BOTH: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}


@tool
async def sign(what: str) -> Any:
    """An outside system signs it."""
    link = "https://sign.example/?back={callback_url}"
    return (await ask(f"Sign {what}?", answer_format="external", link=link)).answer


@tool
async def secret(what: str) -> str:
    """The answer may not pass through the protocol."""
    answer = (await ask(f"The word for {what}?", sensitive=True)).answer
    return str(answer.reveal())


async def from_outside(served: Served, question: Question, value: dict[str, Any]) -> None:
    """The outside system answers."""
    node = served.node
    ticket = await node.office.make(None)
    assert await node.tickets.add(question.id, digest_of(ticket)) == "made"
    proven = await node.callbacks.prove(ticket, b"", {})
    standing = await node.callbacks.find(proven.opened)
    assert await node.callbacks.answer(proven, standing, value) == "answered"


def page_of(question: Question) -> str:
    return f"{SITE}/inbox/{question.id}"


@both
async def test_the_client_s_person_is_sent_to_the_page(database_url: str, mode: str) -> None:
    person = Person("accept")
    async with (
        serving(database_url, sign, interactions_public_base_url=SITE + "/") as served,
        connected(served, mode, elicit=person) as client,
    ):
        call = asyncio.create_task(client.call_tool("sign", {"what": "it"}))
        question = await served.question()
        await assert_eventually(lambda: person.asked, "the client was not asked")
        await until_held(served, person)
        assert (await served.question()).state == "pending", "opening a page decided something"
        await from_outside(served, question, {"signed": True})
        assert (await call).structured_content == {"signed": True}
    [asked] = person.asked
    assert (asked.mode, asked.message, asked.url) == ("url", "Sign it?", page_of(question))


@both
async def test_declining_to_go_there_is_an_end_and_closing_is_not(database_url: str, mode: str) -> None:
    person = Person("decline", "cancel")
    async with (
        serving(database_url, sign, interactions_public_base_url=SITE) as served,
        connected(served, mode, elicit=person) as client,
    ):
        declined = await client.call_tool("sign", {"what": "it"})
        assert declined.structured_content["code"] == "interaction-cancelled"
        call = asyncio.create_task(client.call_tool("sign", {"what": "it"}))
        await assert_eventually(lambda: len(person.asked) == 2, "the client was not asked")
        await until_held(served, person)
        await from_outside(served, await served.question(), {"signed": True})
        assert (await call).structured_content == {"signed": True}
        assert len(person.asked) == 2


@pytest.mark.parametrize(
    ("tool_name", "capabilities", "site", "kinds"),
    [
        ("order", FORMS, SITE, ["form"]),
        ("order", BOTH, SITE, ["form"]),
        ("order", PAGES, SITE, ["url"]),
        ("order", PAGES, None, None),
        ("secret", BOTH, SITE, ["url"]),
        ("secret", FORMS, SITE, None),
        ("sign", FORMS, SITE, None),
        ("sign", BOTH, SITE, ["url"]),
    ],
)
async def test_what_a_client_is_asked_by_what_it_shows(
    database_url: str, tool_name: str, capabilities: dict[str, Any], site: str | None, kinds: list[str] | None
) -> None:
    order = Counting()
    short: dict[str, Any] = {"rejoinder_mcp_hold_seconds": 0.2, "interactions_public_base_url": site}
    async with serving(database_url, order.tool, secret, sign, **short) as served:
        result = (await Raw(served, capabilities=capabilities).call(tool_name))["result"]
        if kinds is None:
            # It waits in the inbox alone.
            assert not result.get("inputRequests")
            assert (await served.question()).state == "pending"
            return
        asked = [one["params"] for one in result["inputRequests"].values()]
        assert [one["mode"] for one in asked] == kinds
        question = await served.question()
        if kinds == ["url"]:
            # Who may answer is looked at on the page: nothing that passes here is a right to.
            assert asked == [{"mode": "url", "message": question.question, "url": page_of(question)}]


async def test_the_older_generation_is_told_when_it_is_done(database_url: str) -> None:
    hello = HELLO | {"params": {**HELLO["params"], "capabilities": PAGES}}  # type: ignore[dict-item]
    async with serving(database_url, sign, interactions_public_base_url=SITE) as served:
        session = (await older(served, hello, None)).headers["mcp-session-id"]
        params = {"name": "sign", "arguments": {"what": "it"}}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        calling = asyncio.create_task(older(served, call, session))
        question = await served.question()
        identifier = str(question.id)
        said = {"jsonrpc": "2.0", "id": identifier, "result": {"action": "accept"}}
        assert (await older(served, said, session)).status_code == 202
        assert (await served.question()).state == "pending"
        await from_outside(served, question, {"signed": True})
        reply = await calling
        assert message_of(reply)["result"]["structuredContent"] == {"signed": True}
        told = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
        [asked] = [one["params"] for one in told if one.get("method") == "elicitation/create"]
        assert asked == {
            "mode": "url",
            "message": "Sign it?",
            "url": page_of(question),
            "elicitationId": identifier,
        }
        done = [one["params"] for one in told if one.get("method") == "notifications/elicitation/complete"]
        assert done == [{"elicitationId": identifier}]


async def test_a_task_sends_its_client_to_the_page(database_url: str) -> None:
    async with serving(database_url, sign, interactions_public_base_url=SITE) as served:
        raw = Raw(served, capabilities=PAGES | TASKS)
        task = (await raw.call("sign"))["result"]["taskId"]
        question = await served.question()
        shown = (await raw.task("get", task))["result"]
        assert shown["inputRequests"][str(question.id)]["params"]["url"] == page_of(question)
        accepted = {str(question.id): {"action": "accept"}}
        assert "error" not in await raw.task("update", task, inputResponses=accepted)
        assert (await served.question()).state == "pending"
        await from_outside(served, question, {"signed": True})

        async def finished() -> Any:
            return (await raw.task("get", task))["result"].get("result")

        done = await assert_eventually(finished, "the task did not end")
        assert done["structuredContent"] == {"signed": True}


@over_pipes_modes
async def test_the_person_behind_the_pipes_is_sent_to_the_page(database_url: str, mode: str) -> None:
    person = Person("accept")
    async with (
        serving(database_url, sign, interactions_public_base_url=SITE) as served,
        over_pipes(Target(served.url, served.key), mode, person) as client,
    ):
        call = asyncio.create_task(client.call_tool("sign", {"what": "it"}))
        question = await served.question()
        await assert_eventually(lambda: person.asked, "the client was not asked")
        await from_outside(served, question, {"signed": True})
        assert (await call).structured_content == {"signed": True}
        [asked] = person.asked
        assert asked.url == page_of(question)
        if mode == LEGACY:
            assert asked.elicitation_id == str(question.id)
