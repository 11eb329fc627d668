"""Asking the caller: what it is told, who may answer, and what becomes of a chain of runs that call each other."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from rejoinder import SuspendedInteraction, ask, call_tool, tool
from rejoinder.contract import pause
from rejoinder.contract.answers import KILLED_KEY, AskAnswer
from rejoinder.contract.errors import (
    AnswerMismatchError,
    AskArgumentError,
    CallerAskError,
    InteractionLimitError,
    InteractionNotFoundError,
    ParkableRunFailedError,
    ParkedEntryGoneError,
    RejoinderError,
    RunTerminalFailed,
    SuspensionError,
    ToolFailedError,
    VisitRequestError,
    WrongAudienceError,
)
from rejoinder.contract.identity import Identity
from rejoinder.node import Node
from rejoinder.runs.outcome import RunResult
from rejoinder.runs.tools import Tool
from rejoinder.store.processes import ThisProcess
from rejoinder.tools.interactions import list_parked, resume_parked
from tests.integration.core.support import assert_sound, in_an_hour, run_reaches, the_question
from tests.integration.nodes import ANN, BOB, running
from tests.support import MovableClock, assert_eventually

CHIEF = Identity(name="chief", grants=frozenset(("read", "write", "admin")))


@tool
async def child(word: str = "size", on_expiry: Any = "kill", fail: str | None = None) -> Any:
    """Asks its caller, and returns what that said."""
    return await ask(
        to="caller",
        mode="async",
        payload={"need": word},
        answer_format="free",
        expiry_at=in_an_hour(),
        on_expiry=on_expiry,
    )


@child.continuation
async def child_goes_on(ask_result: AskAnswer[Any], arguments: dict[str, Any]) -> Any:
    if arguments["fail"] == "meant":
        raise RunTerminalFailed("the child gave up")
    if arguments["fail"] == "once" and failures.pop("once", None):
        raise ZeroDivisionError
    return {"got": ask_result.answer}


@tool
async def asks_a_person(on_expiry: Any = "kill") -> Any:
    return await ask("A person?", mode="async", expiry_at=in_an_hour(), on_expiry=on_expiry)


@asks_a_person.continuation
async def was_told(ask_result: AskAnswer[Any]) -> Any:
    return ask_result.answer


@tool
async def parent(name: str = "child", given: dict[str, Any] | None = None, on_failure: str = "kill") -> Any:
    """Calls another tool and waits for it, whatever that takes."""
    entered["parent"] += 1
    found = await call_tool(name, given, on_failure=on_failure)
    return found if isinstance(found, SuspendedInteraction) else {"at once": found}


@parent.continuation
async def parent_goes_on(ask_result: AskAnswer[Any]) -> Any:
    entered["parent goes on"] += 1
    return {"child": ask_result.answer}


entered: Counter[str] = Counter()
failures: dict[str, bool] = {}
TOOLS: tuple[Tool, ...] = (child, asks_a_person, parent)


@pytest.fixture(autouse=True)
def _begin_anew() -> None:
    entered.clear()
    failures.clear()


async def call(node: Node, name: str, /, by: Identity = ANN, **arguments: Any) -> RunResult:
    return await node.run_service.call(name, arguments, by=by, door="run-tool")


def asked(result: RunResult) -> list[UUID]:
    assert result.kind == "asks"
    return [UUID(one["interaction_id"]) for one in result.result["asks"]]


async def resume(node: Node, run_id: UUID, answers: dict[UUID, Any], by: Identity = ANN) -> RunResult:
    return await node.visits.resume(run_id, answers, by=by, via="test", seconds=20)


async def states(node: Node, *run_ids: UUID) -> list[str]:
    return [str(run.state) for one in run_ids if (run := await node.runs.by_id(one)) is not None]


async def children_of(node: Node, run_id: UUID) -> list[UUID]:
    rows = await node.database.rows("SELECT id FROM rejoinder.run WHERE parent_run_id = $1", run_id)
    return [row["id"] for row in rows]


async def test_the_caller_is_told_and_resumes_the_run(database_url: str) -> None:
    async with running(database_url, *TOOLS, worker=True) as node:
        first = await call(node, "child", word="colour")
        [identifier] = asked(first)
        [one] = first.result["asks"]
        assert one["payload"] == {"need": "colour"}
        assert one["question"] is None
        assert first.result["run_id"] == one["run_id"] == str(first.run_id)
        sentinel = first.result["tai42:suspended_interaction"]
        assert sentinel["caller_interaction_ids"] == sentinel["interaction_ids"] == [str(identifier)]
        done = await resume(node, first.run_id, {identifier: ["blue", 1]})
        assert (done.kind, done.result) == ("result", {"got": ["blue", 1]})
        # Its reply was lost: the same once more finds it done.
        again = await resume(node, first.run_id, {identifier: ["blue", 1]})
        assert again.result == done.result
        with pytest.raises(ParkedEntryGoneError):
            await resume(node, first.run_id, {identifier: "red"})
        await assert_sound(database_url)


async def test_nobody_else_sees_it(database_url: str) -> None:
    async with running(database_url, *TOOLS) as node, node.tail.subscribe(CHIEF, None) as (_, stream):
        [identifier] = asked(await call(node, "child"))
        assert await node.asks.page(by=CHIEF, limit=10) == []
        assert await node.asks.count(by=CHIEF, cap=10) == 0
        assert await node.asks.parked(by=CHIEF, limit=10) == []
        with pytest.raises(InteractionNotFoundError):
            await node.asks.get(identifier, by=ANN)
        # What a person is asked afterwards is the first that the stream shows.
        await call(node, "asks_a_person")
        person = await the_question(node)
        await node.asks.answer(identifier, "x", by=ANN, via="test", as_caller=True)
        await node.asks.cancel(person.id, by=ANN, via="test")
        frames = [await stream.next(20), await stream.next(20)]
        assert all(frame is not None and str(person.id).encode() in frame for frame in frames)
        assert await stream.next(0.2) is None


async def test_only_the_caller_answers(database_url: str) -> None:
    async with running(database_url, *TOOLS, worker=True) as node:
        first = await call(node, "child")
        [identifier] = asked(first)
        for by in (ANN, BOB, CHIEF):
            with pytest.raises(CallerAskError):
                await node.asks.answer(identifier, "x", by=by, via="http")
        for by in (BOB, CHIEF):
            with pytest.raises(WrongAudienceError):
                await resume(node, first.run_id, {identifier: "x"}, by)
        with pytest.raises(WrongAudienceError):
            await node.asks.cancel(identifier, by=BOB, via="http")
        assert await states(node, first.run_id) == ["parked"]
        refused = await node.events.page(interaction_id=identifier, kind="answer.refused")
        assert {one.actor for one in refused} == {"bob", "chief"}
        # An administrator may end what its caller has forgotten.
        await node.asks.cancel(identifier, by=CHIEF, via="http")
        assert await states(node, first.run_id) == ["cancelled"]
        with pytest.raises(ParkedEntryGoneError):
            await resume(node, first.run_id, {identifier: "x"})
        await assert_sound(database_url)


async def test_nothing_is_changed_by_answers_that_cannot_all_be_given(database_url: str) -> None:
    @tool
    async def two() -> Any:
        return [
            await ask("a?", to="caller", mode="async", answer_format="confirm", expiry_at=in_an_hour()),
            await ask("b?", to="caller", mode="async", expiry_at=in_an_hour()),
        ]

    @two.continuation
    async def both(answers: dict[UUID, AskAnswer[Any]]) -> Any:
        return [one.answer for one in answers.values()]

    async with running(database_url, *TOOLS, two, worker=True) as node:
        first = await call(node, "two")
        other = asked(await call(node, "child"))[0]
        a, b = sorted(asked(first), key=lambda one: [str(x) for x in asked(first)].index(str(one)))
        for answers, rule in (
            ({}, "no-answer"),
            ({a: True, uuid4(): 1}, "unknown-entry"),
            ({a: True, other: 1}, "unknown-entry"),
        ):
            with pytest.raises(VisitRequestError) as refused:
                await resume(node, first.run_id, answers)
            assert refused.value.rule == rule
        with pytest.raises(AnswerMismatchError):
            await resume(node, first.run_id, {a: True, b: 7})
        one = await resume(node, first.run_id, {b: "yes"})
        assert asked(one) == [a], "half of the answers resume nothing"
        done = await resume(node, first.run_id, {a: False})
        assert done.result == [False, "yes"]
        await assert_sound(database_url)


CALLER = {"to": "caller", "mode": "async", "expiry_at": datetime(2090, 1, 1, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("mode", CALLER | {"question": "?", "mode": "sync", "expiry_at": None}),
        ("question", CALLER),
        ("question", CALLER | {"question": ""}),
        ("audience", CALLER | {"question": "?", "audience": "ann"}),
        ("payload", CALLER | {"payload": {"x": object()}}),
        ("payload", CALLER | {"payload": "x" * 300_000}),
        ("payload", CALLER | {"payload": "\x00"}),
        ("payload", CALLER | {"payload": {"x": float("nan")}}),
        ("payload", CALLER | {"to": "user", "question": "?", "payload": 1}),
        ("answer_format", CALLER | {"to": "user", "question": "?", "answer_format": "free"}),
        ("answer_format", CALLER | {"question": "?", "answer_format": "external"}),
        ("to", CALLER | {"question": "?", "to": "everybody"}),
        ("expiry_at", CALLER | {"question": "?", "expiry_at": None}),
        ("expiry_at", CALLER | {"question": "?", "expiry_at": datetime.fromisoformat("2090-01-01T00:00")}),
        ("expiry_at", CALLER | {"question": "?", "expiry_at": datetime(2020, 1, 1, tzinfo=UTC)}),
        ("timeout", CALLER | {"question": "?", "timeout": 5}),
    ],
)
async def test_what_cannot_be_asked_is_refused_by_its_parameter(
    database_url: str, field: str, arguments: dict[str, Any]
) -> None:
    @tool
    async def wrong() -> Any:
        given = dict(arguments)
        return await ask(given.pop("question", None), **given)

    @wrong.continuation
    async def never() -> None: ...

    async with running(database_url, wrong) as node:
        with pytest.raises(AskArgumentError) as refused:
            await call(node, "wrong")
        assert refused.value.field == field
        assert await node.database.value("SELECT count(*) FROM rejoinder.question") == 0


async def test_the_cap_is_exact_and_the_people_s_own(database_url: str) -> None:
    async with running(
        database_url, *TOOLS, interactions_max_concurrent_caller=3, interactions_max_concurrent=1
    ) as node:
        await call(node, "asks_a_person")
        outcomes = await asyncio.gather(*(call(node, "child") for _ in range(8)), return_exceptions=True)
        refused = [one for one in outcomes if isinstance(one, BaseException)]
        assert len(refused) == 5
        assert all(isinstance(one, InteractionLimitError) for one in refused)
        assert str(refused[0]) == "ask refused: already at the max_concurrent_caller limit (3)"
        parked = next(one for one in outcomes if isinstance(one, RunResult))
        await node.asks.answer(asked(parked)[0], 1, by=ANN, via="test", as_caller=True)
        await call(node, "child")
        await assert_sound(database_url)


async def test_a_run_that_never_parks_is_called_like_a_function(database_url: str) -> None:
    @tool
    async def plain(value: int) -> int:
        if value < 0:
            raise ZeroDivisionError
        return value + 1

    async with running(database_url, *TOOLS, plain) as node:
        done = await call(node, "parent", name="plain", given={"value": 1})
        assert done.result == {"at once": 2}
        with pytest.raises(ToolFailedError):
            await call(node, "parent", name="plain", given={"value": -1})
        with pytest.raises(RejoinderError) as refused:
            await call(node, "parent", name="plain", given={"wrong": 1})
        assert refused.value.field == "value"
        [inner] = await children_of(node, done.run_id)
        run = await node.runs.by_id(inner)
        assert run is not None
        assert (run.state, run.result, run.identity, run.door) == ("succeeded", 2, "ann", "nested")
        await assert_sound(database_url)


async def test_a_chain_hands_the_question_up_and_the_answer_down(database_url: str) -> None:
    async with running(database_url, *TOOLS, worker=True) as node:
        first = await call(node, "parent", name="parent", given={"name": "child"})
        [identifier] = asked(first)
        assert first.result["asks"][0]["tool"] == "child"
        done = await resume(node, first.run_id, {identifier: "L"})
        assert done.result == {"child": {"child": {"got": "L"}}}
        assert entered == {"parent": 2, "parent goes on": 2}
        await assert_sound(database_url)


async def test_a_calling_run_answers_what_it_can(database_url: str) -> None:
    @tool
    async def knows() -> Any:
        found = await call_tool("child", {"word": "colour"})
        assert isinstance(found, SuspendedInteraction)
        [one] = found.asks
        assert one.payload == {"need": "colour"}
        told = await resume_parked(str(one.interaction_id), "blue")
        assert told["status"] == "answered"
        return found

    @knows.continuation
    async def known(ask_result: AskAnswer[Any]) -> Any:
        return ask_result.answer

    async with running(database_url, *TOOLS, knows, worker=True) as node:
        first = await call(node, "knows")
        assert first.kind == "parked", "nothing is left for its own caller"
        await run_reaches(node, first.run_id, "succeeded")
        run = await node.runs.by_id(first.run_id)
        assert run is not None
        assert run.result == {"got": "blue"}
        await assert_sound(database_url)


async def test_the_tools_list_and_resolve_what_a_caller_is_asked(database_url: str) -> None:
    async with running(database_url, *TOOLS, worker=True) as node:
        first = await call(node, "child")
        listed = await call(node, list_parked.name)
        [one] = listed.result["asks"]
        assert (await call(node, list_parked.name, by=BOB)).result["asks"] == []
        with pytest.raises(RejoinderError):
            await call(node, resume_parked.name, by=BOB, interaction_id=one["interaction_id"], payload=1)
        await call(node, resume_parked.name, interaction_id=one["interaction_id"], payload=1)
        await run_reaches(node, first.run_id, "succeeded")
        stored = await call(node, resume_parked.name, interaction_id=one["interaction_id"])
        assert stored.result["ask_result"]["answer"] == 1


async def test_an_end_that_comes_before_the_wait_is_not_missed(database_url: str) -> None:
    """The called run is answered and ends while its caller is about to record that it waits."""
    async with running(database_url, *TOOLS, worker=True) as node:

        async def meanwhile() -> None:
            pause.disarm("nested.parked")
            [row] = await node.database.rows(
                "SELECT id, run_id FROM rejoinder.question WHERE to_kind = 'caller'"
            )
            await node.asks.answer(row["id"], 1, by=ANN, via="test", as_caller=True)
            await run_reaches(node, row["run_id"], "succeeded")
            # Its news is read by a worker that finds nobody waiting.
            await assert_eventually(lambda: jobs(node, "chain", 0), "the end was not carried on")

        pause.arm("nested.parked", meanwhile)
        first = await call(node, "parent")
        assert first.kind == "parked"
        await run_reaches(node, first.run_id, "succeeded")
        await assert_sound(database_url)


async def jobs(node: Node, kind: str, count: int) -> bool:
    found = await node.database.value("SELECT count(*) FROM rejoinder.pgqueuer WHERE entrypoint = $1", kind)
    return bool(found == count)


@pytest.mark.parametrize("deep", [1, 3])
async def test_a_lapse_that_kills_ends_the_whole_chain_once(
    database_url: str, clock: MovableClock, deep: int
) -> None:
    given: dict[str, Any] = {"name": "asks_a_person"}
    for _ in range(deep - 1):
        given = {"name": "parent", "given": given}
    async with running(database_url, *TOOLS, worker=True) as node:
        first = await call(node, "parent", **given)
        assert first.kind == "parked"
        await clock.advance(3601)
        node.deadlines.look()
        await run_reaches(node, first.run_id, "failed")
        run = await node.runs.by_id(first.run_id)
        assert run is not None
        assert run.error is not None
        assert run.error["code"] == "interaction-expired"
        ends = await node.database.rows("SELECT state, held FROM rejoinder.run")
        assert [tuple(one) for one in ends] == [("failed", False)] * (deep + 1)
        assert entered["parent goes on"] == 0
        await assert_sound(database_url)


async def test_a_lapse_that_resumes_goes_to_the_run_that_asked(
    database_url: str, clock: MovableClock
) -> None:
    async with running(database_url, *TOOLS, worker=True) as node:
        first = await call(node, "parent", given={"on_expiry": "resume"})
        await clock.advance(3601)
        node.deadlines.look()
        await run_reaches(node, first.run_id, "succeeded")
        run = await node.runs.by_id(first.run_id)
        assert run is not None
        assert run.result == {"child": {"got": {"tai42:interaction_expired": True}}}
        await assert_sound(database_url)


async def test_a_caller_may_go_on_without_a_called_run_that_failed(database_url: str) -> None:
    async with running(database_url, *TOOLS, worker=True) as node:
        first = await call(node, "parent", on_failure="resume", given={"fail": "meant"})
        done = await resume(node, first.run_id, dict.fromkeys(asked(first), 1))
        [inner] = await children_of(node, first.run_id)
        assert done.result["child"][KILLED_KEY] == {
            "run_id": str(inner),
            "status": "failed",
            "error": {"code": "run-failed", "error": "the child gave up"},
        }
        second = await call(node, "parent", given={"fail": "meant"})
        with pytest.raises(ParkableRunFailedError, match="the child gave up"):
            await resume(node, second.run_id, dict.fromkeys(asked(second), 1))
        assert await states(node, second.run_id) == ["failed"]
        await assert_sound(database_url)


@pytest.mark.parametrize("act", ["retry", "discard"])
async def test_a_called_run_that_is_held_is_waited_for(database_url: str, act: str) -> None:
    failures["once"] = True
    async with running(database_url, *TOOLS, worker=True) as node:
        first = await call(node, "parent", given={"fail": "once"})
        [inner] = await children_of(node, first.run_id)
        told = await resume(node, first.run_id, dict.fromkeys(asked(first), 1))
        assert told.kind == "parked"
        held = await node.runs.by_id(inner)
        assert held is not None
        assert (held.state, held.held) == ("failed", True)
        assert await states(node, first.run_id) == ["parked"]
        await getattr(node.run_service, act)(inner, by=ANN)
        await run_reaches(node, first.run_id, "succeeded" if act == "retry" else "failed")
        await assert_sound(database_url)


async def test_what_a_run_called_ends_with_it(database_url: str) -> None:
    """A person withdraws what the calling run asks beside its wait: what it called is withdrawn too, all the way down."""

    @tool
    async def both() -> Any:
        waits = await call_tool("parent", {"name": "asks_a_person"})
        return [waits, await ask("Beside?", mode="async", expiry_at=in_an_hour())]

    @both.continuation
    async def never(answers: dict[UUID, Any]) -> None: ...

    async with running(database_url, *TOOLS, both, worker=True) as node:
        first = await call(node, "both")
        beside = next(q for q in await node.asks.page(by=ANN, limit=9) if q.question == "Beside?")
        await node.asks.cancel(beside.id, by=BOB, via="test")

        async def all_over() -> bool:
            rows = await node.database.rows("SELECT state FROM rejoinder.run")
            return [row["state"] for row in rows] == ["cancelled"] * 3

        await assert_eventually(all_over, "a called run was left")
        assert await node.asks.page(by=ANN, limit=9) == []
        assert await states(node, first.run_id) == ["cancelled"]
        await assert_sound(database_url)


async def test_a_run_whose_caller_is_over_has_nobody_to_ask(database_url: str) -> None:
    asking = asyncio.Event()
    outcomes: list[BaseException] = []

    @tool
    async def orphan() -> Any:
        await asking.wait()
        try:
            return await ask("?", to="caller", mode="async", expiry_at=in_an_hour())
        except RejoinderError as error:
            outcomes.append(error)
            raise

    @orphan.continuation
    async def never() -> None: ...

    async with running(database_url, *TOOLS, orphan) as node:
        going = asyncio.create_task(call(node, "parent", name="orphan"))

        async def started() -> UUID | None:
            value: UUID | None = await node.database.value(
                "SELECT parent_run_id FROM rejoinder.run WHERE tool = 'orphan'"
            )
            return value

        above = await assert_eventually(started, "it was not called")
        assert above is not None
        # Found dead by another process, as after a long pause.
        await node.runs.finish(above, 1, "failed", error={"code": "x", "error": "x"})
        asking.set()
        with pytest.raises(RejoinderError):
            await going
        [error] = outcomes
        assert isinstance(error, RunTerminalFailed)
        assert await node.database.value("SELECT count(*) FROM rejoinder.question") == 0


async def test_a_calling_run_that_begins_anew_leaves_nothing_of_the_old_attempt(database_url: str) -> None:
    """Its worker dies between the called run's park and its own. The next attempt calls anew; the old call ends."""

    @tool(idempotent=True)
    async def again() -> Any:
        return await call_tool("child")

    @again.continuation
    async def went_on(ask_result: AskAnswer[Any]) -> Any:
        return ask_result.answer

    async with running(database_url, *TOOLS, again) as node:
        worker = ThisProcess(node.database, "worker")
        await worker.join()
        run_id = await node.run_service.start_background("again", {}, by=ANN)
        old, entry = uuid4(), uuid4()
        assert (await node.runs.enter(run_id, None, worker.id, entry, 3, 2.5))[0] == "entered"
        await node.database.execute(
            "INSERT INTO rejoinder.run (id, tool, arguments, door, state, identity, owner_process, epoch, parent_run_id,"
            " parent_epoch) VALUES ($1, 'child', '{}', 'nested', 'parked', 'ann', NULL, 1, $2, 1)",
            old,
            run_id,
        )
        await worker.leave("found dead")
        async with running(database_url, *TOOLS, again, worker=True) as other:
            await run_reaches(other, old, "cancelled")
            await run_reaches(other, run_id, "parked")
            standing = await other.visits.look(run_id, by=ANN)
            done = await resume(other, run_id, {one.id: 5 for one in standing.questions})
            assert done.result == {"got": 5}
        await assert_sound(database_url)


async def test_a_wait_has_an_end_of_its_own(database_url: str, clock: MovableClock) -> None:
    @tool
    async def slow() -> Any:
        return await ask("?", mode="async", expiry_at=datetime.now(UTC) + timedelta(days=300))

    @slow.continuation
    async def never() -> None: ...

    async with running(
        database_url, *TOOLS, slow, worker=True, tai_agents_chained_park_horizon_cap_hours=24
    ) as node:
        first = await call(node, "parent", name="slow")
        expiry = datetime.fromisoformat(first.result["tai42:suspended_interaction"]["expiry_at"])
        assert expiry - datetime.now(UTC) < timedelta(hours=25), "the nested deadline, capped"
        await clock.advance(24 * 3600 + 60)
        node.deadlines.look()
        await run_reaches(node, first.run_id, "failed")
        [inner] = await children_of(node, first.run_id)
        await run_reaches(node, inner, "cancelled")
        await assert_sound(database_url)


async def test_runs_that_cannot_wait_call_none_that_parks(database_url: str) -> None:
    @tool
    async def hurried() -> Any:
        return await call_tool("child")

    @tool
    async def deeper() -> Any:
        return await call_tool("deeper")

    async with running(database_url, *TOOLS, hurried, deeper) as node:
        with pytest.raises(SuspensionError, match="hurried, which called this run, cannot wait for it"):
            await call(node, "hurried")
        assert await node.database.value("SELECT count(*) FROM rejoinder.question") == 0
        with pytest.raises(RunTerminalFailed, match="32 deep"):
            await call(node, "deeper")
        await assert_sound(database_url)


async def test_a_caller_that_gives_up_takes_the_called_run_along(database_url: str) -> None:
    @tool
    async def blocks() -> Any:
        return await ask("Now?", timeout=600)

    async with running(database_url, *TOOLS, blocks, worker=True) as node:
        going = asyncio.create_task(call(node, "parent", name="blocks"))
        await the_question(node)
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)

        async def over() -> bool:
            rows = await node.database.rows("SELECT state FROM rejoinder.run")
            return [row["state"] for row in rows] == ["cancelled", "cancelled"]

        await assert_eventually(over, "a run was left")
        assert await node.asks.page(by=ANN, limit=9) == []
        await assert_sound(database_url)
