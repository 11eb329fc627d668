"""The tools that the protocol's conformance suite calls by name, as a user of ours would write them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from rejoinder import AcceptedElicitation, Context, RunTerminalFailed, tool


class Login(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


CHOICES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [
                {"const": "value1", "title": "First Option"},
                {"const": "value2", "title": "Second Option"},
                {"const": "value3", "title": "Third Option"},
            ],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"const": "value1", "title": "First Choice"},
                    {"const": "value2", "title": "Second Choice"},
                    {"const": "value3", "title": "Third Choice"},
                ]
            },
        },
    },
}


class Name(BaseModel):
    name: str


class Colour(BaseModel):
    color: str


class Confirm(BaseModel):
    confirm: bool


class Ok(BaseModel):
    ok: bool


@tool(description="A tool of the conformance suite: test_simple_text")
def test_simple_text() -> str:
    return "This is a simple text response for testing."


@tool(description="A tool of the conformance suite: test_error_handling")
def test_error_handling() -> str:
    raise RunTerminalFailed("This tool intentionally returns an error for testing")


@tool(description="A tool of the conformance suite: test_tool_with_progress")
async def test_tool_with_progress(ctx: Context) -> str:
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"{done} of 100")
        await asyncio.sleep(0.05)
    return "done"


@tool(description="A tool of the conformance suite: test_elicitation")
async def test_elicitation(message: str, ctx: Context) -> str:
    return f"User response: {(await ctx.elicit(message, Login)).action}"


@tool(description="A tool of the conformance suite: test_elicitation_sep1034_defaults")
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    result = await ctx.elicit("Please review and update the form fields with defaults", Defaults)
    content = result.data.model_dump() if isinstance(result, AcceptedElicitation) else {}
    return f"Elicitation completed: action={result.action}, content={content}"


@tool(description="A tool of the conformance suite: test_elicitation_sep1330_enums")
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    result = await ctx.elicit("Please select options from the enum fields", CHOICES)
    return f"Elicitation completed: action={result.action}"


async def _name(ctx: Context) -> str:
    result = await ctx.elicit("What is your name?", Name)
    return result.data.name if isinstance(result, AcceptedElicitation) else "nobody"


@tool(description="A tool of the conformance suite: test_input_required_result_elicitation")
async def test_input_required_result_elicitation(ctx: Context) -> str:
    return f"Hello, {await _name(ctx)}!"


@tool(description="A tool of the conformance suite: test_input_required_result_request_state")
async def test_input_required_result_request_state(ctx: Context) -> str:
    await ctx.elicit("Please confirm", Ok)
    return "state-ok"


@tool(description="A tool of the conformance suite: test_input_required_result_tampered_state")
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    await ctx.elicit("Please confirm", Ok)
    return "state-ok"


@tool(description="A tool of the conformance suite: test_input_required_result_multi_round")
async def test_input_required_result_multi_round(ctx: Context) -> str:
    name = await _name(ctx)
    await ctx.elicit("What is your favourite colour?", Colour)
    return f"Hello, {name}"


@tool(description="A tool of the conformance suite: test_input_required_result_multiple_inputs")
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    return ", ".join(await asyncio.gather(_name(ctx), _name(ctx)))


@tool(description="A tool of the conformance suite: test_input_required_result_capabilities")
async def test_input_required_result_capabilities(ctx: Context) -> str:
    return await _name(ctx)


@tool(description="A tool of the conformance suite: greet")
def greet(name: str) -> str:
    return f"Hello, {name}!"


@tool(description="A tool of the conformance suite: slow_compute")
async def slow_compute(seconds: Annotated[float, Field(ge=0)] = 1, label: str = "") -> str:
    await asyncio.sleep(seconds)
    return f"done after {seconds:g} s {label}"


@tool(description="A tool of the conformance suite: failing_job")
async def failing_job() -> str:
    await asyncio.sleep(1)
    raise RunTerminalFailed("this job always fails")


@tool(description="A tool of the conformance suite: confirm_delete")
async def confirm_delete(filename: str, ctx: Context) -> str:
    result = await ctx.elicit(f"Delete {filename}?", Confirm)
    yes = isinstance(result, AcceptedElicitation) and result.data.confirm
    return f"{filename} was {'deleted' if yes else 'kept'}"


@tool(description="A tool of the conformance suite: multi_input")
async def multi_input(ctx: Context) -> str:
    return ", ".join(await asyncio.gather(_name(ctx), _name(ctx)))


@tool(description="A tool of the conformance suite: test_tool_with_task")
async def test_tool_with_task(ctx: Context) -> str:
    return await _name(ctx)
