"""Whatever a tool takes and whatever is fixed of it: calling the preset with the rest is calling the tool with all."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.contract.errors import ToolArgumentError
from rejoinder.presets.building import Workshop, build, exposed_schema
from rejoinder.presets.document import Document
from rejoinder.presets.tool import PresetTool
from rejoinder.runs.tools import Tool

TYPES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**70), 2**70),
    str: st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8).filter(
        lambda text: not text.startswith("!ENV ")
    ),
    bool: st.booleans(),
    list[int]: st.lists(st.integers(0, 9), max_size=3),
    dict[str, bool | None]: st.dictionaries(
        st.text("ab", max_size=2), st.sampled_from([True, False, None]), max_size=2
    ),
    str | None: st.sampled_from(["x", None]),
}
#: Among them names that pydantic's own models and Python have a use for.
NAMES = ("amount", "schema", "copy", "self_", "json", "to")


@st.composite
def tools(draw: st.DrawFn) -> tuple[Tool, dict[str, Any]]:
    """A tool that returns what it was called with, and arguments for all that it needs."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    kinds = {name: draw(st.sampled_from(list(TYPES))) for name in names}
    defaults = {name: draw(TYPES[kinds[name]]) for name in names if draw(st.booleans())}
    given_ = {n: draw(TYPES[kinds[n]]) for n in names if n not in defaults or draw(st.booleans())}

    def function(**arguments: Any) -> Any:
        """Return what it was given."""
        return arguments

    function.__annotations__ = dict(kinds)
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name, inspect.Parameter.empty)
            )
            for name in names
        ]
    )
    return Tool(function, name="base"), given_


def preset(base: Tool, **document: Any) -> PresetTool:
    async def nobody(*_: Any) -> Any:
        raise AssertionError

    shop = Workshop(lambda _: base, lambda _, tool: tool, nobody, (), {}, nobody)
    return asyncio.run(build(shop, "made", uuid4(), 1, Document("base", "About.", **document)))


@given(tools(), st.data())
@settings(max_examples=150)
def test_the_exposed_arguments_and_the_fixed_ones_are_the_base_tools_call(
    made: tuple[Tool, dict[str, Any]], data: st.DataObject
) -> None:
    base, whole = made
    fixed = {n: v for n, v in whole.items() if data.draw(st.booleans(), label=f"fix {n}")}
    rest = {n: v for n, v in whole.items() if n not in fixed}
    one = preset(base, fixed_kwargs=fixed)

    shown, of_base = one.input_schema, base.input_schema
    assert list(shown["properties"]) == [n for n in of_base["properties"] if n not in fixed]
    assert set(shown.get("required", ())) == set(of_base.get("required", ())) - set(fixed)
    assert shown["additionalProperties"] is False

    expected = asyncio.run(base.call(base.check_arguments(whole)))
    assert asyncio.run(one.call(one.check_arguments(rest))) == expected
    # What a person is shown for approval, and what a continuation is given, is the whole call.
    assert one.with_defaults(rest) == base.with_defaults(whole)
    assert asyncio.run(one.call(one.check_approved(one.with_defaults(rest)))) == expected
    for name, value in fixed.items():
        with pytest.raises(ToolArgumentError) as refused:
            one.check_arguments(rest | {name: value})
        assert refused.value.field == name


def test_definitions_that_only_fixed_arguments_used_are_left_out() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"items": {"$ref": "#/$defs/B"}}},
        "$defs": {"A": {"properties": {"c": {"$ref": "#/$defs/C"}}}, "B": {}, "C": {}},
        "required": ["a", "b"],
    }
    left = exposed_schema(schema, ["b"])
    assert left == {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "required": ["a"],
        "$defs": {"A": {"properties": {"c": {"$ref": "#/$defs/C"}}}, "C": {}},
    }
    assert "$defs" not in exposed_schema(schema, ["a", "b"])
