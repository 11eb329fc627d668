"""``ctx.elicit`` for tools: a form for a person, in whatever type the tool wants the answer.

A tool that names a parameter's type ``Context`` is given one. Called over MCP, by a client whose person can be asked,
the question goes to that client and into the inbox, and whoever is first answers; everywhere else it is a form in the
inbox. The tool cannot tell the difference, except by the result's ``meta``.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload
from uuid import UUID

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from rejoinder.asks.request import build_request
from rejoinder.contract.elicitation import (
    ELICITATION_KEY,
    AcceptedElicitation,
    CancelledElicitation,
    DeclinedElicitation,
    ElicitationResult,
    answered_by_ask,
)
from rejoinder.contract.errors import AskArgumentError
from rejoinder.runs.context import RunContext, current_run

T = TypeVar("T")

#: The door of MCP clients: an answer that came through it is the client's own.
CLIENT_DOOR = "mcp"
#: The ``type`` of what ``listen`` is told of a tool's own progress.
PROGRESS = "progress"
#: The one field of a form that asks for something that is no object.
VALUE = "value"


class Context:
    """What a tool is given that has a parameter of this type. Nothing of it reaches the tool's input schema."""

    @overload
    async def elicit(
        self, message: str, schema: type[T], *, timeout: float | None = None
    ) -> ElicitationResult[T]: ...
    @overload
    async def elicit(
        self, message: str, schema: object = None, *, timeout: float | None = None
    ) -> ElicitationResult[Any]: ...
    async def elicit(
        self, message: str, schema: object = None, *, timeout: float | None = None
    ) -> ElicitationResult[Any]:
        """Ask a person for ``schema``: a pydantic model, a dataclass, a TypedDict, a scalar type, a Literal or an Enum,
        a list of texts to choose from, ``{text: {"title": ...}}``, a JSON Schema, or None for a plain go-ahead.

        Returns an AcceptedElicitation whose ``data`` has that type, a DeclinedElicitation or a CancelledElicitation.
        Nobody answering within ``timeout`` seconds is neither: InteractionTimeoutError is raised. Raises also
        AskArgumentError (nothing was stored), InteractionCancelledError and InteractionLimitError, as ``ask`` does,
        and ValueError where the answer fits the form and not the type's own validators.
        """
        return await elicit(message, schema, timeout=timeout)

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell how far the tool is, to a caller that wants to know: an MCP client that asked for progress."""
        report_progress(progress, total, message)

    @property
    def run_id(self) -> UUID:
        return current_run().run_id

    @property
    def request_id(self) -> str:
        return str(self.run_id)


def report_progress(progress: float, total: float | None, message: str | None) -> None:
    """``Context.report_progress``, for the run that the current code belongs to; from any thread."""
    run = current_run()
    if run.listen is not None:
        said = {"type": PROGRESS, "progress": progress, "total": total, "message": message}
        run.loop.call_soon_threadsafe(run.listen, said)


async def elicit(
    message: object, schema: object = None, *, timeout: float | None = None
) -> ElicitationResult[Any]:
    """``Context.elicit``, for the run that the current code belongs to."""
    run = current_run()
    if asyncio.get_running_loop() is not run.loop:
        asked = asyncio.run_coroutine_threadsafe(elicit(message, schema, timeout=timeout), run.loop)
        return await asyncio.wrap_future(asked)
    form, request = await _request(run, message, schema, timeout)
    end = await (
        run.replay.elicit(request) if run.replay is not None else run.asks.elicit(run.asker, request)
    )
    if end.action == "decline":
        return DeclinedElicitation()
    if end.action == "cancel":
        return CancelledElicitation()
    return AcceptedElicitation(form.read(end.content), None if end.via == CLIENT_DOOR else answered_by_ask())


async def _request(
    run: RunContext, message: object, schema: object, timeout: float | None
) -> tuple[Form, Any]:
    try:
        form = form_of(schema)
        request = build_request(
            message,
            identity=run.identity,
            default_timeout=run.settings.interactions_answer_timeout_seconds,
            answer_format="form",
            schema=form.schema,
            timeout=timeout,
        )
    except AskArgumentError as error:
        await run.asks.note_refused_ask(run.asker, error)
        raise
    payload = {**(request.format_payload or {}), ELICITATION_KEY: True}
    return form, replace(request, format_payload=payload)


@dataclass(frozen=True, slots=True)
class Form:
    """The JSON Schema of an object, and the way from an answer to the type that was asked for."""

    schema: dict[str, Any]
    read: Callable[[dict[str, Any]], Any]


def form_of(wanted: object) -> Form:
    """Raises AskArgumentError where ``wanted`` describes nothing that a form can ask for."""
    if wanted is None:
        return Form({"type": "object", "properties": {}}, lambda content: content)
    if isinstance(wanted, dict) and "type" in wanted and "properties" in wanted:
        return Form(wanted, lambda content: _with_defaults(wanted, content))
    if isinstance(wanted, dict | list):
        return _one(_choice(wanted), lambda value: value)
    adapter, schema = _described(wanted)
    if schema.get("type") == "object" and "properties" in schema:
        return Form(schema, lambda content: _typed(adapter, content))
    definitions = schema.pop("$defs", None)
    made = _one(schema, lambda value: _typed(adapter, value))
    if definitions is not None:
        made.schema["$defs"] = definitions
    return made


def _described(wanted: Any) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    if inspect.isroutine(wanted):
        # Pydantic would describe its call.
        raise AskArgumentError("schema must be a type, not a function", field="schema")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(wanted)
        schema = adapter.json_schema(schema_generator=_FormSchema)
    except (PydanticUserError, TypeError, ValueError) as error:
        raise AskArgumentError("schema must be a type that has a JSON Schema", field="schema") from error
    return adapter, _inlined(schema)


def _one(schema: dict[str, Any], read: Callable[[Any], Any]) -> Form:
    whole = {"type": "object", "properties": {VALUE: {"title": "Answer", **schema}}, "required": [VALUE]}
    return Form(whole, lambda content: read(content[VALUE]))


def _choice(wanted: dict[Any, Any] | list[Any]) -> dict[str, Any]:
    """One of some texts; several where the list holds them in a list of its own."""
    if isinstance(wanted, list) and len(wanted) == 1 and isinstance(wanted[0], list | dict):
        inner = _choice(wanted[0])
        titled = inner.pop("oneOf", None)
        inner.pop("type")
        return {
            "type": "array",
            "items": {"anyOf": titled} if titled else {"type": "string", **inner},
            "uniqueItems": True,
        }
    texts = list(wanted)
    if not texts or not all(isinstance(text, str) for text in texts) or len(set(texts)) != len(texts):
        raise AskArgumentError("schema must list different texts to choose from", field="schema")
    if isinstance(wanted, list):
        return {"type": "string", "enum": texts}
    titles = [
        about.get("title", text) if isinstance(about, dict) else about for text, about in wanted.items()
    ]
    if not all(isinstance(title, str) for title in titles):
        raise AskArgumentError("schema must give each choice's title as text", field="schema")
    choices = [{"const": text, "title": title} for text, title in zip(texts, titles, strict=True)]
    return {"type": "string", "oneOf": choices}


def _typed(adapter: TypeAdapter[Any], value: Any) -> Any:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"])
        raise ValueError(
            f"the answer fits the form and not the type that was asked for{f', at {place}' if place else ''}"
        ) from error


def _with_defaults(schema: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """A client may leave out what it did not ask its person for."""
    known = schema["properties"] if isinstance(schema["properties"], dict) else {}
    given = {
        name: about["default"]
        for name, about in known.items()
        if isinstance(about, dict) and "default" in about
    }
    return {**given, **content}


class _FormSchema(GenerateJsonSchema):
    """A field that may be None is one that may be left out: forms know no null."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        if made.get("default", ...) is None:
            del made["default"]
        return made


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """With an Enum's choices in the place of the reference to them: clients show no references."""
    definitions: dict[str, Any] = schema.get("$defs", {})
    simple = {f"#/$defs/{name}": one for name, one in definitions.items() if "enum" in one}

    def put(node: Any) -> Any:
        if isinstance(node, list):
            return [put(one) for one in node]
        if not isinstance(node, dict):
            return node
        if node.get("$ref") in simple:
            return {**simple[node["$ref"]], **{key: put(one) for key, one in node.items() if key != "$ref"}}
        return {key: put(one) for key, one in node.items()}

    whole: dict[str, Any] = {key: put(one) for key, one in schema.items() if key != "$defs"}
    if whole.get("$ref") in simple:
        whole = {**simple[whole["$ref"]]}
    left = {name: put(one) for name, one in definitions.items() if f"#/$defs/{name}" not in simple}
    if left:
        whole["$defs"] = left
    return whole
