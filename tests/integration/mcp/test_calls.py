"""Calls over MCP that ask a person: answered in time, too late for the request, dropped, repeated."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from mcp_types import CallToolResult, ElicitResult

from rejoinder import Context
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from tests.integration.mcp.serving import LEGACY, MODERN, Served, connected, serving
from tests.integration.nodes import BOB
from tests.support import MovableClock, assert_eventually

both = pytest.mark.parametrize("mode", [MODERN, LEGACY])


def text_of(result: CallToolResult) -> str:
    return " ".join(getattr(block, "text", "") for block in result.content)


def pending_of(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error
    found: dict[str, Any] = result.structured_content["rejoinder:pending"]
    return found


class Counting:
    """A tool that counts how often it ran."""

    def __init__(self) -> None:
        self.started = 0
        self.ended = 0

        @tool
        async def order(what: str) -> dict[str, Any]:
            """Order something, once somebody says yes."""
            self.started += 1
            answer = await ask(f"Order {what}?", answer_format="confirm")
            self.ended += 1
            return {"ordered": answer.answer, "what": what}

        self.tool = order


async def until_released(served: Served) -> None:
    """Until no request holds on to a call."""
    await until_held(served, 0)


async def until_held(served: Served, requests: int) -> None:
    """Until so many requests hold on to calls."""
    calls = served.door._calls
    assert calls is not None
    await assert_eventually(lambda: calls.held == requests, f"not {requests} requests hold on")


@both
async def test_an_answer_meanwhile_is_the_result(database_url: str, mode: str) -> None:
    order = Counting()
    heard: list[tuple[float, str | None]] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async with serving(database_url, order.tool) as served, connected(served, mode) as client:
        call = asyncio.create_task(client.call_tool("order", {"what": "tea"}, progress_callback=told))
        question = await served.question()
        await assert_eventually(lambda: len(heard) >= 3, "no progress was told")
        await served.answer(question, True)
        result = await call
    assert not result.is_error
    assert result.structured_content == {"ordered": True, "what": "tea"}
    assert '"ordered": true' in text_of(result)
    steps = [done for done, _ in heard]
    assert steps == sorted(set(steps))
    assert ("waiting for a person: Order tea?") in {message for _, message in heard}
    assert result.meta is not None
    assert UUID(result.meta["rejoinder/run_id"]) == question.run_id


@both
async def test_the_same_call_takes_a_pending_run_up_again(database_url: str, mode: str) -> None:
    order = Counting()
    async with (
        serving(database_url, order.tool, rejoinder_mcp_hold_seconds=0.3) as served,
        connected(served, mode) as client,
    ):
        first = await client.call_tool("order", {"what": "tea"})
        question = await served.question()
        told = pending_of(first)
        assert told["run_id"] == str(question.run_id)
        assert told["interaction_ids"] == [str(question.id)]
        assert "check_run" in text_of(first)
        assert "Order tea?" in text_of(first)
        again = await client.call_tool("order", {"what": "tea"})
        assert pending_of(again)["run_id"] == told["run_id"]
        await served.answer(question, True)
        done = await client.call_tool("order", {"what": "tea"})
        assert done.structured_content == {"ordered": True, "what": "tea"}
        assert (order.started, order.ended) == (1, 1)
        # It was told, so that the same words now mean a new order.
        new = await client.call_tool("order", {"what": "tea"})
        assert pending_of(new)["run_id"] != told["run_id"]
        assert order.started == 2


@both
async def test_other_arguments_and_other_callers_are_other_runs(database_url: str, mode: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool, rejoinder_mcp_hold_seconds=0.2) as served:
        other = await served.new_key("other", "read", "write")
        runs = set()
        for key, what in [(served.key, "tea"), (served.key, "coffee"), (other, "tea")]:
            async with connected(served, mode, key) as client:
                runs.add(pending_of(await client.call_tool("order", {"what": what}))["run_id"])
        assert len(runs) == 3


@both
async def test_check_run_waits_and_gives_the_result(database_url: str, mode: str) -> None:
    order = Counting()
    async with (
        serving(database_url, order.tool, rejoinder_mcp_hold_seconds=0.3) as served,
        connected(served, mode) as client,
    ):
        run_id = pending_of(await client.call_tool("order", {"what": "tea"}))["run_id"]
        question = await served.question()
        still = await client.call_tool("check_run", {"run_id": run_id, "wait_seconds": 0})
        assert pending_of(still)["interaction_ids"] == [str(question.id)]
        await served.answer(question, False)
        done = await client.call_tool("check_run", {"run_id": run_id})
        assert done.structured_content == {"ordered": False, "what": "tea"}
        # Told already, and no longer held here: the store has it.
        stored = await client.call_tool("check_run", {"run_id": run_id})
        assert stored.structured_content == {"ordered": False, "what": "tea"}
        # The store forgets results before it forgets runs.
        await served.node.database.execute(
            "UPDATE rejoinder.run SET result = NULL, finished_at = clock_timestamp() - interval '2 days'"
        )
        forgotten = await client.call_tool("check_run", {"run_id": run_id})
        assert forgotten.structured_content["code"] == "result-gone"
        assert order.started == 1


@both
async def test_a_client_that_goes_away_loses_nothing(database_url: str, mode: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served:
        async with connected(served, mode) as client:
            call = asyncio.create_task(client.call_tool("order", {"what": "tea"}))
            question = await served.question()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await until_released(served)
        still = await served.node.questions.by_id(question.id)
        assert still is not None
        assert still.state == "pending"
        await served.answer(question, True)
        await assert_eventually(lambda: order.ended == 1, "the run did not go on")
        async with connected(served, mode) as client:
            done = await client.call_tool("order", {"what": "tea"})
        assert done.structured_content == {"ordered": True, "what": "tea"}
        assert order.started == 1


@both
async def test_twenty_calls_at_once(database_url: str, mode: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served, connected(served, mode) as client:
        calls = [asyncio.create_task(client.call_tool("order", {"what": str(i)})) for i in range(20)]
        for question in await served.questions(20):
            await served.answer(question, True)
        results = await asyncio.gather(*calls)
    assert [r.structured_content for r in results] == [{"ordered": True, "what": str(i)} for i in range(20)]
    assert order.started == 20


@both
async def test_the_same_call_twice_at_once_is_one_run(database_url: str, mode: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served, connected(served, mode) as client:
        calls = [asyncio.create_task(client.call_tool("order", {"what": "tea"})) for _ in range(5)]
        await served.answer(await served.question(), True)
        results = await asyncio.gather(*calls)
    assert len({r.meta["rejoinder/run_id"] for r in results if r.meta}) == 1
    assert order.started == 1


@both
async def test_a_parked_run_is_a_sentinel_and_then_a_result(database_url: str, mode: str) -> None:
    moment = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    arguments = {"question": "Where?", "mode": "async", "expiry_at": moment}
    async with (
        serving(database_url, worker=True, rejoinder_mcp_hold_seconds=10) as served,
        connected(served, mode) as client,
    ):
        await client.list_tools()
        parked = await client.call_tool("ask", arguments)
        question = await served.question()
        sentinel = parked.structured_content["tai42:suspended_interaction"]
        assert sentinel["interaction_ids"] == [str(question.id)]
        assert "parked" in text_of(parked)
        assert parked.meta is not None
        run_id = parked.meta["rejoinder/run_id"]
        still = await client.call_tool("check_run", {"run_id": run_id, "wait_seconds": 0})
        assert pending_of(still)["interaction_ids"] == [str(question.id)]
        waiting = asyncio.create_task(client.call_tool("check_run", {"run_id": run_id}))
        await served.answer(question, "Here")
        assert (await waiting).structured_content == {"answer": "Here", "reply_to": None, "params": None}


@both
async def test_how_an_ask_ends_without_an_answer(database_url: str, clock: MovableClock, mode: str) -> None:
    async with serving(database_url) as served, connected(served, mode) as client:
        call = asyncio.create_task(client.call_tool("ask", {"question": "Now?", "timeout": 600}))
        await served.question()
        await clock.advance(601)
        served.node.deadlines.look()
        lapsed = await call
        assert lapsed.is_error
        assert lapsed.structured_content["code"] == "interaction-timeout"
        assert "600 seconds" in text_of(lapsed)

        call = asyncio.create_task(client.call_tool("ask", {"question": "And now?"}))
        question = await served.question()
        await served.node.asks.cancel(question.id, by=BOB, via="test")
        withdrawn = await call
        assert withdrawn.is_error
        assert withdrawn.structured_content["code"] == "interaction-cancelled"


@both
async def test_a_server_that_stops_tells_its_callers(database_url: str, mode: str) -> None:
    order = Counting()
    async with serving(database_url, order.tool) as served, connected(served, mode) as client:
        call = asyncio.create_task(client.call_tool("order", {"what": "tea"}))
        question = await served.question()
        await served.door.close()
        result = await call
        assert result.is_error
        assert result.structured_content["code"] == "not-ready"
        gone = await served.node.questions.by_id(question.id)
        assert gone is not None
        assert gone.state == "cancelled"


@both
async def test_another_server_takes_the_same_call_up(database_url: str, mode: str) -> None:
    here, there = Counting(), Counting()
    async with (
        serving(database_url, here.tool, rejoinder_mcp_hold_seconds=0.3) as one,
        serving(database_url, there.tool, key=one.key, rejoinder_mcp_hold_seconds=10) as two,
    ):
        async with connected(one, mode) as client:
            told = pending_of(await client.call_tool("order", {"what": "tea"}))
        async with connected(two, mode) as client:
            again = asyncio.create_task(client.call_tool("order", {"what": "tea"}))
            calls = await assert_eventually(lambda: two.door._calls, "the call did not come")
            assert calls is not None
            await assert_eventually(lambda: calls.held == 1, "the call is not held")
            await two.answer(await two.question(), True)
            done = await again
        assert done.structured_content == {"ordered": True, "what": "tea"}
        assert done.meta is not None
        assert done.meta["rejoinder/run_id"] == told["run_id"]
    assert (here.started, there.started) == (1, 0)


@both
async def test_a_lost_run_is_told_and_begun_anew(database_url: str, mode: str) -> None:
    order, anew = Counting(), Counting()
    async with (
        serving(database_url, order.tool, rejoinder_mcp_hold_seconds=0.3) as one,
        serving(database_url, anew.tool, key=one.key) as two,
    ):
        async with connected(one, mode) as client:
            told = pending_of(await client.call_tool("order", {"what": "tea"}))
        # What the others do when they find the first one dead.
        await one.node.process.leave("found dead")
        async with connected(two, mode) as client:
            lost = await client.call_tool("check_run", {"run_id": told["run_id"]})
            assert lost.is_error
            assert lost.structured_content["code"] == "run-lost"
            again = asyncio.create_task(client.call_tool("order", {"what": "tea"}))
            await two.answer(await two.question(), True)
            done = await again
        assert done.structured_content == {"ordered": True, "what": "tea"}
        assert done.meta is not None
        assert done.meta["rejoinder/lost_run_id"] == told["run_id"]
        assert told["run_id"] in text_of(done)
    assert (order.started, anew.started) == (1, 1)


async def test_what_is_held_in_memory_is_bounded(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    order = Counting()
    async with (
        serving(database_url, order.tool, rejoinder_mcp_hold_seconds=0.1) as served,
        connected(served, MODERN) as client,
    ):
        monkeypatch.setattr("rejoinder.mcp.calls.MOST_GOING", 2)
        runs = [pending_of(await client.call_tool("order", {"what": w}))["run_id"] for w in ("a", "b")]
        refused = await client.call_tool("order", {"what": "c"})
        assert refused.is_error
        assert refused.structured_content["code"] == "tool-runs-at-capacity"
        # A call that goes on already is no new one.
        assert pending_of(await client.call_tool("order", {"what": "a"}))["run_id"] == runs[0]

        for question in await served.questions(2):
            await served.answer(question, True)
        calls = served.door._calls
        assert calls is not None
        await assert_eventually(lambda: not calls._driven, "an ended call is kept in memory")
        assert pending_of(await client.call_tool("order", {"what": "c"}))
        # The store has what memory forgot, and for an hour the same call is answered with it.
        done = await client.call_tool("check_run", {"run_id": runs[0]})
        assert done.structured_content["ordered"] is True
        done = await client.call_tool("order", {"what": "a"})
        assert done.meta is not None
        assert done.meta["rejoinder/run_id"] == runs[0]
        await served.node.database.execute(
            "UPDATE rejoinder.run SET finished_at = clock_timestamp() - interval '2 hours' WHERE id = $1",
            UUID(runs[1]),
        )
        new = pending_of(await client.call_tool("order", {"what": "b"}))
        assert new["run_id"] != runs[1]
        assert not calls._watched or set(calls._watched) <= {UUID(new["run_id"])}


@both
async def test_a_tool_s_own_progress_reaches_the_client(database_url: str, mode: str) -> None:
    @tool
    async def counts(ctx: Context) -> str:
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100, f"{done} of 100")
        await ask("Go on?")
        return "done"

    heard: list[tuple[float, float | None, str | None]] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with serving(database_url, counts) as served, connected(served, mode) as client:
        call = asyncio.create_task(client.call_tool("counts", {}, progress_callback=told))
        question = await served.question()
        await assert_eventually(lambda: len(heard) >= 5, "the wait was not told")
        await served.answer(question, "yes")
        await call
    assert heard[:3] == [(0, 100, "0 of 100"), (50, 100, "50 of 100"), (100, 100, "100 of 100")]
    assert heard[4][2] == "waiting for a person: Go on?"
    steps = [done for done, _, _ in heard]
    assert steps == sorted(set(steps)), "the protocol wants every number to be higher than the one before"


@both
async def test_the_same_call_on_two_servers_at_once_is_one_run(database_url: str, mode: str) -> None:
    """Before either has asked anything: the call itself is the row that one of them claims."""
    here, there = Counting(), Counting()
    async with (
        serving(database_url, here.tool) as one,
        serving(database_url, there.tool, key=one.key) as two,
        connected(one, mode) as first,
        connected(two, mode) as second,
    ):
        await asyncio.gather(first.list_tools(), second.list_tools())
        clients = [first, second] * 5
        calls = [asyncio.create_task(client.call_tool("order", {"what": "tea"})) for client in clients]
        doors = [one.door._calls, two.door._calls]
        await assert_eventually(
            lambda: sum(door.held for door in doors if door) == 10, "the calls are not held"
        )
        await one.answer(await one.question(), True)
        results = await asyncio.gather(*calls)
        assert all(r.structured_content == {"ordered": True, "what": "tea"} for r in results)
        assert len({r.meta["rejoinder/run_id"] for r in results if r.meta}) == 1
    assert here.started + there.started == 1


@both
async def test_a_call_that_waits_for_approval_is_approved_by_people_only(
    database_url: str, mode: str
) -> None:
    paid: list[int] = []

    @tool(requires_approval=True)
    async def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    asked: list[Any] = []

    async def person(_context: Any, params: Any) -> ElicitResult:
        asked.append(params)
        return ElicitResult(action="accept", content={"decision": "approve"})

    async with serving(database_url, pay, rejoinder_mcp_hold_seconds=0.3) as served:
        async with connected(served, mode) as client:
            told = pending_of(await client.call_tool("pay", {"amount": 5}))
            assert told["message"] == "waiting for a person: pay: approve this call?"
        async with connected(served, mode, elicit=person) as client:
            question = await served.question()
            payload = question.format_payload
            assert payload is not None
            answer = {"decision": "approve", "digest": payload["digest"]}
            resolving = {"interaction_id": str(question.id), "payload": answer}
            refused = await client.call_tool("resume_parked", resolving)
            assert refused.is_error
            assert refused.structured_content["code"] == "wrong-audience"
            assert paid == []
            await served.answer(question, answer)
            done = await client.call_tool("pay", {"amount": 5})
            assert done.structured_content == {"result": "paid 5"}
    assert asked == []
    assert paid == [5]
