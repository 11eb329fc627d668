"""Making a tool of what a version of a preset says, or saying why it cannot be made here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rejoinder.contract.errors import AskArgumentError, ConfigurationError, RejoinderError, ToolArgumentError
from rejoinder.forms.schema import check_schema
from rejoinder.presets.document import Document
from rejoinder.presets.tool import Map, PresetTool, ResumablePreset
from rejoinder.presets.variables import MARK, VariableFault, resolved
from rejoinder.runs.agent import Agent
from rejoinder.runs.resumable import Resumable
from rejoinder.runs.tools import Tool

_FIXED = "fixed_kwargs"


class PresetFault(Exception):
    """``field`` is the part of the document that is at fault; ``reason`` is a sentence."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field
        self.reason = reason

    @property
    def sentence(self) -> str:
        """The reason, with the part named in front of it once."""
        if self.reason.startswith(self.field):
            return self.reason
        argument = self.field.removeprefix(f"{_FIXED}.")
        return f"{self.field}: {self.reason.removeprefix(f'argument {argument}: ')}"


@dataclass(frozen=True, slots=True)
class Workshop:
    """What presets are made with in this process. ``base`` finds a tool of the manifest by its name, ``extend`` puts
    extensions around one (raises ConfigurationError), ``expression`` compiles one (raises RejoinderError), ``variables``
    are those that a preset may refer to, and ``at_version`` makes the tool of another version."""

    base: Callable[[str], Tool | None]
    extend: Callable[[list[Any], Tool], Tool]
    expression: Callable[[str, str], Awaitable[Map]]
    variables: Collection[str]
    environment: Mapping[str, str]
    at_version: Callable[[UUID, str], Awaitable[Tool]]


async def build(shop: Workshop, name: str, version: UUID, number: int, document: Document) -> PresetTool:
    """Raises PresetFault."""
    target = _target(shop, document)
    _check_pins(shop, target, document)
    exposed = exposed_schema(target.input_schema, document.fixed_kwargs)
    checked = _own_schema(document, exposed)
    if document.output_schema is not None:
        _schema(document.output_schema, "output_schema")
    shown = exposed
    if checked is not None:
        # Whatever it says of others: the base tool takes none that this schema does not name.
        shown = checked if document.input_map is not None else checked | {"additionalProperties": False}
    kind = ResumablePreset if isinstance(target, Resumable) else PresetTool
    return kind(
        target,
        document,
        name=name,
        version=version,
        number=number,
        shown=shown,
        checked=None if checked is None else shown,
        pins=lambda: resolved(document.fixed_kwargs, shop.variables, shop.environment),
        input_map=await _map(shop, document.input_map, "input_map"),
        output_map=await _map(shop, document.output_map, "output_map"),
        at_version=shop.at_version,
    )


def exposed_schema(schema: Mapping[str, Any], fixed: Collection[str]) -> dict[str, Any]:
    """A tool's input schema without the fixed arguments, and without the definitions that only those used."""
    left = dict(schema)
    left["properties"] = {
        name: one for name, one in schema.get("properties", {}).items() if name not in fixed
    }
    required = [name for name in schema.get("required", ()) if name not in fixed]
    left.pop("required", None)
    if required:
        left["required"] = required
    definitions = left.pop("$defs", {})
    used: dict[str, Any] = {}
    pending = _references(left)
    while pending:
        name = pending.pop()
        if name in definitions and name not in used:
            used[name] = definitions[name]
            pending |= _references(definitions[name])
    if used:
        left["$defs"] = {name: one for name, one in definitions.items() if name in used}
    return left


def _references(node: Any) -> set[str]:
    """The names of the definitions that a schema refers to."""
    if isinstance(node, dict):
        found = set().union(*(_references(one) for one in node.values()))
        reference = node.get("$ref")
        if isinstance(reference, str):
            found.add(reference.removeprefix("#/$defs/"))
        return found
    if isinstance(node, list):
        return set().union(*(_references(one) for one in node))
    return set()


def _target(shop: Workshop, document: Document) -> Tool:
    base = shop.base(document.base_tool)
    if base is None:
        raise PresetFault("base_tool", f"no tool named {document.base_tool} is exposed")
    if isinstance(base, PresetTool):
        raise PresetFault(
            "base_tool", f"{document.base_tool} is a preset, and a preset is no base for another"
        )
    if isinstance(base, Agent):
        raise PresetFault(
            "base_tool", f"{document.base_tool} is an agent, and an agent is no base for a preset"
        )
    if base.internal and not base.only_pinned:
        raise PresetFault("base_tool", f"{document.base_tool} is internal, and no preset may be made of it")
    if base.only_pinned and not document.fixed_kwargs:
        raise PresetFault(
            "fixed_kwargs",
            f"{document.base_tool} is run with fixed arguments only, so a preset of it fixes some",
        )
    if base.requires_approval and document.input_map is not None:
        raise PresetFault(
            "input_map",
            f"{document.base_tool} waits for approval: the person would be shown something else than what runs",
        )
    if not document.extensions:
        return base
    try:
        return shop.extend(document.extensions, base)
    except ConfigurationError as error:
        raise PresetFault("extensions", error.message) from None


def _check_pins(shop: Workshop, target: Tool, document: Document) -> None:
    taken = target.input_schema.get("properties", {})
    for name in document.fixed_kwargs:
        if name not in taken:
            raise PresetFault(f"fixed_kwargs.{name}", f"{document.base_tool} takes no argument named {name}")
    try:
        pins = resolved(document.fixed_kwargs, shop.variables, shop.environment)
    except VariableFault as fault:
        raise PresetFault(f"fixed_kwargs.{fault.path}", fault.reason) from None
    try:
        target.check_part(pins)
    except ToolArgumentError as error:
        place = error.field or "arguments"
        written = document.fixed_kwargs.get(place.partition(".")[0])
        # The sentence is about the value behind a reference, which nobody may be told.
        reason = (
            f"argument {place}: what the variable holds does not fit" if _refers(written) else error.message
        )
        raise PresetFault(f"fixed_kwargs.{place}", reason) from None


def _refers(value: Any) -> bool:
    if isinstance(value, str):
        return value.startswith(MARK)
    if isinstance(value, dict):
        return any(_refers(one) for one in value.values())
    return isinstance(value, list) and any(_refers(one) for one in value)


def _own_schema(document: Document, exposed: dict[str, Any]) -> dict[str, Any] | None:
    """The preset's own schema of arguments. It narrows: every call is checked by the base tool too, so here it is only
    seen to that a call can be made at all."""
    if document.input_schema is None:
        if document.input_map is not None:
            raise PresetFault("input_map", "it needs input_schema, which says what callers give")
        return None
    own = _schema(document.input_schema, "input_schema")
    if document.input_map is not None:
        return own
    named = own.get("properties", {})
    for name in named:
        if name in document.fixed_kwargs:
            raise PresetFault("input_schema", f"{name} is fixed, so no caller can give it")
        if name not in exposed["properties"]:
            raise PresetFault("input_schema", f"{document.base_tool} takes no argument named {name}")
    for name in exposed.get("required", ()):
        if name not in named or name not in own.get("required", ()):
            raise PresetFault("input_schema", f"{document.base_tool} needs {name}: name it, and require it")
    return own


def _schema(schema: dict[str, Any], field: str) -> dict[str, Any]:
    try:
        return check_schema(schema, field=field)
    except AskArgumentError as error:
        raise PresetFault(field, error.message) from None


async def _map(shop: Workshop, text: str | None, field: str) -> Map | None:
    if text is None:
        return None
    try:
        return await shop.expression(text, field)
    except RejoinderError as error:
        if error.status >= 500:
            raise
        raise PresetFault(field, error.message) from None
