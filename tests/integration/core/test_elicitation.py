"""``ctx.elicit`` where no MCP client is: a form in the inbox, and its answer in the type that was asked for."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest
from mcp.server.elicitation import AcceptedElicitation as TheirsAccepted
from mcp.server.mcpserver import Context as TheirContext
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from rejoinder import AcceptedElicitation, Context
from rejoinder.contract.errors import (
    AskArgumentError,
    InteractionCancelledError,
    InteractionTimeoutError,
    ToolFailedError,
)
from rejoinder.runs.elicitation import form_of
from rejoinder.runs.tools import tool
from rejoinder.tools import interactions
from tests.integration.core.support import in_an_hour, run_reaches, the_question
from tests.integration.nodes import ANN, running
from tests.support import MovableClock

REPLY_TO = {"tai42/reply_to": None}


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Order(BaseModel):
    who: str = Field(title="For whom", min_length=1)
    size: Size = Size.SMALL
    by: date | None = None
    count: int = Field(default=1, ge=1)

    @field_validator("who")
    @classmethod
    def _not_nobody(cls, who: str) -> str:
        if who == "nobody":
            raise ValueError("nobody drinks tea")
        return who


@dataclass
class Point:
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


RAW = {"type": "object", "properties": {"word": {"type": "string", "default": "tea"}}}

#: What is asked for, the answer as people and clients give it, and the data that the tool gets.
TYPES: list[tuple[Any, dict[str, Any], Any]] = [
    (Order, {"who": "ann", "size": "l", "by": "2030-01-31"}, Order(who="ann", size=Size.LARGE, by=date(2030, 1, 31))),
    (Order, {"who": "ann"}, Order(who="ann")),
    (Point, {"x": 3}, Point(3)),
    (Named, {"name": "bob"}, {"name": "bob"}),
    (str, {"value": "hm"}, "hm"),
    (bool, {"value": False}, False),
    (int, {"value": 2**60}, 2**60),
    (float, {"value": 1.5}, 1.5),
    (date, {"value": "2030-01-31"}, date(2030, 1, 31)),
    (Literal["a", "b"], {"value": "b"}, "b"),
    (Size, {"value": "s"}, Size.SMALL),
    (list[Literal["a", "b"]], {"value": ["a"]}, ["a"]),
    (["tea", "coffee"], {"value": "tea"}, "tea"),
    ([["tea", "coffee"]], {"value": ["coffee", "tea"]}, ["coffee", "tea"]),
    ({"t": {"title": "Tea"}, "c": {"title": "Coffee"}}, {"value": "c"}, "c"),
    ([{"t": {"title": "Tea"}}], {"value": ["t"]}, ["t"]),
    (RAW, {}, {"word": "tea"}),
    (None, {}, {}),
]  # fmt: skip


class Asking:
    def __init__(self, schema: Any, **options: Any) -> None:
        self.result: Any = None

        @tool
        async def order(what: str, ctx: Context) -> str:
            self.result = await ctx.elicit(f"Order {what}?", schema, **options)
            return str(self.result.action)

        self.tool = order


async def test_every_type_is_a_form_and_comes_back(database_url: str) -> None:
    toolbox = [Asking(schema) for schema, _, _ in TYPES]
    async with running(database_url) as node:
        for (schema, answer, data), asking in zip(TYPES, toolbox, strict=True):
            node.registry._tools.pop("order", None)
            node.registry.add(asking.tool)
            assert list(asking.tool.input_schema["properties"]) == ["what"], "the context is no argument"
            call = asyncio.create_task(node.run_service.call("order", {"what": "tea"}, by=ANN, door="test"))
            question = await the_question(node)
            assert question.answer_format == "form", schema
            await node.asks.answer(question.id, answer, by=ANN, via="inbox")
            assert (await call).result == "accept"
            assert isinstance(asking.result, AcceptedElicitation)
            assert asking.result.data == data, schema
            assert asking.result.meta == REPLY_TO, schema


async def test_a_tool_of_the_public_library_runs_unchanged(database_url: str) -> None:
    @tool
    async def order(ctx: TheirContext, what: str) -> dict[str, Any]:
        result = await ctx.elicit(message=f"Order {what}?", schema=Order)
        await ctx.report_progress(1, 2)
        match result:
            case TheirsAccepted(data=data):
                return {"for": data.who, "meta": getattr(result, "meta", "none"), "id": ctx.request_id}
        return {}

    async with running(database_url, order) as node:
        assert list(order.input_schema["properties"]) == ["what"]
        call = asyncio.create_task(node.run_service.call("order", {"what": "tea"}, by=ANN, door="test"))
        question = await the_question(node)
        assert question.question == "Order tea?"
        await node.asks.answer(question.id, {"who": "ann"}, by=ANN, via="inbox")
        assert (await call).result == {"for": "ann", "meta": REPLY_TO, "id": str(question.run_id)}


async def test_a_continuation_may_elicit_too(database_url: str) -> None:
    tool_that_parks = tool(name="twice")(interactions.ask_tool.function)

    @tool_that_parks.continuation
    async def go_on(ask_result: Any, ctx: Context) -> list[Any]:
        second = await ctx.elicit("And?", str)
        assert isinstance(second, AcceptedElicitation)
        return [ask_result.answer, second.data]

    async with running(database_url, tool_that_parks, worker=True) as node:
        asked = {"question": "First?", "mode": "async", "expiry_at": in_an_hour().isoformat()}
        run_id = await node.run_service.start_background("twice", asked, by=ANN)
        first = await the_question(node)
        await node.asks.answer(first.id, "one", by=ANN, via="inbox")
        second = await the_question(node)
        await node.asks.answer(second.id, {"value": "two"}, by=ANN, via="inbox")
        assert await run_reaches(node, run_id, "succeeded", "failed") == "succeeded"
        run = await node.runs.by_id(run_id)
        assert run is not None
        assert run.result == ["one", "two"]


async def test_nobody_answering_is_neither_yes_nor_no(database_url: str, clock: MovableClock) -> None:
    asking = Asking(bool, timeout=600)
    async with running(database_url, asking.tool) as node:
        call = asyncio.create_task(node.run_service.call("order", {"what": "tea"}, by=ANN, door="test"))
        await the_question(node)
        await clock.advance(601)
        node.deadlines.look()
        with pytest.raises(InteractionTimeoutError):
            await call
        call = asyncio.create_task(node.run_service.call("order", {"what": "tea"}, by=ANN, door="test"))
        question = await the_question(node)
        await node.asks.cancel(question.id, by=ANN, via="inbox")
        with pytest.raises(InteractionCancelledError):
            await call
    assert asking.result is None


async def test_what_only_the_type_s_own_code_refuses_ends_the_run(database_url: str) -> None:
    asking = Asking(Order)
    async with running(database_url, asking.tool) as node:
        call = asyncio.create_task(node.run_service.call("order", {"what": "tea"}, by=ANN, door="test"))
        question = await the_question(node)
        await node.asks.answer(question.id, {"who": "nobody"}, by=ANN, via="inbox")
        with pytest.raises(ToolFailedError, match="ValueError"):
            await call


@pytest.mark.parametrize(
    "wanted", [[], {}, [1, 2], ["a", "a"], {"a": {"title": 5}}, [[]], object(), print, lambda: 1]
)
def test_what_no_form_can_ask_for_is_refused(wanted: Any) -> None:
    with pytest.raises(AskArgumentError) as refused:
        form_of(wanted)
    assert refused.value.field == "schema"


def test_forms_hold_nothing_that_clients_cannot_show() -> None:
    schema = form_of(Order).schema
    assert "$defs" not in schema
    assert schema["properties"]["size"]["enum"] == ["s", "l"]
    assert schema["properties"]["by"] == {"type": "string", "format": "date", "title": "By"}
    assert schema["required"] == ["who"]


def test_the_library_is_loaded_only_for_tools_that_use_it() -> None:
    code = (
        "import sys\nfrom rejoinder import Context, tool\n"
        "@tool\nasync def ours(ctx: Context) -> None: ...\nprint('mcp' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"
