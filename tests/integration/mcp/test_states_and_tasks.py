"""What a client carries for us, attacked; and calls as tasks."""

from __future__ import annotations

import asyncio
import base64
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest

from rejoinder.mcp.sealed import Sealer
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from rejoinder.store.sealing import SealingKeys
from tests.integration.core.support import in_an_hour
from tests.integration.mcp.serving import MODERN, Served, serving
from tests.integration.mcp.test_calls import Counting
from tests.support import assert_eventually
from tests.support import client as http_client

FORMS: dict[str, Any] = {"elicitation": {"form": {}}}
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class Raw:
    """A client of the newer generation that sends what the test wants."""

    def __init__(self, served: Served, key: str | None = None, capabilities: dict[str, Any] = FORMS) -> None:
        self.served = served
        self.key = key or served.key
        self.capabilities = capabilities

    async def send(self, method: str, header: str, **params: Any) -> dict[str, Any]:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = HEADERS | {"mcp-protocol-version": MODERN, "mcp-method": method, "mcp-name": header}
        async with http_client(self.served.url, self.key) as http:
            return message_of(await http.post("/mcp", json=body, headers=headers))

    async def call(self, tool: str = "order", *, what: str = "tea", **params: Any) -> dict[str, Any]:
        return await self.send("tools/call", tool, name=tool, arguments={"what": what}, **params)

    async def task(self, method: str, task_id: str, **params: Any) -> dict[str, Any]:
        return await self.send(f"tasks/{method}", task_id, taskId=task_id, **params)


def message_of(response: httpx2.Response) -> dict[str, Any]:
    import json

    text = response.text
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data: ")][-1][6:]
    message: dict[str, Any] = json.loads(text)
    return message


def accepted(asked: dict[str, Any], value: Any = True) -> dict[str, Any]:
    return {
        key: {"action": "accept", "content": {"answer": value}} for key in asked["result"]["inputRequests"]
    }


async def test_a_state_is_good_for_its_caller_and_its_call_only(database_url: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served:
        raw = Raw(served)
        asked = await raw.call()
        state = asked["result"]["requestState"]
        answers = accepted(asked)
        other = Raw(served, await served.new_key("other", "read", "write"))
        twin = Raw(served, await served.new_key("twin", "read", "write", owner="other"))
        changed = state[:-2] + ("AA" if state[-2:] != "AA" else "BB")
        old = await Sealer(SealingKeys(served.node.database, "mcp")).seal(
            "leg", {"run": str(uuid4())}, [], -1
        )
        session = await Sealer(SealingKeys(served.node.database, "mcp")).seal("session", {}, [], 60)
        attacks: list[tuple[str, Raw, dict[str, Any]]] = [
            ("changed", raw, {"requestState": changed}),
            ("garbage", raw, {"requestState": "v1.garbage"}),
            ("empty", raw, {"requestState": ""}),
            ("long", raw, {"requestState": "A" * 100_000}),
            ("not ascii", raw, {"requestState": "é" * 80}),
            ("unknown key", raw, {"requestState": base64.urlsafe_b64encode(b"\xff" * 80).decode()}),
            ("expired", raw, {"requestState": old}),
            ("another kind", raw, {"requestState": session}),
            ("another caller", other, {"requestState": state}),
            ("another key of that caller", twin, {"requestState": state}),
            ("other arguments", raw, {"requestState": state, "what": "coffee"}),
        ]
        for name, client, params in attacks:
            refused = await client.call(inputResponses=answers, **params)
            assert refused.get("error", {}).get("code") == -32602, name
            assert refused["error"]["message"] == "Invalid or expired requestState", name
        question = await served.question()
        assert question.state == "pending"
        assert order.started == 1
        done = await raw.call(inputResponses=answers, requestState=state)
        assert done["result"]["structuredContent"] == {"ordered": True, "what": "tea"}


async def test_an_answer_without_a_state_counts_for_nothing(database_url: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served:
        raw = Raw(served)
        asked = await raw.call()
        again = await raw.call(inputResponses=accepted(asked))
        assert again["result"]["resultType"] == "input_required"
        assert again["result"]["inputRequests"] == asked["result"]["inputRequests"]
        # A state without answers asks again, in the same run; answers to what was not asked are not there.
        for answers in ({}, {str(uuid4()): {"action": "accept", "content": {"answer": True}}}):
            once_more = await raw.call(requestState=asked["result"]["requestState"], inputResponses=answers)
            assert once_more["result"]["inputRequests"] == asked["result"]["inputRequests"]
        assert order.started == 1
        assert order.ended == 0


async def test_a_state_that_is_used_again_runs_nothing_again(database_url: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served:
        raw = Raw(served)
        asked = await raw.call()
        answers, state = accepted(asked), asked["result"]["requestState"]
        together = await asyncio.gather(
            *(raw.call(inputResponses=answers, requestState=state) for _ in range(5))
        )
        later = await raw.call(inputResponses=accepted(asked, False), requestState=state)
        for done in (*together, later):
            assert done["result"]["structuredContent"] == {"ordered": True, "what": "tea"}
        assert order.started == order.ended == 1


JUNK: list[Any] = ["maybe", None, 1, {"answer": True}, ["x"], {"deep": {"er": 1}}]


async def test_content_that_breaks_the_schema_is_asked_again(database_url: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served:
        raw = Raw(served)
        asked = await raw.call()
        for value in JUNK:
            (key,) = asked["result"]["inputRequests"]
            answers = {key: {"action": "accept", "content": {"answer": value}}}
            again = await raw.call(inputResponses=answers, requestState=asked["result"]["requestState"])
            if "error" in again:
                # The protocol's library refuses what is no flat value at all.
                assert again["error"]["code"] == -32602
            else:
                assert list(again["result"]["inputRequests"]) == [key]
        assert (await served.question()).state == "pending"
        assert order.ended == 0


async def test_the_keys_may_change_while_clients_wait(database_url: str) -> None:
    order = Counting()
    async with (
        serving(database_url, order.tool) as one,
        serving(database_url, order.tool, key=one.key) as two,
    ):
        asked = await Raw(one).call()
        await one.node.database.execute(
            "INSERT INTO rejoinder.sealing_key (purpose, number, secret) VALUES ('mcp', 2, $1)", b"k" * 32
        )
        # A server knows the new key a second after it looked last; until then it seals and opens with the old one.
        state = asked["result"]["requestState"]

        async def sealed_anew() -> str | None:
            again = (await Raw(two).call(requestState=state))["result"]["requestState"]
            return again if int.from_bytes(base64.urlsafe_b64decode(again + "===")[:4]) == 2 else None

        anew = await assert_eventually(sealed_anew, "the new key is not used")

        async def taken() -> Any:
            return (await Raw(one).call(inputResponses=accepted(asked), requestState=anew)).get("result")

        done = await assert_eventually(taken, "the new key is not found")
        assert done["structuredContent"] == {"ordered": True, "what": "tea"}


async def older(served: Served, body: Any, session: str | None, key: str | None = None) -> httpx2.Response:
    headers = HEADERS | {"mcp-protocol-version": "2025-11-25"}
    if session is not None:
        headers["mcp-session-id"] = session
    async with http_client(served.url, key or served.key) as http:
        return await http.post("/mcp", json=body, headers=headers)


async def test_an_answer_of_the_older_generation_is_its_caller_s_only(database_url: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served:
        other = await served.new_key("other", "read", "write")
        session = (await older(served, HELLO, None)).headers["mcp-session-id"]
        others = (await older(served, HELLO, None, other)).headers["mcp-session-id"]
        call = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "order", "arguments": {"what": "tea"}},
        }
        calling = asyncio.create_task(older(served, call, session))
        question = await served.question()

        def answer(value: Any, identifier: Any = str(question.id), **more: Any) -> dict[str, Any]:
            return {
                "jsonrpc": "2.0",
                "id": identifier,
                "result": {"action": "accept", "content": {"answer": value}, **more},
            }

        attacks: list[tuple[str, Any, str | None, str | None, int]] = [
            ("no session", answer(True), None, None, 202),
            ("garbage for a session", answer(True), "garbage", None, 404),
            ("another caller's session", answer(True), others, None, 404),
            ("another caller", answer(True), others, other, 202),
            ("an unknown question", answer(True, str(uuid4())), session, None, 202),
            ("no question", answer(True, 7), session, None, 202),
            ("no id", answer(True, None), session, None, 202),
            ("an unknown action", answer(True, action="maybe"), session, None, 400),
            ("what does not fit", answer("maybe"), session, None, 400),
            ("no object", answer(True, content=[1]), session, None, 400),
            ("an error", {"jsonrpc": "2.0", "id": str(question.id), "error": {"code": -1, "message": "no"}}, session, None, 202),
        ]  # fmt: skip
        for name, body, carried, key, status in attacks:
            assert (await older(served, body, carried, key)).status_code == status, name
        assert (await served.question()).state == "pending"
        assert (await older(served, answer(True), session)).status_code == 202
        assert message_of(await calling)["result"]["structuredContent"] == {"ordered": True, "what": "tea"}
        # Too late, and twice: nothing happens.
        assert (await older(served, answer(False), session)).status_code == 202
        assert order.ended == 1


async def test_a_task_is_a_run(database_url: str) -> None:
    order = Counting()
    async with (
        serving(database_url, order.tool) as one,
        serving(database_url, order.tool, key=one.key) as two,
    ):
        here, there = Raw(one, capabilities=FORMS | TASKS), Raw(two, capabilities=FORMS | TASKS)
        task = (await here.call())["result"]
        assert task["resultType"] == "task"
        assert task["status"] == "working"
        state = (await there.task("get", task["taskId"]))["result"]
        assert state["status"] == "input_required"
        (key,) = state["inputRequests"]
        assert state["inputRequests"][key]["params"]["message"] == "Order tea?"
        refused = await there.task(
            "update", task["taskId"], inputResponses={key: {"action": "accept", "content": {"answer": "x"}}}
        )
        assert refused["error"]["code"] == -32602
        assert "answer must be a boolean" in refused["error"]["message"]
        junk = await there.task("update", task["taskId"], inputResponses={key: {"action": "maybe"}})
        assert junk["error"]["code"] == -32602
        yes = {key: {"action": "accept", "content": {"answer": True}}, str(uuid4()): {"action": "accept"}}
        assert (await there.task("update", task["taskId"], inputResponses=yes))["result"][
            "resultType"
        ] == "complete"

        async def finished() -> dict[str, Any] | None:
            state = (await there.task("get", task["taskId"]))["result"]
            return state if state["status"] == "completed" else None

        done = await assert_eventually(finished, "the task did not end")
        assert done is not None
        assert done["result"]["structuredContent"] == {"ordered": True, "what": "tea"}
        assert done["result"]["isError"] is False
        assert order.started == 1
        # Told, so that the same call means a new one.
        assert (await here.call())["result"]["taskId"] != task["taskId"]


async def test_a_call_that_is_done_at_once_is_no_task(database_url: str) -> None:
    @tool
    def quick(what: str) -> str:
        return what

    async with serving(database_url, quick) as served:
        raw = Raw(served, capabilities=TASKS)
        assert (await raw.call("quick"))["result"]["structuredContent"] == {"result": "tea"}


async def test_a_parked_run_is_one_task_until_it_has_gone_on(database_url: str) -> None:
    @tool
    async def parks(what: str) -> Any:
        return await ask(f"Order {what}?", mode="async", expiry_at=in_an_hour())

    @parks.continuation
    async def go_on(ask_result: Any) -> str:
        return f"got {ask_result.answer}"

    async with serving(database_url, parks, worker=True) as served:
        raw = Raw(served, capabilities=FORMS | TASKS)
        task = (await raw.call("parks"))["result"]
        assert task["resultType"] == "task"
        (key,) = (await raw.task("get", task["taskId"]))["result"]["inputRequests"]
        answer = {key: {"action": "accept", "content": {"answer": "milk"}}}
        await raw.task("update", task["taskId"], inputResponses=answer)

        async def finished() -> Any:
            state = (await raw.task("get", task["taskId"]))["result"]
            return state.get("result")

        done = await assert_eventually(finished, "the task did not end")
        assert done["structuredContent"] == {"result": "got milk"}


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_task_can_be_cancelled_from_anywhere(database_url: str, elsewhere: bool) -> None:
    order = Counting()
    async with (
        serving(database_url, order.tool) as one,
        serving(database_url, order.tool, key=one.key) as two,
    ):
        here = Raw(one, capabilities=FORMS | TASKS)
        away = Raw(two if elsewhere else one, capabilities=TASKS)
        task = (await here.call())["result"]["taskId"]
        for _ in range(2):
            assert (await away.task("cancel", task))["result"]["resultType"] == "complete"

        async def cancelled() -> bool:
            return bool((await away.task("get", task))["result"]["status"] == "cancelled")

        await assert_eventually(cancelled, "the task did not end")
        question = await one.node.questions.of_run(UUID(task))
        assert [q.state for q in question] == ["cancelled"]
        assert order.ended == 0


async def test_whose_task_it_is(database_url: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served:
        raw = Raw(served, capabilities=TASKS)
        task = (await raw.call())["result"]["taskId"]
        assert (await raw.task("get", task))["result"]["status"] == "working", (
            "a client without forms is not asked"
        )
        other = Raw(served, await served.new_key("other", "read", "write"), TASKS)
        methods: list[tuple[str, dict[str, Any]]] = [
            ("get", {}),
            ("update", {"inputResponses": {}}),
            ("cancel", {}),
        ]
        for method, params in methods:
            for client, identifier in ((other, task), (raw, str(uuid4())), (raw, "x"), (raw, "")):
                assert (await client.task(method, identifier, **params))["error"]["code"] == -32602
            without = await Raw(served).task(method, task, **params)
            assert without["error"]["code"] == -32021
            assert without["error"]["data"] == {"requiredCapabilities": TASKS}
            wrong = await raw.send(f"tasks/{method}", "another", taskId=task, **params)
            assert wrong["error"]["code"] == -32020
            old = await older(
                served,
                {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": f"tasks/{method}",
                    "params": {"taskId": task, **params},
                },
                None,
            )
            assert message_of(old)["error"]["code"] == -32601
        assert (await served.question()).state == "pending"
