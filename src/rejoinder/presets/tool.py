"""A preset as a tool: its base tool, called with the fixed arguments whatever the caller gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from uuid import UUID

from pydantic_core import to_json as json_bytes

from rejoinder.contract.errors import AnswerMismatchError, ToolArgumentError, ToolFailedError
from rejoinder.contract.text import unstorable
from rejoinder.expressions import ExpressionFailedError
from rejoinder.forms.answers import examined
from rejoinder.forms.paths import dotted
from rejoinder.presets.document import Document
from rejoinder.presets.variables import VariableFault
from rejoinder.runs.outcome import Parked
from rejoinder.runs.resumable import Resumable
from rejoinder.runs.tools import Tool, suspensions, to_json

#: Where what the caller gave waits for the expression that makes the base tool's arguments of it.
_UNMAPPED = "\0unmapped"


class Map(Protocol):
    """A compiled expression: from one JSON value to another."""

    async def __call__(self, value: Any) -> Any: ...


class PresetTool(Tool):
    """One version of a preset, bound to the tool as it is here. ``target`` is the base tool with the preset's
    extensions around it; ``shown`` the schema that callers see, and ``checked`` the preset's own, where it has one."""

    def __init__(
        self,
        target: Tool,
        document: Document,
        *,
        name: str,
        version: UUID,
        number: int,
        shown: dict[str, Any],
        checked: dict[str, Any] | None,
        pins: Callable[[], dict[str, Any]],
        input_map: Map | None,
        output_map: Map | None,
        at_version: Callable[[UUID, str], Awaitable[Tool]],
    ) -> None:
        # All that a tool is made of is the target's, whatever else it may come to have: what it says of itself, what
        # it waits for, and how it goes on.
        vars(self).update(vars(target))
        if target.only_pinned:
            # What it fixes is what the base was kept for.
            self.internal = self.only_pinned = False
        self.name = name
        self.title = None
        self.description = document.description
        self.input_schema = shown
        self.target = target
        self.document = document
        self.number = number
        self.preset_version = version
        self.function = self._as_function
        self.__name__ = name
        self._checked = checked
        self._pins = pins
        self._input_map = input_map
        self._output_map = output_map
        self._at_version = at_version

    @property
    def approval_schema(self) -> dict[str, Any]:
        fixed = {name: {"const": value} for name, value in self.document.fixed_kwargs.items()}
        schema = dict(self.input_schema)
        schema["properties"] = schema.get("properties", {}) | fixed
        schema["required"] = [*schema.get("required", ()), *fixed]
        return schema

    async def of_version(self, version: UUID) -> Tool:
        if version == self.preset_version:
            return self
        found = await self._at_version(version, self.name)
        # An agent may be told to have its calls approved that others make without.
        return found.needing_approval() if self.requires_approval and not found.requires_approval else found

    def check_arguments(self, arguments: object) -> dict[str, Any]:
        """As a tool does. What is fixed cannot be given, not even with the same value."""
        if not isinstance(arguments, Mapping):
            raise ToolArgumentError("arguments must be an object", field="arguments")
        for name in self.document.fixed_kwargs:
            if name in arguments:
                raise ToolArgumentError(f"argument {name}: it is fixed here and cannot be given", field=name)
        if reason := unstorable(dict(arguments)):
            raise ToolArgumentError(f"arguments cannot be stored: {reason}", field="arguments")
        given = dict(arguments)
        if self._checked is not None:
            self._check_own(self._checked, given)
        if self._input_map is not None:
            return {_UNMAPPED: given}
        return self._whole(given)

    def check_approved(self, arguments: dict[str, Any]) -> dict[str, Any]:
        rest = dict(arguments)
        for name, value in self.document.fixed_kwargs.items():
            # By their JSON: to Python, 1 and true are the same.
            if name in rest and json_bytes(rest[name]) == json_bytes(value):
                del rest[name]
        return self.check_arguments(rest)

    def with_defaults(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """With what is fixed as it was written: a reference to the environment is not followed here."""
        given = dict(arguments) | self.document.fixed_kwargs
        return given if self._input_map is not None else self.target.with_defaults(given)

    async def run(self, arguments: dict[str, Any]) -> Any:
        if _UNMAPPED in arguments:
            arguments = self._whole(await self._mapped(arguments[_UNMAPPED]))
        return await self._returned(await self.target.run(arguments))

    async def go_on(self, given: dict[str, Any]) -> Any:
        if given.get("approval") is not None:
            return await super().go_on(given)
        own = {name: v for name, v in given["arguments"].items() if name not in self.document.fixed_kwargs}
        if self._input_map is not None:
            own = await self._mapped(own)
        whole = self.target.with_defaults(own | self._followed())
        return await self._returned(await self.target.go_on(given | {"arguments": whole}))

    def _whole(self, own: dict[str, Any]) -> dict[str, Any]:
        """The target's arguments as its function takes them."""
        try:
            return self.target.check_arguments(own | self._followed())
        except ToolArgumentError as error:
            fixed = (error.field or "").partition(".")[0]
            if fixed not in self.document.fixed_kwargs:
                raise
            # Not the caller's fault, and the sentence might hold what only the base tool may know.
            raise ToolFailedError(
                f"the preset {self.name} no longer fits its base tool: argument {fixed}"
            ) from None

    def _followed(self) -> dict[str, Any]:
        try:
            return self._pins()
        except VariableFault as fault:
            raise ToolFailedError(f"the preset {self.name} cannot be used here: {fault.reason}") from None

    async def _mapped(self, given: dict[str, Any]) -> dict[str, Any]:
        assert self._input_map is not None
        try:
            made = await self._input_map(given)
        except ExpressionFailedError as error:
            raise ToolArgumentError(
                f"the input_map of {self.name}: {error.message}", field="arguments"
            ) from None
        if not isinstance(made, dict):
            raise ToolArgumentError(
                f"the input_map of {self.name} made no object of these arguments", field="arguments"
            )
        for name in self.document.fixed_kwargs:
            if name in made:
                raise ToolArgumentError(f"argument {name}: it is fixed here and cannot be given", field=name)
        return made

    async def _returned(self, result: Any) -> Any:
        plain = self._output_map is None and self.document.output_schema is None
        if plain or isinstance(result, Parked) or suspensions(result) is not None:
            return result
        value = to_json(result)
        if self._output_map is not None:
            try:
                value = await self._output_map(value)
            except ExpressionFailedError as error:
                raise ToolFailedError(f"the output_map of {self.name}: {error.message}") from None
        if self.document.output_schema is not None:
            _, found = examined({"schema": self.document.output_schema}, value)
            if found:
                place = dotted(next(iter(found)))
                raise ToolFailedError(
                    f"the result does not fit the output_schema of {self.name}"
                    + (f" at {place}" if place else "")
                )
        return value

    def _check_own(self, schema: dict[str, Any], given: dict[str, Any]) -> None:
        try:
            _, found = examined({"schema": schema}, given)
        except AnswerMismatchError:
            raise ToolFailedError(f"the input_schema of {self.name} cannot be processed") from None
        if found:
            path, sentence = next(iter(found.items()))
            place = dotted(path) or "arguments"
            raise ToolArgumentError(f"argument {place}: {sentence}", field=place)

    async def _as_function(self, **given: Any) -> Any:
        """Calling the preset as a function fixes the same arguments."""
        return await self.run(self.check_arguments(given))


class ResumablePreset(PresetTool, Resumable):
    """A preset of a resumable tool: resumable itself. Its runs play the base tool's code, each time with the fixed
    arguments of the version that they began with."""

    def check_arguments(self, arguments: object) -> dict[str, Any]:
        super().check_arguments(arguments)
        assert isinstance(arguments, Mapping)
        # As they were given: where this is a step of another run, they are what the run of its own is called with.
        return {_UNMAPPED: dict(arguments)}

    async def run(self, arguments: dict[str, Any]) -> Any:
        return await Resumable.run(self, arguments[_UNMAPPED])

    async def play(self, arguments: dict[str, Any]) -> Any:
        assert isinstance(self.target, Resumable)
        # They may be what a person approved, who was shown what is fixed too.
        own = self.check_approved(arguments)[_UNMAPPED]
        if self._input_map is not None:
            own = await self._mapped(own)
        return await self._returned(await self.target.play_checked(self._whole(own)))

    async def _as_function(self, **given: Any) -> Any:
        return await self.play(given)
