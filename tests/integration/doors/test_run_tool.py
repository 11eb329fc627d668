"""``POST /api/run-tool``: what it answers, and that a caller who leaves takes the run along."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import uvicorn

from rejoinder.contract.errors import InteractionCancelledError
from rejoinder.doors import blocking
from rejoinder.runs.ask import ask
from rejoinder.runs.context import current_run
from rejoinder.runs.tools import tool
from tests.integration.doors.edge import edge, served
from tests.support import MovableClock, assert_eventually


@tool
async def double(number: int, label: str = "") -> int:
    """Twice the number."""
    return number * 2


@tool
async def nothing() -> None:
    """Returns nothing."""


@tool
async def broken() -> None:
    """Raises an error that holds a secret."""
    raise ValueError("the password is hunter2")


async def test_a_tool_s_result(database_url: str) -> None:
    async with edge(database_url, double, nothing) as e:
        for name, arguments, data in (
            ("double", {"number": 21}, {"kind": "result", "result": 42}),
            ("double", {"number": 10**30}, {"kind": "result", "result": 2 * 10**30}),
            ("nothing", {}, {"kind": "none", "result": None}),
            ("nothing", None, {"kind": "none", "result": None}),
        ):
            reply = await e.owner.post("/api/run-tool", json={"tool_name": name, "arguments": arguments})
            assert (reply.status_code, reply.json()) == (200, {"data": data})
        assert (await e.owner.post("/api/run-tool", json={"tool_name": "nothing"})).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 400, "tool_name"),
        ({"tool_name": 1}, 400, "tool_name"),
        ({"tool_name": ""}, 400, "tool_name"),
        ({"tool_name": "absent"}, 404, "tool_name"),
        ({"tool_name": "\x00"}, 404, "tool_name"),
        ({"tool_name": "double", "arguments": [1]}, 400, "arguments"),
        ({"tool_name": "double", "arguments": {}}, 400, "number"),
        ({"tool_name": "double", "arguments": {"number": "many"}}, 400, "number"),
        ({"tool_name": "double", "arguments": {"number": 1, "other": 1}}, 400, "other"),
        ({"tool_name": "double", "arguments": {"number": 1, "label": "\x00"}}, 400, "arguments"),
        ({"tool_name": "double", "arguments": {"number": 1}, "reason": "x"}, 400, "reason"),
        ({"tool_name": "ask", "arguments": {"question": ""}}, 400, "question"),
        ({"tool_name": "ask", "arguments": {"question": "?", "timeout": -1}}, 400, "timeout"),
        ({"tool_name": "ask", "arguments": {"question": "?", "answer_format": "select"}}, 400, "options"),
        (
            {
                "tool_name": "ask",
                "arguments": {"question": "?", "mode": "async", "expiry_at": "2030-01-01T00:00:00"},
            },
            400,
            "expiry_at",
        ),
    ],
)
async def test_a_mistake_of_the_caller_names_its_field(
    database_url: str, body: Any, status: int, field: str
) -> None:
    async with edge(database_url, double) as e:
        refused = await e.owner.post("/api/run-tool", json=body)
        assert (refused.status_code, refused.json()["field"]) == (status, field)
        background = await e.owner.post("/api/tool-runs", json=body)
        if body.get("tool_name") != "ask":
            # What a tool finds wrong by itself is known only once a worker runs it.
            assert (background.status_code, background.json()["field"]) == (status, field)
            assert await e.node.database.value("SELECT count(*) FROM rejoinder.run") == 0
        assert await e.node.database.value("SELECT count(*) FROM rejoinder.question") == 0


async def test_a_fault_of_the_tool_is_in_the_log_and_not_in_the_answer(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with edge(database_url, broken) as e:
        failed = await e.owner.post("/api/run-tool", json={"tool_name": "broken"})
        body = failed.json()
        assert (failed.status_code, body["code"]) == (500, "tool-failed")
        assert "hunter2" not in failed.text
        assert "Traceback" not in failed.text
        assert body["id"] == failed.headers["x-request-id"]
        assert body["id"] in caplog.text


async def test_nobody_answers_in_time(database_url: str, clock: MovableClock) -> None:
    async with edge(database_url) as e:
        asked = await e.ask(timeout=600)
        await clock.advance(601)
        e.node.deadlines.look()
        ended = await asked.call
        assert (ended.status_code, ended.json()["code"]) == (504, "interaction-timeout")


async def test_too_many_open_questions(database_url: str) -> None:
    async with edge(database_url, interactions_max_concurrent=1) as e:
        asked = await e.ask()
        refused = await e.owner.post(
            "/api/run-tool", json={"tool_name": "ask", "arguments": {"question": "One more?"}}
        )
        assert (refused.status_code, refused.json()["code"]) == (503, "interaction-limit")
        assert refused.headers["retry-after"]
        await asked.end()


async def test_a_parked_run_is_told_at_once(database_url: str) -> None:
    async with edge(database_url) as e:
        arguments = {
            "question": "?",
            "mode": "async",
            "expiry_at": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
        }
        reply = await e.owner.post("/api/run-tool", json={"tool_name": "ask", "arguments": arguments})
        data = reply.json()["data"]
        assert data["kind"] == "parked"
        inner = data["result"]["tai42:suspended_interaction"]
        assert inner["interaction_ids"] == [inner["interaction_id"]]
        assert (await e.open_ids()) == {inner["interaction_id"]}
        run = (await e.owner.get(f"/api/tool-runs/{reply.headers['x-rejoinder-run-id']}")).json()["data"]
        assert run["status"] == "parked"


async def test_a_caller_that_disconnects_withdraws_what_it_asked(database_url: str) -> None:
    ended: list[str] = []

    @tool
    async def watched() -> None:
        try:
            await ask("Still there?")
        except BaseException as error:
            ended.append(type(error).__name__)
            raise

    async with served(database_url, watched) as e:
        asked = await e.call("watched", {})
        await asked.end()  # closes the connection

        async def withdrawn() -> bool:
            return await e.state(asked.id) == "cancelled"

        await assert_eventually(withdrawn, "the question stayed open")
        reason = await e.node.database.value("SELECT reason FROM rejoinder.question")
        assert reason == "asker gone"
        await assert_eventually(lambda: ended == ["CancelledError"], "the tool was not cancelled")
        late = await e.owner.post(f"/api/interactions/{asked.id}/answer", json={"answer": "yes"})
        assert late.status_code == 409
        assert "gone" in late.json()["error"]


async def test_a_caller_whose_key_is_revoked_waits_no_longer(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "LOOK_AGAIN", 0.05)
    async with served(database_url) as e, await e.client("ann", "read", "write") as ann:
        hers, owners = await e.ask(ann), await e.ask()
        assert (await e.owner.delete("/api/keys/ann")).status_code == 200
        refused = await hers.call
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        assert await e.state(hers.id) == "cancelled"
        late = await e.owner.post(f"/api/interactions/{hers.id}/answer", json={"answer": "yes"})
        assert late.status_code == 409
        # Whose key is live waits on, however often that was looked at.
        answer = await e.owner.post(f"/api/interactions/{owners.id}/answer", json={"answer": "yes"})
        assert answer.status_code == 200
        assert (await owners.call).json()["data"]["result"]["answer"] == "yes"


async def test_a_caller_that_disconnects_while_the_tool_works_ends_it(database_url: str) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def forever() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with served(database_url, forever) as e:
        call = asyncio.create_task(e.owner.post("/api/run-tool", json={"tool_name": "forever"}))
        await began.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await assert_eventually(ended.is_set, "the tool went on")


async def test_a_tool_that_outlives_its_cancelling_does_not_break_the_connection(database_url: str) -> None:
    @tool
    async def stubborn() -> str:
        try:
            await ask("Well?")
        except InteractionCancelledError:
            return "withdrawn"
        return "answered"

    async with served(database_url, stubborn) as e:
        asked = await e.call("stubborn", {})
        await e.owner.post(f"/api/interactions/{asked.id}/cancel")
        assert (await asked.call).json()["data"]["result"] == "withdrawn"
        assert (await e.owner.get("/health")).status_code == 200


async def test_any_server_takes_it_for_what_it_is(database_url: str) -> None:
    async with edge(database_url) as e:
        assert uvicorn.Config(e.app).app is e.app
        config = uvicorn.Config(e.app, log_config=None)
        config.load()
        assert config.interface == "asgi3"


async def test_the_run_acts_as_its_caller(database_url: str) -> None:
    @tool
    async def whoami() -> str:
        return current_run().identity.name

    async with edge(database_url, whoami) as e:
        ann = await e.client("ann", "write")
        reply = await ann.post("/api/run-tool", json={"tool_name": "whoami"})
        assert reply.json()["data"]["result"] == "ann"


async def test_many_callers_are_blocked_and_answered_at_once(database_url: str) -> None:
    async with served(database_url) as e:
        calls = [
            asyncio.create_task(
                e.owner.post("/api/run-tool", json={"tool_name": "ask", "arguments": {"question": f"{i}"}})
            )
            for i in range(60)
        ]

        async def all_open() -> set[str] | None:
            found = await e.open_ids()
            return found if len(found) == 60 else None

        found = await assert_eventually(all_open, "not all were asked")
        assert found is not None
        answers = await asyncio.gather(
            *(e.owner.post(f"/api/interactions/{one}/answer", json={"answer": one}) for one in found)
        )
        assert {a.status_code for a in answers} == {200}
        results = await asyncio.gather(*calls)
        assert {r.json()["data"]["result"]["answer"] for r in results} == found
