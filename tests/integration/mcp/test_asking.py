"""A client whose own person can be asked: in both generations, raced with the inbox, on whichever server it arrives."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult
from pydantic import BaseModel, Field

from rejoinder import AcceptedElicitation, Context, call_tool
from rejoinder.runs.ask import ask
from rejoinder.runs.tools import tool
from tests.integration.mcp.serving import MODERN, connected, serving
from tests.integration.mcp.test_calls import Counting, both, pending_of, text_of, until_released
from tests.support import assert_eventually


class Person:
    """Who sits at the client: notes what is asked, and answers what the test says."""

    def __init__(self, *answers: Any) -> None:
        self.asked: list[Any] = []
        self.answers = list(answers)
        self.left = asyncio.Event()

    async def __call__(
        self, context: Any, params: ElicitRequestURLParams | ElicitRequestFormParams
    ) -> ElicitResult:
        self.asked.append(params)
        answer = self.answers.pop(0) if self.answers else None
        if answer is None:
            # Thinks until the test ends.
            await self.left.wait()
            return ElicitResult(action="cancel")
        if isinstance(answer, str):
            return ElicitResult(action=answer)  # type: ignore[arg-type]
        return ElicitResult(action="accept", content=answer)


class Tea(BaseModel):
    size: str = Field(min_length=1)
    sugar: int = 0


@tool
async def all_formats() -> list[Any]:
    text = await ask("Text?", options=["one", "two"])
    yes = await ask("Yes?", answer_format="confirm")
    one = await ask("One?", answer_format="select", options=["a", "b"])
    form = await ask("Form?", answer_format="form", schema=Tea)
    return [text.answer, yes.answer, one.answer, form.answer]


@tool
async def elicits(ctx: Context) -> dict[str, Any]:
    result = await ctx.elicit("Tea?", Tea)
    data = result.data.model_dump() if isinstance(result, AcceptedElicitation) else None
    return {"action": result.action, "data": data, "meta": getattr(result, "meta", "none")}


async def audit(served: Any, kind: str) -> list[Any]:
    rows = await served.node.database.rows(
        "SELECT actor, via, reason FROM rejoinder.event WHERE kind = $1 ORDER BY seq", kind
    )
    return [tuple(row) for row in rows]


@both
async def test_the_client_s_person_answers_each_format(database_url: str, mode: str) -> None:
    person = Person({"answer": "two"}, {"answer": True}, {"answer": "b"}, {"size": "large"})
    async with (
        serving(database_url, all_formats) as served,
        connected(served, mode, elicit=person) as client,
    ):
        done = await client.call_tool("all_formats", {})
        answered = await audit(served, "interaction.answered")
    assert done.structured_content == {"result": ["two", True, "b", {"size": "large", "sugar": 0}]}
    assert [p.message for p in person.asked] == ["Text?", "Yes?", "One?", "Form?"]
    assert person.asked[2].requested_schema["properties"]["answer"]["enum"] == ["a", "b"]
    assert answered == [("owner", "mcp", "answered")] * 4


@both
async def test_an_elicitation_is_the_client_s_own(database_url: str, mode: str) -> None:
    person = Person({"size": "large", "sugar": 2}, "decline", "cancel")
    async with serving(database_url, elicits) as served, connected(served, mode, elicit=person) as client:
        results = [(await client.call_tool("elicits", {})).structured_content for _ in range(3)]
    assert results == [
        {"action": "accept", "data": {"size": "large", "sugar": 2}, "meta": None},
        {"action": "decline", "data": None, "meta": "none"},
        {"action": "cancel", "data": None, "meta": "none"},
    ]


@both
async def test_the_inbox_may_be_faster(database_url: str, mode: str) -> None:
    """The client's person still thinks; in the newer generation the client calls again once they closed the form."""
    person = Person()
    async with serving(database_url, elicits) as served, connected(served, mode, elicit=person) as client:
        call = asyncio.create_task(client.call_tool("elicits", {}))
        question = await served.question()
        await assert_eventually(lambda: person.asked, "the client was not asked")
        await served.answer(question, {"size": "small"})
        if mode == MODERN:
            person.left.set()
        done = await call
        person.left.set()
    assert done.structured_content == {
        "action": "accept",
        "data": {"size": "small", "sugar": 0},
        "meta": {"tai42/reply_to": None},
    }


@both
async def test_declining_is_an_end_and_closing_is_not(database_url: str, mode: str) -> None:
    order = Counting()
    person = Person("decline", "cancel")
    async with serving(database_url, order.tool) as served, connected(served, mode, elicit=person) as client:
        declined = await client.call_tool("order", {"what": "tea"})
        assert declined.is_error
        assert declined.structured_content["code"] == "interaction-cancelled"
        assert "declined" in text_of(declined)
        call = asyncio.create_task(client.call_tool("order", {"what": "tea"}))
        await assert_eventually(lambda: len(person.asked) == 2, "the client was not asked")
        await until_held(served, person)
        question = await served.question()
        assert question.state == "pending", "closing a form decided something"
        await served.answer(question, True)
        assert (await call).structured_content == {"ordered": True, "what": "tea"}
        assert len(person.asked) == 2, "a closed form was shown again"
        removed = await audit(served, "interaction.removed")
        assert removed == [("owner", "mcp", "declined")]


async def until_held(served: Any, person: Person) -> None:
    calls = served.door._calls
    assert calls is not None
    await assert_eventually(lambda: calls.held == 1, "the call is not held")


UNFIT: list[tuple[str, Any, dict[str, Any]]] = [
    ("sensitive", ask, {"sensitive": True}),
    ("media", ask, {"media": [{"kind": "link", "url": "https://example.com"}]}),
    ("addressed to somebody else", ask, {"audience": "boss"}),
    (
        "a form with an object in it",
        ask,
        {"answer_format": "form", "schema": {"type": "object", "properties": {"a": {"type": "object"}}}},
    ),
    (
        "a format that clients do not know",
        ask,
        {"answer_format": "form", "schema": {"type": "object", "properties": {"a": {"type": "string", "format": "uuid"}}}},
    ),
    (
        "free texts in a list",
        ask,
        {
            "answer_format": "form",
            "schema": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}},
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize("about", [one[2] for one in UNFIT], ids=[one[0] for one in UNFIT])
async def test_what_a_client_cannot_show_stays_in_the_inbox(database_url: str, about: dict[str, Any]) -> None:
    @tool
    async def asks() -> str:
        await ask("Hm?", **about)
        return "done"

    person = Person({"answer": "x"})
    async with serving(database_url, asks, rejoinder_mcp_hold_seconds=0.2) as served:
        for mode in (MODERN, "legacy"):
            async with connected(served, mode, elicit=person) as client:
                result = await client.session.call_tool("asks", {}, allow_input_required=True)
                if mode == MODERN:
                    # Only to call again.
                    assert result.result_type == "input_required"
                    assert result.input_requests is None  # type: ignore[union-attr]
                else:
                    assert pending_of(result)["interaction_ids"]  # type: ignore[arg-type]
    assert person.asked == []


@both
async def test_a_client_that_shows_no_forms_is_not_asked(database_url: str, mode: str) -> None:
    order = Counting()
    async with (
        serving(database_url, order.tool, rejoinder_mcp_hold_seconds=0.2) as served,
        connected(served, mode) as client,
    ):
        assert pending_of(await client.call_tool("order", {"what": "tea"}))


@both
async def test_an_answer_that_does_not_fit_decides_nothing(database_url: str, mode: str) -> None:
    order = Counting()
    person = Person({"answer": "maybe"}, {"answer": True})
    async with serving(database_url, order.tool) as served, connected(served, mode, elicit=person) as client:
        call = asyncio.create_task(client.call_tool("order", {"what": "tea"}))
        if mode == MODERN:
            # It is asked once more, and told why.
            done = await call
            assert "answer must be a boolean" in person.asked[1].message
        else:
            await assert_eventually(lambda: audit_refused(served), "the answer was not refused")
            await served.answer(await served.question(), True)
            done = await call
    assert done.structured_content == {"ordered": True, "what": "tea"}
    assert order.ended == 1


async def audit_refused(served: Any) -> bool:
    return ("owner", "mcp", "mismatch") in await audit(served, "answer.refused")


@both
async def test_another_server_takes_the_answer(database_url: str, mode: str) -> None:
    """The question is asked by one server, and the answer reaches the other one: rows, not memory."""
    order = Counting()
    person = Person({"answer": True})
    async with (
        serving(database_url, order.tool) as one,
        serving(database_url, order.tool, key=one.key) as two,
    ):
        diverted = Diverted(two.url)
        async with connected(one, mode, elicit=person, sent=diverted) as client:
            done = await client.call_tool("order", {"what": "tea"})
        assert done.structured_content == {"ordered": True, "what": "tea"}
        assert order.started == order.ended == 1
        assert any(b'"answer":true' in content for content in diverted.moved)


class Diverted:
    """Sends every message after the first call of a tool to another server."""

    def __init__(self, url: str) -> None:
        self._elsewhere = url.removeprefix("http://").encode()
        self._called = False
        self.moved: list[bytes] = []

    async def __call__(self, request: Any) -> None:
        if self._called:
            request.url = request.url.copy_with(netloc=self._elsewhere)
            self.moved.append(request.content)
        self._called |= b'"tools/call"' in request.content


@both
async def test_a_client_that_times_out_and_calls_again_is_asked_again(database_url: str, mode: str) -> None:
    order = Counting()
    person = Person(None, {"answer": True})
    async with serving(database_url, order.tool) as served:
        async with connected(served, mode, elicit=person) as client:
            call = asyncio.create_task(client.call_tool("order", {"what": "tea"}))
            await assert_eventually(lambda: person.asked, "the client was not asked")
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await until_released(served)
        async with connected(served, mode, elicit=person) as client:
            done = await client.call_tool("order", {"what": "tea"})
    assert done.structured_content == {"ordered": True, "what": "tea"}
    assert order.started == order.ended == 1


async def test_a_long_wait_ends_before_the_client_s_rounds_do(database_url: str) -> None:
    """A client that shows forms and waits for what is in the inbox only calls again a few times, then it is told."""

    @tool
    async def slow() -> str:
        await ask("Secret?", sensitive=True)
        return "done"

    person = Person()
    async with (
        serving(database_url, slow, rejoinder_mcp_hold_seconds=0.05) as served,
        connected(served, MODERN, elicit=person) as client,
    ):
        told = pending_of(await client.call_tool("slow", {}))
        question = await served.question()
        assert told["interaction_ids"] == [str(question.id)]
        assert UUID(told["run_id"]) == question.run_id


async def test_several_questions_are_asked_together(database_url: str) -> None:
    @tool
    async def two() -> list[Any]:
        answers = await asyncio.gather(ask("First?"), ask("Second?"))
        return [one.answer for one in answers]

    person = Person()
    async with serving(database_url, two) as served, connected(served, MODERN, elicit=person) as client:
        for _ in range(2):
            first = await client.session.call_tool("two", {}, allow_input_required=True)
            requests = first.input_requests  # type: ignore[union-attr]
            assert requests is not None
            if len(requests) == 2:
                break
        by_text = {one.params.message: key for key, one in requests.items()}  # type: ignore[union-attr]
        assert set(by_text) == {"First?", "Second?"}
        half = await client.session.call_tool(
            "two",
            {},
            input_responses={by_text["First?"]: ElicitResult(action="accept", content={"answer": "1"})},
            request_state=first.request_state,  # type: ignore[union-attr]
            allow_input_required=True,
        )
        assert list(half.input_requests) == [by_text["Second?"]]  # type: ignore[union-attr, arg-type]
        done = await client.session.call_tool(
            "two",
            {},
            input_responses={by_text["Second?"]: ElicitResult(action="accept", content={"answer": "2"})},
            request_state=half.request_state,  # type: ignore[union-attr]
            allow_input_required=True,
        )
        assert done.structured_content == {"result": ["1", "2"]}  # type: ignore[union-attr]


@both
async def test_the_questions_of_a_called_run_reach_the_client_too(database_url: str, mode: str) -> None:
    order = Counting()

    @tool
    async def outer() -> Any:
        return await call_tool("order", {"what": "tea"})

    person = Person({"answer": True})
    async with (
        serving(database_url, order.tool, outer, progress=30) as served,
        connected(served, mode, elicit=person) as client,
    ):
        done = await client.call_tool("outer", {})
    assert done.structured_content == {"ordered": True, "what": "tea"}
    assert [p.message for p in person.asked] == ["Order tea?"]
