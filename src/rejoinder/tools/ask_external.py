"""The extension ``ask_external``: a tool that makes something at an outside system becomes one that waits until that
system has answered.

The tool takes ``callback_url`` and returns the address that a person is to visit. The composed tool takes the rest of
its arguments, and ``question``, ``answer_schema`` and ``timeout``; it returns the answer alone. Name this module under
``extensions_modules`` and attach ``ask_external`` to a tool. Its config, ``{verifier: {verifier, config}}``, says how
the outside system proves itself; whoever calls the tool can neither see nor change it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, get_type_hints

from pydantic import Field

from rejoinder.contract.errors import AskArgumentError, ConfigurationError, ToolFailedError
from rejoinder.contract.verifiers import Binding
from rejoinder.runs.ask import ask_with
from rejoinder.runs.extensions import Extension
from rejoinder.runs.tools import Tool
from rejoinder.verifiers.registry import Verifiers, binding_of

CALLBACK_URL = "callback_url"
#: What the composed tool takes beside the tool's own arguments.
ADDED: dict[str, tuple[Any, Any]] = {
    "question": (
        Annotated[str, Field(description="What the person is asked to do.")],
        inspect.Parameter.empty,
    ),
    "answer_schema": (
        Annotated[dict[str, Any] | None, Field(description="The JSON Schema that the answer must fit.")],
        None,
    ),
    "timeout": (Annotated[float | None, Field(description="Seconds to wait for the answer.")], None),
}


class AskExternal(Extension):
    name = "ask_external"

    def compose(self, tool: Tool, config: Mapping[str, Any], verifiers: Verifiers) -> Tool:
        if tool.checkpointed:
            raise ConfigurationError(f"{tool.name} goes on by itself; ask in its own code")
        own = _own_parameters(tool)
        binding = _binding(config, verifiers)

        async def composed(**given: Any) -> Any:
            asked = {name: given.pop(name, None) for name in ADDED}

            async def link(callback_url: str) -> Any:
                made = await tool.call(given | {CALLBACK_URL: callback_url})
                if not isinstance(made, str):
                    raise ToolFailedError(f"{tool.name} must return the address that a person is to visit")
                return made

            answer: Any = await ask_with(
                asked["question"],
                {
                    "answer_format": "external",
                    "link": link,
                    "schema": asked["answer_schema"],
                    "timeout": asked["timeout"],
                    "verifier": binding,
                },
            )
            return answer.answer

        hints = get_type_hints(tool.function, include_extras=True)
        composed.__annotations__ = {name: hints.get(name, Any) for name in own} | {
            name: kind for name, (kind, _) in ADDED.items()
        }
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, (_, default) in ADDED.items()
        ]
        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own.values()]
        composed.__signature__ = inspect.Signature([*parameters, *added])  # type: ignore[attr-defined]
        composed.__name__ = self.name_for(tool)
        about = f"{tool.description}\n\nWaits until the outside system has answered, and returns its answer."
        return Tool(
            composed,
            title=tool.title,
            description=about.strip(),
            idempotent=tool.idempotent,
            destructive=tool.destructive,
        )


def _own_parameters(tool: Tool) -> dict[str, inspect.Parameter]:
    """The arguments of the tool that its callers go on to give. Raises ConfigurationError."""
    parameters = dict(inspect.signature(tool.function).parameters)
    for parameter in parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigurationError(
                f"{tool.name} must not take {parameter.name} by its position, or as a rest"
            )
    if CALLBACK_URL not in tool.input_schema.get("properties", {}):
        raise ConfigurationError(f"{tool.name} must take callback_url, to make the address from")
    taken = [name for name in ADDED if name in parameters]
    if taken:
        raise ConfigurationError(f"{tool.name} must not take {taken[0]}: the composed tool does")
    # What is not in the schema is given by whoever runs the tool, such as its context.
    shown = tool.input_schema.get("properties", {})
    return {name: one for name, one in parameters.items() if name != CALLBACK_URL and name in shown}


def _binding(config: Mapping[str, Any], verifiers: Verifiers) -> Binding | None:
    """An unknown verifier is refused when the question is asked; a config that could not work, here."""
    unknown = set(config) - {"verifier"}
    if unknown:
        raise ConfigurationError(f"ask_external takes no config named {min(unknown)}; it takes verifier")
    if config.get("verifier") is None:
        return None
    try:
        binding = binding_of(config["verifier"])
        return verifiers.bind(binding) if verifiers.get(binding.verifier) is not None else binding
    except AskArgumentError as error:
        raise ConfigurationError(error.message) from None


ask_external = AskExternal()
