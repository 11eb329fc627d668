"""Somebody else's jq: what is refused, what is stopped, and that the rest comes to what jq says."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.contract.errors import NotReadyError
from rejoinder.expressions import NOTHING, Expression, ExpressionError, ExpressionFailedError, Expressions
from rejoinder.expressions.expression import MOST_TEXT
from rejoinder.expressions.process import Limits
from tests.support import assert_eventually

CASES = json.loads((Path(__file__).parents[2] / "cases" / "expressions.json").read_text())
#: A program that does not end is given up quickly here.
SHORT = Limits(seconds=0.25, memory=128 * 2**20, result=10_000)


@pytest.fixture
async def expressions() -> AsyncIterator[Expressions]:
    made = Expressions(SHORT)
    yield made
    await made.stop()


async def _outcome(expressions: Expressions, case: dict[str, Any]) -> dict[str, Any]:
    try:
        expression = await expressions.compile(case["text"], field="condition")
    except ExpressionError as error:
        return {"refused": error.message, "field": error.field}
    try:
        result = await expressions.run(expression, case.get("value"))
    except ExpressionFailedError as error:
        return {"fails": error.message}
    return {"nothing": True} if result is NOTHING else {"result": result}


async def test_every_case_comes_out_as_it_is_written(expressions: Expressions) -> None:
    for case in CASES:
        outcome = await _outcome(expressions, case)
        if "refused" in case:
            assert case["refused"] in outcome.get("refused", ""), (case, outcome)
            assert outcome["field"] == "condition"
        elif "fails" in case:
            assert any(words in outcome.get("fails", "") for words in case["fails"]), (case, outcome)
        else:
            assert outcome == {key: case[key] for key in ("result", "nothing") if key in case}, case
        assert "cb-secret" not in json.dumps(outcome), case


async def test_what_is_no_text_or_too_long_is_refused(expressions: Expressions) -> None:
    for wrong in (None, 1, ["."], "." + " " * MOST_TEXT):
        with pytest.raises(ExpressionError) as caught:
            await expressions.compile(wrong, field="start_expr")
        assert caught.value.field == "start_expr"
    assert await expressions.compile("." + " " * (MOST_TEXT - 1), field="start_expr")


async def test_the_process_knows_nothing_beside_its_input(
    expressions: Expressions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Even where a program gets past the refusal of its words."""
    monkeypatch.setenv("TAI_BRIDGE_CALLBACK_SECRET", "cb-secret")
    (tmp_path / "data.json").write_text('"cb-secret"')
    assert await expressions.run(Expression("[env, $ENV]"), None) == [{}, {}]
    assert await expressions.run(Expression("[inputs]"), None) == []
    for text in (f'import "{tmp_path}/data" as $d; $d', 'include "a"; .', '"a" | modulemeta'):
        with pytest.raises(ExpressionFailedError):
            await expressions.run(Expression(text), None)
    helper = await expressions._helper(0)
    with open(f"/proc/{helper.pid}/environ", "rb") as environment:
        assert b"cb-secret" not in environment.read()


async def test_a_process_that_was_killed_is_replaced_and_nobody_notices(expressions: Expressions) -> None:
    expression = await expressions.compile(".a", field="condition")
    for _ in range(3):
        helper = await expressions._helper(0)
        assert helper.pid is not None
        asking = [asyncio.create_task(expressions.run(expression, {"a": n})) for n in range(20)]
        await asyncio.sleep(0)
        os.kill(helper.pid, signal.SIGKILL)
        assert await asyncio.gather(*asking) == list(range(20))


async def test_a_process_that_stands_still_is_replaced() -> None:
    expressions = Expressions(Limits(patience=0.3))
    try:
        expression = await expressions.compile(".a", field="condition")
        helper = await expressions._helper(0)
        assert helper.pid is not None
        os.kill(helper.pid, signal.SIGSTOP)
        assert await expressions.run(expression, {"a": 1}) == 1
        assert await expressions._helper(0) is not helper
    finally:
        await expressions.stop()


async def test_who_ends_a_process_fails_alone(expressions: Expressions) -> None:
    """And is asked elsewhere from then on."""
    endless = await expressions.compile("def f: f; f", field="condition")
    good = await expressions.compile(".a", field="condition")
    tasks = [expressions.run(endless, None), *(expressions.run(good, {"a": n}) for n in range(10))]
    first, *others = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, ExpressionFailedError)
    assert others == list(range(10))
    helper = await expressions._helper(0)
    again = asyncio.create_task(expressions.run(endless, None))
    with pytest.raises(ExpressionFailedError):
        await again
    assert await expressions._helper(0) is helper
    assert not helper.ended.is_set()


async def test_what_is_tried_out_holds_up_no_event(expressions: Expressions) -> None:
    good = await expressions.compile(".a", field="condition")
    assert await expressions.run(good, {"a": 1}) == 1
    helper = await expressions._helper(0)
    with pytest.raises(ExpressionError, match="too much memory"):
        await expressions.compile('"x" * 1e9', field="condition")
    assert await expressions._helper(0) is helper


async def test_nothing_is_evaluated_after_the_end() -> None:
    expressions = Expressions(Limits(seconds=60))
    endless = await expressions.compile("def f: f; f", field="condition")
    running = asyncio.create_task(expressions.run(endless, None))
    helper = await expressions._helper(0)
    await assert_eventually(lambda: helper.waiting)
    await expressions.stop()
    for _ in range(2):
        with pytest.raises(NotReadyError):
            await running
        running = asyncio.create_task(expressions.run(endless, None))
    assert helper.ended.is_set()


async def test_a_process_ends_with_the_one_that_started_it(expressions: Expressions) -> None:
    """Its requests end where that one's end of the pipe closes; no signal reaches it after a kill -9."""
    helper = await expressions._helper(0)
    transport = helper._transport
    assert transport is not None
    pipe = transport.get_pipe_transport(0)
    assert pipe is not None
    pipe.close()
    await assert_eventually(helper.ended.is_set)


async def test_variables_come_beside_the_value(expressions: Expressions) -> None:
    expression = await expressions.compile(
        "[.a, $now, $schedule.name, $__loc__.line]", field="start_expr", variables=("now", "schedule")
    )
    given = {"now": 9007199254740993, "schedule": {"name": "x"}}
    assert await expressions.run(expression, {"a": 1}, given) == [1, 9007199254740993, "x", 1]
    with pytest.raises(ExpressionError, match=r"\$other is not defined \(line 1, column 6\)"):
        await expressions.compile("$now,$other", field="start_expr", variables=("now",))


# The same as jq

NAMES = ("a", "b", "env", "type")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(-1e9, 1e9).map(lambda x: round(x, 3) + 0.0)
    | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=8,
)
LEAVES = st.sampled_from(
    [
        ".",
        ".a",
        ".b",
        '.["env"]',
        ".type?",
        "empty",
        "1",
        "null",
        '"x\\(.a)"',
        '"# \\" ("',
        "length",
        "keys",
        ".[]?",
    ]
)
PROGRAMS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" | ", ", ", " + ", " == ", " // ", " and "]), inner).map("".join),
        inner.map(lambda p: f"({p})"),
        inner.map(lambda p: f"[{p}]"),
        inner.map(lambda p: f"{{env: ({p}), b: 1}}"),
        inner.map(lambda p: f"def f: {p}; f"),
        inner.map(lambda p: f"try ({p}) catch 1 # )"),
        inner.map(lambda p: f"({p}) as $env | [$env]"),
        inner.map(lambda p: f"if {p} then 1 else .a end"),
    ).map(lambda p: p + "\n" if p.endswith("# )") else p),
    max_leaves=6,
)


@settings(max_examples=8)
@given(st.lists(st.tuples(PROGRAMS, VALUES), min_size=20, max_size=30))
def test_a_program_comes_to_what_jq_says(pairs: list[tuple[str, Any]]) -> None:
    async def ours() -> list[tuple[str, Any]]:
        expressions = Expressions()
        try:
            return [await _one(expressions, program, value) for program, value in pairs]
        finally:
            await expressions.stop()

    assert asyncio.run(ours()) == [_of_jq(program, value) for program, value in pairs]


async def _one(expressions: Expressions, program: str, value: Any) -> tuple[str, Any]:
    try:
        expression = await expressions.compile(program, field="condition")
        return "value", await expressions.run(expression, value)
    except ExpressionError:
        return "refused", None
    except ExpressionFailedError:
        return "fails", None


def _of_jq(program: str, value: Any) -> tuple[str, Any]:
    try:
        compiled = jq.compile(program)
    except ValueError:
        return "refused", None
    try:
        return "value", next(iter(compiled.input_value(value)), NOTHING)
    except ValueError:
        return "fails", None
