"""Extensions: what makes a new tool out of a tool, where a manifest attaches it to one."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from rejoinder.contract.errors import ConfigurationError
from rejoinder.runs.tools import Tool
from rejoinder.verifiers.registry import Verifiers

Fail = Callable[[str], ConfigurationError]


class Extension(ABC):
    """One kind of extension. A module that the manifest names under ``extensions_modules`` holds an instance of it.

    The composed tool is named ``<tool>_<name>``. Its config is the author's: nobody who calls the tool sees it.
    """

    name: str

    @abstractmethod
    def compose(self, tool: Tool, config: Mapping[str, Any], verifiers: Verifiers) -> Tool:
        """The new tool. Raises ConfigurationError where ``tool`` or ``config`` cannot be used."""

    def name_for(self, tool: Tool) -> str:
        return f"{tool.name}_{self.name}"


class Attachments:
    """Reads the ``extensions`` of a manifest's tool entries: ``{tool: [[element, ...], ...]}``, where each inner list
    makes one tool and an element is an extension's name, or ``{name, config}``."""

    def __init__(self, verifiers: Verifiers, fail: Fail) -> None:
        self._known: dict[str, Extension] = {}
        self._verifiers = verifiers
        self._fail = fail

    def load(self, where: str, module: ModuleType) -> None:
        """Know the extensions of a module. Nothing is composed by it."""
        found = [one for one in vars(module).values() if isinstance(one, Extension)]
        if not found:
            raise self._fail(f"{where}: {module.__name__} defines no extension")
        for one in found:
            if self._known.setdefault(one.name, one) is not one:
                raise self._fail(f"{where}: there are two extensions named {one.name}")

    def composed(self, where: str, given: Any, tools: Mapping[str, Tool]) -> list[Tool]:
        if given is None:
            return []
        if not isinstance(given, dict):
            raise self._fail(f"{where} must map names of tools to lists")
        made = []
        for name, combinations in given.items():
            place = f"{where}.{name}"
            if name not in tools:
                raise self._fail(f"{place}: the module has no tool of this name")
            if not isinstance(combinations, list) or not combinations:
                raise self._fail(f"{place} must be a list of lists of extensions")
            for i, elements in enumerate(combinations):
                if not isinstance(elements, list) or not elements:
                    raise self._fail(f"{place}[{i}] must be a list of extensions")
                tool = tools[name]
                for j, element in enumerate(elements):
                    tool = self._compose(f"{place}[{i}][{j}]", element, tool)
                made.append(tool)
        return made

    def around(self, elements: list[Any], tool: Tool) -> Tool:
        """``tool`` with extensions around it, one after the other. Raises ConfigurationError saying which is wrong."""
        # Whoever is told of it knows nothing of a manifest.
        plain = copy.copy(self)
        plain._fail = ConfigurationError
        for i, element in enumerate(elements):
            tool = plain._compose(f"extensions[{i}]", element, tool)
        return tool

    def _compose(self, where: str, element: Any, tool: Tool) -> Tool:
        entry = {"name": element} if isinstance(element, str) else element
        if (
            not isinstance(entry, dict)
            or set(entry) - {"name", "config"}
            or not isinstance(entry.get("name"), str)
        ):
            raise self._fail(f"{where} must be an extension's name, or an object with name and config")
        extension = self._known.get(entry["name"])
        if extension is None:
            raise self._fail(
                f"{where}: no module under extensions_modules has an extension named {entry['name']}"
            )
        config = entry.get("config")
        if config is not None and not isinstance(config, dict):
            raise self._fail(f"{where}.config must be an object")
        try:
            made = extension.compose(tool, config or {}, self._verifiers)
        except ConfigurationError as error:
            raise self._fail(f"{where}: {error.message}") from None
        # What waits for approval waits for it under every name.
        made.requires_approval = made.requires_approval or tool.requires_approval
        # And what nobody may call, nobody may call by way of what wraps it.
        made.internal, made.admin_may_run = tool.internal, tool.admin_may_run
        made.only_pinned = tool.only_pinned
        return made
