"""A client that starts a program and talks over its pipes, passed on to a running server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.extension import advertise
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict, Field

from rejoinder.mcp.capabilities import TASKS
from rejoinder.mcp.stdio import AboutTask, Target
from rejoinder.runs.tools import tool
from tests.integration.mcp.serving import LEGACY, MODERN, serving
from tests.integration.mcp.test_asking import Person
from tests.integration.mcp.test_calls import Counting, pending_of, text_of, until_released
from tests.support import assert_eventually, clean_environment, free_port

modes = pytest.mark.parametrize("mode", ["auto", LEGACY])
PROGRAM = (
    "import sys; from rejoinder.mcp.stdio import main, Target; main(lambda: Target(sys.argv[1], sys.argv[2]))"
)


@asynccontextmanager
async def over_pipes(target: Target, mode: str, elicit: Any = None) -> AsyncIterator[Client]:
    program = StdioServerParameters(
        command=sys.executable, args=["-c", PROGRAM, target.url, target.key or ""], env=clean_environment()
    )
    async with Client(program, mode=mode, elicitation_callback=elicit) as client:
        yield client


@tool
def loud(word: str) -> str:
    """Prints to where the protocol would be, if this ran in the client's program."""
    print("this is not the protocol")
    return word


@modes
async def test_list_call_ask_and_take_up_again(database_url: str, mode: str) -> None:
    order = Counting()
    heard: list[str | None] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async with (
        serving(database_url, order.tool, loud, rejoinder_mcp_hold_seconds=0.5) as served,
        over_pipes(Target(served.url, served.key), mode) as client,
    ):
        names = {one.name for one in (await client.list_tools()).tools}
        assert {"order", "loud", "ask", "check_run"} <= names
        assert (await client.call_tool("loud", {"word": "hm"})).structured_content == {"result": "hm"}
        refused = await client.call_tool("loud", {})
        assert refused.is_error
        assert refused.structured_content["field"] == "word"
        with pytest.raises(MCPError, match="No tool of this name is exposed"):
            await client.call_tool("nothing", {})

        first = pending_of(await client.call_tool("order", {"what": "tea"}, progress_callback=told))
        assert "waiting for a person: Order tea?" in heard
        again = asyncio.create_task(client.call_tool("order", {"what": "tea"}))
        await served.answer(await served.question(), True)
        done = await again
        assert done.structured_content == {"ordered": True, "what": "tea"}
        assert done.meta is not None
        assert done.meta["rejoinder/run_id"] == first["run_id"]
        assert order.started == 1


@modes
async def test_a_program_that_is_closed_loses_nothing(database_url: str, mode: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served:
        target = Target(served.url, served.key)
        async with over_pipes(target, mode) as client:
            call = asyncio.create_task(client.call_tool("order", {"what": "tea"}))
            question = await served.question()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            # The program told the server; it did not need to end for that.
            await until_released(served)
        await served.answer(question, True)
        await assert_eventually(lambda: order.ended == 1, "the run did not go on")
        async with over_pipes(target, mode) as client:
            done = await client.call_tool("order", {"what": "tea"})
        assert done.structured_content == {"ordered": True, "what": "tea"}
        assert order.started == 1


@modes
async def test_what_is_wrong_with_the_server_is_said(database_url: str, mode: str) -> None:
    nowhere = Target(f"http://127.0.0.1:{free_port()}", "rjk_x")
    async with over_pipes(nowhere, mode) as client:
        with pytest.raises(MCPError, match="rejoinder up"):
            await client.list_tools()
    async with (
        serving(database_url, loud) as served,
        over_pipes(Target(served.url, "rjk_wrong"), mode) as client,
    ):
        with pytest.raises(MCPError, match="does not take this API key"):
            await client.list_tools()


async def test_a_call_without_a_server_is_an_error_that_a_model_can_read() -> None:
    from rejoinder.mcp.stdio import proxy

    url = f"http://127.0.0.1:{free_port()}"
    async with Client(proxy(lambda: Target(url, None)), mode=LEGACY) as client:
        refused = await client.session.call_tool("ask", {"question": "?"})
    assert refused.is_error
    assert refused.structured_content["code"] == "not-ready"
    assert url in text_of(refused)


def test_nothing_but_the_protocol_reaches_standard_output() -> None:
    program = (
        "import builtins; from rejoinder.mcp import stdio\n"
        "def find():\n    print('oops')\n    raise ValueError\nstdio.main(find)"
    )
    sent = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
        '"clientInfo":{"name":"t","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        '{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n'
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=clean_environment(),
        text=True,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(sent)
        running.stdin.flush()
        lines = [running.stdout.readline(), running.stdout.readline()]
        running.stdin.close()
        rest = running.stdout.read()
        assert running.wait(20) == 0
    assert all(line.startswith('{"jsonrpc"') for line in lines)
    assert rest == ""


@modes
async def test_the_client_s_person_is_asked_through_the_pipes(database_url: str, mode: str) -> None:
    order = Counting()
    person = Person({"answer": "maybe"}, {"answer": True}, "decline")
    async with (
        serving(database_url, order.tool) as served,
        over_pipes(Target(served.url, served.key), mode, person) as client,
    ):
        done = await client.call_tool("order", {"what": "tea"})
        assert done.structured_content == {"ordered": True, "what": "tea"}
        assert "answer must be a boolean" in person.asked[1].message
        declined = await client.call_tool("order", {"what": "tea"})
        assert declined.structured_content["code"] == "interaction-cancelled"
        assert order.ended == 1


async def test_the_inbox_is_faster_than_the_person_behind_the_pipes(database_url: str) -> None:
    order = Counting()
    person = Person()
    async with (
        serving(database_url, order.tool) as served,
        over_pipes(Target(served.url, served.key), LEGACY, person) as client,
    ):
        call = asyncio.create_task(client.call_tool("order", {"what": "tea"}))
        await assert_eventually(lambda: person.asked, "the client was not asked")
        await served.answer(await served.question(), True)
        assert (await call).structured_content == {"ordered": True, "what": "tea"}
        assert order.started == order.ended == 1


class Task(types.Result):
    """What a call answers that became a task, and what the tasks' own requests answer."""

    model_config = ConfigDict(extra="allow")

    task_id: str | None = Field(None, alias="taskId")


async def test_a_call_through_the_pipes_becomes_a_task(database_url: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served:
        program = StdioServerParameters(
            command=sys.executable, args=["-c", PROGRAM, served.url, served.key], env=clean_environment()
        )
        async with Client(
            program, mode=MODERN, elicitation_callback=Person(), extensions=[advertise(TASKS)]
        ) as client:

            async def send(method: str, **params: Any) -> dict[str, Any]:
                request: types.Request[Any, Any] = AboutTask(method=method, params=params)
                found = await client.session.send_request(request, Task)
                return found.model_dump(by_alias=True, mode="json", exclude_none=True)

            arguments = types.CallToolRequestParams(name="order", arguments={"what": "tea"})
            made = await client.session.send_request(types.CallToolRequest(params=arguments), Task)
            assert made.task_id is not None
            shown = await send("tasks/get", taskId=made.task_id)
            assert shown["status"] == "input_required"
            [key] = shown["inputRequests"]
            wrong = {key: {"action": "accept", "content": {"answer": "x"}}}
            with pytest.raises(MCPError, match="answer must be a boolean"):
                await send("tasks/update", taskId=made.task_id, inputResponses=wrong)
            right = {key: {"action": "accept", "content": {"answer": True}}}
            await send("tasks/update", taskId=made.task_id, inputResponses=right)

            async def finished() -> Any:
                return (await send("tasks/get", taskId=made.task_id)).get("result")

            done = await assert_eventually(finished, "the task did not end")
            assert done["structuredContent"] == {"ordered": True, "what": "tea"}
            again = await client.session.send_request(types.CallToolRequest(params=arguments), Task)
            await send("tasks/cancel", taskId=again.task_id)

            async def cancelled() -> bool:
                return bool((await send("tasks/get", taskId=again.task_id))["status"] == "cancelled")

            await assert_eventually(cancelled, "the task did not end")
            with pytest.raises(MCPError, match="There is no task of this id"):
                await send("tasks/get", taskId="x")
        assert order.ended == 1


async def test_tasks_are_no_part_of_the_older_generation(database_url: str) -> None:
    async with (
        serving(database_url) as served,
        over_pipes(Target(served.url, served.key), LEGACY) as client,
    ):
        with pytest.raises(MCPError, match="Method not found"):
            await client.session.send_request(AboutTask(method="tasks/get", params={"taskId": "x"}), Task)
