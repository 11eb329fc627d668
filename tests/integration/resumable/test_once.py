"""A resumable tool is written straight through: each of its steps is done once, each answer is where it was asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, assert_type
from uuid import UUID

import pytest

from rejoinder import AcceptedElicitation, Context, StepFailedError, ask, call_tool, current_run, step, tool
from rejoinder.contract.errors import InteractionTimeoutError, RunTerminalFailed, ToolFailedError
from rejoinder.contract.questions import Question
from rejoinder.node import Node
from tests.integration.agents.support import finished
from tests.integration.core.support import assert_sound, in_an_hour, open_questions, run_reaches, the_question
from tests.integration.nodes import ANN, running
from tests.support import assert_eventually

#: How often each effect was had, and how often code between the steps ran.
effects: Counter[str] = Counter()
keys: dict[str, str] = {}


@pytest.fixture(autouse=True)
def _no_effects() -> None:
    effects.clear()
    keys.clear()


async def charge(amount: int) -> dict[str, int]:
    effects[f"charge {amount}"] += 1
    keys[f"charge {amount}"] = str(current_run().idempotency_key)
    return {"charged": amount}


def ship(what: str) -> str:
    effects[f"ship {what}"] += 1
    return f"{what} is shipped"


async def sure(text: str, on_expiry: Literal["kill", "resume"] = "kill") -> Any:
    answer: Any = await ask(
        text, answer_format="confirm", mode="async", expiry_at=in_an_hour(), on_expiry=on_expiry
    )
    return answer.answer


async def answer(node: Node, question: Question, value: Any) -> None:
    await node.asks.answer(question.id, value, by=ANN, via="test")


async def asked_for(node: Node, text: str) -> Question:
    async def found() -> Question | None:
        return next((q for q in await node.asks.page(by=ANN, limit=50) if q.question == text), None)

    question = await assert_eventually(found, f"{text} was not asked")
    assert question is not None
    return question


async def begin(node: Node, name: str, **arguments: Any) -> UUID:
    return await node.run_service.start_background(name, arguments, by=ANN)


@tool(resumable=True)
async def order(what: str, amount: int = 3) -> str:
    """Charge, ask, ship."""
    effects["order"] += 1
    charged = await step("charge", charge, amount)
    if not await sure(f"Ship {what} for {charged['charged']}?"):
        return "kept"
    return await step("ship", ship, what)


async def test_code_before_the_ask_never_runs_twice(database_url: str) -> None:
    async with running(database_url, order, worker=True) as node:
        run_id = await begin(node, "order", what="tea")
        question = await the_question(node)
        assert question.question == "Ship tea for 3?"
        assert await run_reaches(node, run_id, "parked", "failed") == "parked"
        await answer(node, question, True)
        assert await finished(node, run_id) == "tea is shipped"
    assert effects == Counter({"charge 3": 1, "ship tea": 1, "order": 2})
    assert keys["charge 3"] == f"{run_id}/1"
    await assert_sound(database_url)


async def test_a_call_over_a_connection_parks_and_goes_on_too(database_url: str) -> None:
    async with running(database_url, order, worker=True) as node:
        result = await node.run_service.call("order", {"what": "tea", "amount": 5}, by=ANN, door="run-tool")
        assert result.parked
        await answer(node, await the_question(node), False)
        assert await finished(node, result.run_id) == "kept"
    assert effects == Counter({"charge 5": 1, "order": 2})


@tool(resumable=True)
async def many(count: int) -> list[Any]:
    """Ask in a loop, with an effect after each answer."""
    said = []
    for number in range(count):
        said.append(await sure(f"{number}?"))
        await step("charge", charge, number)
    return said


async def test_asks_in_a_loop_are_each_their_own(database_url: str) -> None:
    async with running(database_url, many, worker=True) as node:
        run_id = await begin(node, "many", count=4)
        for number in range(4):
            question = await the_question(node)
            assert question.question == f"{number}?"
            await answer(node, question, number % 2 == 0)
        assert await finished(node, run_id) == [True, False, True, False]
    assert effects == Counter({f"charge {number}": 1 for number in range(4)})
    await assert_sound(database_url)


@tool(resumable=True)
async def together() -> Any:
    """Three branches at once, which do things before and after they ask."""

    async def branch(number: int) -> tuple[Any, Any, Any]:
        first = await step("charge", charge, number)
        said = await sure(f"{number}?")
        second = await step("charge", charge, number * 10)
        return first["charged"], said, second["charged"]

    return await asyncio.gather(*(branch(number) for number in (1, 2, 3)))


async def test_asks_beside_each_other_are_one_park_and_one_resumption(database_url: str) -> None:
    async with running(database_url, together, worker=True) as node:
        run_id = await begin(node, "together")
        questions = {q.question: q for q in await open_questions(node, 3)}
        assert await run_reaches(node, run_id, "parked", "failed") == "parked"
        assert len({q.park_id for q in questions.values()}) == 1
        for text, value in (("3?", True), ("1?", False)):
            await answer(node, questions[text], value)
            assert await run_reaches(node, run_id, "parked", "failed") == "parked"
        await answer(node, questions["2?"], True)
        assert await finished(node, run_id) == [[1, False, 10], [2, True, 20], [3, True, 30]]
        run = await node.runs.by_id(run_id)
        assert run is not None
    assert effects == Counter({f"charge {n}": 1 for n in (1, 2, 3, 10, 20, 30)})
    await assert_sound(database_url)


@tool(resumable=True)
async def uneven() -> Any:
    """One branch waits for people twice while the other is slow in a step."""
    slow = asyncio.Event()

    async def late() -> str:
        await slow.wait()
        effects["late"] += 1
        return "late"

    async def asking() -> Any:
        first = await sure("first?")
        return first, await sure("second?")

    async def working() -> Any:
        asyncio.get_running_loop().call_soon(slow.set)
        return await step("late", late)

    return await asyncio.gather(asking(), working())


async def test_a_run_is_parked_after_the_steps_beside_the_question(database_url: str) -> None:
    async with running(database_url, uneven, worker=True) as node:
        run_id = await begin(node, "uneven")
        for text in ("first?", "second?"):
            question = await the_question(node)
            assert question.question == text
            await run_reaches(node, run_id, "parked")
            await answer(node, question, True)
        assert await finished(node, run_id) == [[True, True], "late"]
    assert effects == Counter({"late": 1})


@tool(resumable=True)
async def patient() -> Any:
    answer: Any = await ask("Anybody?", mode="async", expiry_at=in_an_hour(), on_expiry="resume")
    return {"expired": answer.expired, "answer": answer.answer, "reply_to": answer.reply_to}


@pytest.mark.parametrize("name", ["patient", "order"])
async def test_nobody_answers(database_url: str, clock: Any, name: str) -> None:
    """Under resume the code goes on with the mark, under kill the run ends and its code never goes on."""
    async with running(database_url, patient, order, worker=True) as node:
        run_id = await begin(node, name, **({"what": "tea"} if name == "order" else {}))
        await run_reaches(node, run_id, "parked")
        await clock.advance(7200)
        if name == "patient":
            came = await finished(node, run_id)
            assert came["expired"]
        else:
            assert await run_reaches(node, run_id, "failed", "succeeded") == "failed"
            assert effects["order"] == 1
    await assert_sound(database_url)


@tool(resumable=True)
async def blocking() -> Any:
    """A question that blocks, then one that parks."""
    first = await ask("Now?", timeout=30)
    try:
        await ask("Quickly?", timeout=0.01)
    except InteractionTimeoutError:
        effects["nobody"] += 1
    return [first.answer, first.params, await sure("Later?")]


async def test_a_blocking_question_is_asked_once(database_url: str) -> None:
    async with running(database_url, blocking, worker=True) as node:
        run_id = await begin(node, "blocking")
        await answer(node, await the_question(node), "yes")
        question = await asked_for(node, "Later?")
        await run_reaches(node, run_id, "parked")
        await answer(node, question, True)
        assert await finished(node, run_id) == ["yes", None, True]
        asked = [q.question for q in await node.questions.of_run(run_id)]
    assert sorted(asked) == ["Later?", "Now?", "Quickly?"]
    assert effects["nobody"] == 2


@tool(resumable=True)
async def eliciting(ctx: Context) -> Any:
    got = await ctx.elicit("How many?", int)
    assert isinstance(got, AcceptedElicitation)
    return [got.data, await sure("Later?")]


async def test_an_elicitation_is_asked_once(database_url: str) -> None:
    async with running(database_url, eliciting, worker=True) as node:
        run_id = await begin(node, "eliciting")
        await answer(node, await the_question(node), {"value": 7})
        await answer(node, await asked_for(node, "Later?"), True)
        assert await finished(node, run_id) == [7, True]
        assert len(await node.questions.of_run(run_id)) == 2


@dataclass
class Receipt:
    at: datetime
    amount: int


@step
async def pay(amount: int) -> Receipt:
    effects["pay"] += 1
    return Receipt(datetime.fromisoformat("2030-01-01T00:00:00+00:00"), amount)


@step(name="fail it", once=True)
async def fail() -> None:
    effects["fail"] += 1
    raise KeyError("who")


@tool(resumable=True)
async def typed() -> Any:
    receipt = await pay(3)
    assert isinstance(assert_type(receipt, Receipt), Receipt)
    assert receipt.at.tzinfo is not None
    try:
        await fail()
    except StepFailedError as error:
        effects[f"{error.step}: {error.raised}"] += 1
    later = await ask("Later?", answer_format="confirm", mode="async", expiry_at=in_an_hour())
    assert assert_type(later.answer, bool)
    assert_type(await step("charge", charge, 1), dict[str, int])
    return receipt.amount


async def test_decorated_steps_and_failures_are_the_same_when_the_run_goes_on(database_url: str) -> None:
    async with running(database_url, typed, worker=True) as node:
        run_id = await begin(node, "typed")
        await answer(node, await the_question(node), True)
        assert await finished(node, run_id) == 3
    assert effects == Counter({"pay": 1, "fail": 1, "fail it: KeyError": 2, "charge 1": 1})
    assert (await pay(4)).amount == 4


@tool
async def plain(what: str) -> str:
    effects[f"plain {what}"] += 1
    if what == "nothing":
        raise ValueError("nothing")
    return f"plain {what}"


@tool
async def parking(what: str) -> Any:
    effects[f"parking {what}"] += 1
    return await ask(f"Called for {what}?", mode="async", expiry_at=in_an_hour())


@parking.continuation
async def _parked(ask_result: Any) -> str:
    if ask_result.answer == "no":
        raise RunTerminalFailed("no")
    return f"they said {ask_result.answer}"


@tool(resumable=True)
async def calling() -> Any:
    first = await call_tool("plain", {"what": "tea"})
    try:
        await call_tool("plain", {"what": "nothing"})
    except ToolFailedError:
        effects["told"] += 1
    return [
        first,
        await sure("Own?"),
        await call_tool("parking", {"what": "tea"}),
        await call_tool("order", {"what": "x"}),
    ]


async def test_calls_are_made_once_and_waited_for(database_url: str) -> None:
    async with running(database_url, calling, plain, parking, order, worker=True) as node:
        run_id = await begin(node, "calling")
        await answer(node, await asked_for(node, "Own?"), True)
        await answer(node, await asked_for(node, "Called for tea?"), "yes")
        await answer(node, await asked_for(node, "Ship x for 3?"), True)
        assert await finished(node, run_id) == ["plain tea", True, "they said yes", "x is shipped"]
    assert (
        effects["plain tea"] == effects["plain nothing"] == effects["parking tea"] == effects["charge 3"] == 1
    )
    await assert_sound(database_url)


@tool(resumable=True)
async def to_caller(what: str) -> Any:
    await step("charge", charge, 1)
    got: Any = await ask("Which?", to="caller", mode="async", expiry_at=in_an_hour(), payload={"of": what})
    return got.answer


async def test_a_question_to_the_caller(database_url: str) -> None:
    async with running(database_url, to_caller, worker=True) as node:
        result = await node.run_service.call("to_caller", {"what": "tea"}, by=ANN, door="run-tool")
        assert result.kind == "asks"
        [asked] = result.result["asks"]
        assert asked["payload"] == {"of": "tea"}
        ended = await node.visits.resume(
            result.run_id, {UUID(asked["interaction_id"]): "green"}, by=ANN, via="test", seconds=20
        )
        assert ended.result == "green"
        assert await finished(node, result.run_id) == "green"
    assert effects == Counter({"charge 1": 1})


@tool(resumable=True, requires_approval=True)
async def dangerous(amount: int) -> Any:
    await step("charge", charge, amount)
    return await sure("And now?")


@pytest.mark.parametrize("edited", [None, {"amount": 4}])
async def test_an_approval_comes_first_and_counts_once(database_url: str, edited: Any) -> None:
    async with running(database_url, dangerous, worker=True) as node:
        run_id = await begin(node, "dangerous", amount=3)
        asked = await the_question(node)
        assert asked.format_payload is not None
        assert effects == Counter()
        given = {"decision": "approve", "digest": asked.format_payload["digest"]}
        await answer(node, asked, given | ({"arguments": edited} if edited else {}))
        await answer(node, await asked_for(node, "And now?"), True)
        assert await finished(node, run_id) is True
    assert effects == Counter({"charge 4" if edited else "charge 3": 1})


async def test_a_denied_call_does_nothing(database_url: str) -> None:
    async with running(database_url, dangerous, worker=True) as node:
        run_id = await begin(node, "dangerous", amount=3)
        asked = await the_question(node)
        assert asked.format_payload is not None
        await answer(node, asked, {"decision": "deny", "digest": asked.format_payload["digest"]})
        assert await run_reaches(node, run_id, "failed", "succeeded") == "failed"
    assert effects == Counter()
