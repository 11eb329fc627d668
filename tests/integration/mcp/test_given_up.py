"""Requests that their clients give up: what a call came to is told to somebody who listens, once."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
from mcp_types import ElicitResult

from rejoinder.mcp.handover import request_of
from rejoinder.node import Node
from rejoinder.runs.tools import tool
from tests.integration.mcp.serving import LEGACY, MODERN, Served, connected, serving
from tests.integration.mcp.test_calls import Counting, until_held, until_released
from tests.integration.mcp.test_states_and_tasks import HELLO, message_of, older
from tests.integration.nodes import ANN, running
from tests.support import MovableClock, assert_eventually

TEA = {"ordered": True, "what": "tea"}


def call(number: Any, what: str = "tea") -> dict[str, Any]:
    params = {"name": "order", "arguments": {"what": what}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def cancelled(number: Any) -> dict[str, Any]:
    params = {"requestId": number, "reason": "timed out"}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


async def session_of(served: Served, key: str | None = None) -> str:
    """A session of a client that shows nothing to its person."""
    said: Any = HELLO["params"]
    hello = HELLO | {"params": said | {"capabilities": {}}}
    session: str = (await older(served, hello, None, key)).headers["mcp-session-id"]
    return session


async def give_up(served: Served, number: Any, session: str, key: str | None = None) -> None:
    assert (await older(served, cancelled(number), session, key)).status_code == 202


def result_of(response: httpx2.Response) -> dict[str, Any]:
    result: dict[str, Any] = message_of(response)["result"]
    return result


def run_of(response: httpx2.Response) -> str:
    run_id: str = result_of(response)["_meta"]["rejoinder/run_id"]
    return run_id


@pytest.mark.parametrize("shows", [False, True], ids=["shows nothing", "shows forms"])
async def test_a_client_that_times_out_has_the_answer_when_it_calls_again(
    database_url: str, shows: bool
) -> None:
    """The protocol's own client: it posts notifications/cancelled and leaves the stream open."""
    never = asyncio.Event()

    async def person(_context: Any, _params: Any) -> ElicitResult:
        await never.wait()
        return ElicitResult(action="cancel")

    order = Counting()
    async with (
        serving(database_url, order.tool) as served,
        connected(served, LEGACY, elicit=person if shows else None) as client,
    ):
        with pytest.raises(Exception, match=r"(?i)timed out"):
            await client.call_tool("order", {"what": "tea"}, read_timeout_seconds=0.3)
        question = await served.question()
        await until_released(served)
        # Nobody holds on. It was told to nobody, so that it is the answer to the same call.
        await served.answer(question, True)
        await assert_eventually(lambda: order.ended == 1, "the run did not go on")
        assert (await client.call_tool("order", {"what": "tea"})).structured_content == TEA
        assert (order.started, order.ended) == (1, 1)
        # Once: the same words now mean a new order.
        again = asyncio.create_task(client.call_tool("order", {"what": "tea"}))
        await served.answer(await served.question(), False)
        assert (await again).structured_content == {"ordered": False, "what": "tea"}
        assert (order.started, order.ended) == (2, 2)
        never.set()


async def test_any_server_lets_go_of_a_request_that_another_one_holds(database_url: str) -> None:
    here, there = Counting(), Counting()
    async with (
        serving(database_url, here.tool) as one,
        serving(database_url, there.tool, key=one.key) as two,
    ):
        session = await session_of(one)
        calling = asyncio.create_task(older(one, call(7), session))
        question = await two.question()
        await give_up(two, 7, session)
        await until_released(one)
        assert message_of(await calling)["error"]["code"] == -32800
        still = await two.node.questions.by_id(question.id)
        assert still is not None
        assert still.state == "pending"
        await two.answer(question, True)
        assert result_of(await older(two, call(8), session))["structuredContent"] == TEA
    assert (here.started, there.started) == (1, 0)


async def test_what_no_server_has_heard_of_is_decided_by_the_row(database_url: str) -> None:
    """The word that a request was given up is lost on its way to the server that holds it."""
    order = Counting()
    async with serving(database_url, order.tool) as served:
        session = await session_of(served)
        calling = asyncio.create_task(older(served, call(7), session))
        question = await served.question()
        calls = served.door._calls
        assert calls is not None
        calls._named.clear()
        await give_up(served, 7, session)
        await served.answer(question, True)
        assert message_of(await calling)["error"]["code"] == -32800
        assert result_of(await older(served, call(8), session))["structuredContent"] == TEA
        assert order.started == 1


async def test_an_end_that_crosses_the_client_s_word_is_told_again_once(database_url: str) -> None:
    """The client's time was over while the end was on its way: it has dropped what came."""
    order = Counting()
    async with serving(database_url, order.tool) as served:
        session = await session_of(served)
        calling = asyncio.create_task(older(served, call(7), session))
        await served.answer(await served.question(), True)
        first = await calling
        for _ in range(2):
            await give_up(served, 7, session)
        again = await older(served, call(8), session)
        assert result_of(again)["structuredContent"] == TEA
        assert run_of(again) == run_of(first)
        assert order.started == 1
        new = asyncio.create_task(older(served, call(9), session))
        await served.answer(await served.question(), True)
        assert run_of(await new) != run_of(first)
        assert order.started == 2
        # Word of the first one comes once more, and changes nothing.
        await give_up(served, 7, session)
        third = asyncio.create_task(older(served, call(10), session))
        await served.answer(await served.question(), True)
        assert run_of(await third) not in (run_of(first), run_of(await new))


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_the_same_call_twice_in_a_row_is_two_runs(database_url: str, mode: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served, connected(served, mode) as client:
        for runs in (1, 2, 3):
            calling = asyncio.create_task(client.call_tool("order", {"what": "tea"}))
            await served.answer(await served.question(), True)
            assert (await calling).structured_content == TEA
            assert (order.started, order.ended) == (runs, runs)


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_long_result_is_told_as_well(database_url: str, mode: str) -> None:
    runs: list[str] = []

    @tool
    async def writes() -> str:
        runs.append("\u2028\r\ndata: \n\n" * 10_000)
        return runs[-1]

    async with serving(database_url, writes) as served, connected(served, mode) as client:
        for count in (1, 2):
            result = await client.call_tool("writes", {})
            assert result.structured_content == {"result": runs[0]}
            assert len(runs) == count


async def test_nobody_gives_up_another_s_request(database_url: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served:
        other = await served.new_key("other", "read", "write")
        session, beside = await session_of(served), await session_of(served)
        others = await session_of(served, other)
        calling = asyncio.create_task(older(served, call(7), session))
        question = await served.question()
        attacks: list[tuple[str, Any, str | None, str | None, int]] = [
            ("another session of the same caller", 7, beside, None, 202),
            ("another caller", 7, others, other, 202),
            ("another caller with this one's session", 7, session, other, 404),
            ("no session", 7, None, None, 202),
            ("another number", 8, session, None, 202),
            ("a text of the same characters", "7", session, None, 202),
            ("a truth", True, session, None, 202),
            ("nothing", None, session, None, 202),
            ("a list", [7], session, None, 202),
        ]
        for name, number, carried, key, status in attacks:
            answered = await older(served, cancelled(number), carried, key)
            assert answered.status_code == status, name
        await until_held(served, 1)
        await served.answer(question, True)
        first = await calling
        assert result_of(first)["structuredContent"] == TEA
        for _, number, carried, key, _ in attacks:
            await older(served, cancelled(number), carried, key)
        new = asyncio.create_task(older(served, call(9), session))
        await served.answer(await served.question(), True)
        assert run_of(await new) != run_of(first)


async def test_a_key_that_may_only_read_leaves_no_rows(database_url: str) -> None:
    async with serving(database_url) as served:
        reader = await served.new_key("reader", "read")
        session = await session_of(served, reader)
        await give_up(served, 7, session, reader)
        assert await served.node.database.value("SELECT count(*) FROM rejoinder.leg") == 0


async def test_a_request_that_is_given_up_before_it_came_begins_its_run(database_url: str) -> None:
    """Two messages of a client may reach two servers in another order."""
    order = Counting()
    async with serving(database_url, order.tool) as served:
        session = await session_of(served)
        await give_up(served, 7, session)
        assert message_of(await older(served, call(7), session))["error"]["code"] == -32800
        again = asyncio.create_task(older(served, call(8), session))
        await served.answer(await served.question(), True)
        assert result_of(await again)["structuredContent"] == TEA
        assert order.started == 1
        # A client that counts wrongly, and uses the number again, has made another request.
        new = asyncio.create_task(older(served, call(7), session))
        await served.answer(await served.question(), True)
        first = run_of(await new)
        assert order.started == 2
        last = asyncio.create_task(older(served, call(7), session))
        await served.answer(await served.question(), True)
        assert run_of(await last) != first


async def test_of_two_that_hold_on_the_one_that_stays_is_told(database_url: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served:
        session = await session_of(served)
        gone = asyncio.create_task(older(served, call(7), session))
        question = await served.question()
        stays = asyncio.create_task(older(served, call(8), session))
        await until_held(served, 2)
        await give_up(served, 7, session)
        await until_held(served, 1)
        await served.answer(question, True)
        assert message_of(await gone)["error"]["code"] == -32800
        told = await stays
        assert result_of(told)["structuredContent"] == TEA
        new = asyncio.create_task(older(served, call(9), session))
        await served.answer(await served.question(), True)
        assert run_of(await new) != run_of(told)


async def test_a_wait_for_a_run_is_let_go_as_well(database_url: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served:
        session = await session_of(served)
        calling = asyncio.create_task(older(served, call(7), session))
        question = await served.question()
        check = call(8) | {"params": {"name": "check_run", "arguments": {"run_id": str(question.run_id)}}}
        checking = asyncio.create_task(older(served, check, session))
        await until_held(served, 2)
        await give_up(served, 8, session)
        assert message_of(await checking)["error"]["code"] == -32800
        await served.answer(question, True)
        assert result_of(await calling)["structuredContent"] == TEA


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
@pytest.mark.parametrize("written", [True, False], ids=["written", "not written"])
async def test_an_end_whose_stream_broke_before_it_was_sent_is_taken_back(
    database_url: str, monkeypatch: pytest.MonkeyPatch, mode: str, written: bool
) -> None:
    """The client is gone between the moment that the end counts as told and its way out."""
    order = Counting()
    async with serving(database_url, order.tool) as served:
        legs, standing, go_on = served.node.legs, asyncio.Event(), asyncio.Event()
        tell = legs.tell

        async def told(request: bytes, run_id: UUID) -> bool:
            found = await tell(request, run_id) if written else False
            standing.set()
            await go_on.wait()
            return found or await tell(request, run_id)

        monkeypatch.setattr(legs, "tell", told)
        async with connected(served, mode) as client:
            calling = asyncio.create_task(client.call_tool("order", {"what": "tea"}))
            await served.answer(await served.question(), True)
            await standing.wait()
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling

        async def taken_back() -> bool:
            found = await served.node.database.value(
                "SELECT count(*) FROM rejoinder.leg WHERE given_up_at IS NOT NULL"
            )
            return bool(found)

        await assert_eventually(taken_back, "what was not sent is not taken back")
        go_on.set()
        monkeypatch.undo()
        async with connected(served, mode) as client:
            assert (await client.call_tool("order", {"what": "tea"})).structured_content == TEA
        assert (order.started, order.ended) == (1, 1)


async def test_the_store_keeps_what_is_given_up_for_a_while(database_url: str, clock: MovableClock) -> None:
    async with running(database_url) as node:
        for at in range(3):
            await node.legs.give_up(bytes([at]))
            await clock.advance(10)
        assert await node.legs.prune(timedelta(seconds=15)) == 1 + 1
        assert await node.database.value("SELECT request FROM rejoinder.leg") == b"\x02"


async def claimed(node: Node, digest: bytes) -> UUID:
    """A run that this call is, new or not."""
    claim = await node.runs.claim(
        digest,
        uuid4(),
        tool="order",
        arguments={},
        door="mcp",
        identity=ANN.name,
        key_id=None,
        owner=node.process.id,
        idempotent=False,
        checkpointed=False,
        trace=None,
        keep=timedelta(hours=1),
        tell_loss=timedelta(days=1),
    )
    return claim.run_id


@pytest.mark.parametrize("seed", range(5))
async def test_an_end_is_its_call_s_until_somebody_has_it(database_url: str, seed: int) -> None:
    """However telling and giving up cross: the same call is the same run just as long as nobody has its end."""
    chance = random.Random(seed)
    async with running(database_url) as node:
        for number in range(8):
            digest = bytes([number])
            run_id = await claimed(node, digest)
            requests = [f"{number}.{leg}".encode() for leg in range(chance.randint(1, 4))]
            named = [request for request in requests if chance.random() < 0.7]
            for request in named:
                await node.legs.begin(request, run_id)
            await node.runs.finish(run_id, 1, "succeeded", result=1)
            acts: list[Any] = [node.legs.tell(request, run_id) for request in requests]
            gone = {request for request in named if chance.random() < 0.6}
            acts += [node.legs.give_up(request) for request in gone for _ in range(chance.randint(1, 2))]
            chance.shuffle(acts)
            if elsewhere := chance.random() < 0.2:
                # Somebody who asked for the run's state was told it there.
                acts.append(node.runs.told(run_id))
            await asyncio.gather(*acts)
            kept = not elsewhere and gone == set(requests)
            assert (await claimed(node, digest) == run_id) == kept, (number, requests, gone, elsewhere)


@pytest.mark.parametrize("first", ["leg", "elsewhere"])
async def test_whoever_was_told_elsewhere_has_the_end(database_url: str, first: str) -> None:
    async with running(database_url) as node:
        run_id = await claimed(node, b"d")
        await node.runs.finish(run_id, 1, "succeeded", result=1)
        if first == "leg":
            assert await node.legs.tell(b"1", run_id)
        await node.runs.told(run_id)
        if first == "elsewhere":
            assert await node.legs.tell(b"1", run_id)
        assert await node.legs.give_up(b"1") == run_id
        assert await claimed(node, b"d") != run_id


def test_what_a_client_s_number_comes_to() -> None:
    numbers: list[Any] = [1, 2, "1", "", 0, -1, 10**30]
    found = {request_of(by, session, number) for by in (ANN,) for session in "ab" for number in numbers}
    assert len(found) == 2 * len(numbers)
    assert None not in found
    no_numbers: list[Any] = [None, True, 1.5, [1], {}]
    for no_number in no_numbers:
        assert request_of(ANN, "a", no_number) is None
