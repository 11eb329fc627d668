"""The manifest's ``agents``: what each one is made of. See ``docs/reference/manifest.md``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import ModuleType
from typing import Any, get_args

from rejoinder.contract.errors import ConfigurationError
from rejoinder.runs.agent import Agent, Kind, LatePreset, ModelSpec, Subagent
from rejoinder.runs.tools import Tool

KEYS = {
    "name",
    "title",
    "description",
    "graph",
    "kind",
    "model",
    "instructions",
    "tools",
    "presets",
    "subagents",
    "recursion_limit",
    "requires_approval",
}
SUBAGENT_KEYS = {"name", "description", "instructions", "tools", "presets", "model", "requires_approval"}
MODEL_KEYS = {"name", "base_url_env", "api_key_env", "options"}


Mark = Callable[[Tool], Tool]
#: To be approved before each call; kept from everybody who calls tools; the same, but for presets of it.
APPROVED: Mark = Tool.needing_approval
INTERNAL: Mark = Tool.made_internal
ONLY_PINNED: Mark = Tool.made_only_pinned


def marked(
    where: str,
    value: Any,
    tools: Sequence[Tool],
    mark: Mark,
    fail: Callable[[str], ConfigurationError],
    *,
    also: Collection[str] = (),
) -> list[Tool]:
    """``tools``, of which those that ``value`` names (or, where it is true, all) are marked. ``also`` are names that
    ``value`` may hold besides theirs."""
    if value is None or value is False:
        return list(tools)
    if value is True:
        return [mark(tool) for tool in tools]
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise fail(f"{where} must be true, or a list of names of its tools")
    if missing := sorted(set(value) - {tool.name for tool in tools} - set(also)):
        raise fail(f"{where}: {missing[0]} is none of its tools")
    return [mark(tool) if tool.name in value else tool for tool in tools]


class Reader:
    """Reads one manifest's agents. ``fail`` makes the error of a place, ``load`` a module by its name."""

    def __init__(
        self,
        tools: Callable[[str], Tool | None],
        fail: Callable[[str], ConfigurationError],
        load: Callable[[str, str], ModuleType],
    ) -> None:
        self._tools = tools
        self._fail = fail
        self._load = load

    def agent(self, where: str, entry: Any) -> Agent:
        """Raises ConfigurationError naming the key."""
        self._keys(where, entry, KEYS)
        graph = self._graph(where, entry.get("graph"))
        model = self._model(f"{where}.model", entry.get("model"))
        if graph is None and model is None:
            raise self._fail(f"{where} needs a model, or a graph of your own")
        kind = entry.get("kind", "simple")
        if kind not in get_args(Kind):
            raise self._fail(f"{where}.kind must be one of {', '.join(get_args(Kind))}")
        subagents = self._list(f"{where}.subagents", entry.get("subagents"))
        if graph is not None and (subagents or "kind" in entry or "instructions" in entry):
            raise self._fail(f"{where}: a graph of your own takes no kind, instructions or subagents")
        limit = entry.get("recursion_limit")
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
            raise self._fail(f"{where}.recursion_limit must be a whole number above zero")
        return Agent(
            self._text(where, entry, "name", needed=True),
            title=self._text(where, entry, "title") or None,
            description=self._text(where, entry, "description"),
            model=model,
            instructions=self._text(where, entry, "instructions"),
            tools=self._tools_of(where, entry),
            subagents=tuple(
                self._subagent(f"{where}.subagents[{i}]", one) for i, one in enumerate(subagents)
            ),
            graph=graph,
            kind=kind,
            recursion_limit=limit,
        )

    def _subagent(self, where: str, entry: Any) -> Subagent:
        self._keys(where, entry, SUBAGENT_KEYS)
        return Subagent(
            self._text(where, entry, "name", needed=True),
            self._text(where, entry, "description", needed=True),
            self._text(where, entry, "instructions", needed=True),
            self._tools_of(where, entry),
            self._model(f"{where}.model", entry.get("model")),
        )

    def _tools_of(self, where: str, entry: Mapping[str, Any]) -> tuple[Tool, ...]:
        tools = self._named(f"{where}.tools", entry.get("tools"))
        tools += self._presets(f"{where}.presets", entry.get("presets"), {one.name for one in tools})
        needed = entry.get("requires_approval")
        return tuple(marked(f"{where}.requires_approval", needed, tools, APPROVED, self._fail))

    def _graph(self, where: str, value: Any) -> Callable[..., Any] | None:
        if value is None:
            return None
        module, _, attribute = value.rpartition(":") if isinstance(value, str) else ("", "", "")
        if not module or not attribute:
            raise self._fail(f"{where}.graph must name a function, such as ./graphs.py:build")
        factory = getattr(self._load(where, module), attribute, None)
        if not callable(factory):
            raise self._fail(f"{where}.graph: {module} has no function named {attribute}")
        return factory  # type: ignore[no-any-return]

    def _model(self, where: str, value: Any) -> ModelSpec | None:
        if value is None:
            return None
        if isinstance(value, str):
            value = {"name": value}
        self._keys(where, value, MODEL_KEYS)
        options = value.get("options") or {}
        if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
            raise self._fail(f"{where}.options must hold keys, such as temperature:")
        if secret := sorted(set(options) & {"api_key", "openai_api_key"}):
            raise self._fail(f"{where}.options holds {secret[0]}; name a variable in api_key_env instead")
        return ModelSpec(
            self._text(where, value, "name", needed=True),
            self._text(where, value, "base_url_env") or None,
            self._text(where, value, "api_key_env") or None,
            dict(options),
        )

    def _named(self, where: str, value: Any) -> tuple[Tool, ...]:
        found = []
        for name in self._list(where, value):
            if not isinstance(name, str):
                raise self._fail(f"{where} must be a list of names")
            one = self._tools(name)
            if one is None:
                raise self._fail(f"{where}: no entry of tools exposes {name}")
            if one.internal:
                raise self._fail(f"{where}: {name} is internal, and no agent may be given it")
            if isinstance(one, Agent):
                raise self._fail(f"{where}: {name} is an agent; hand work to it as a subagent")
            found.append(one)
        return tuple(found)

    def _presets(self, where: str, value: Any, taken: set[str]) -> tuple[Tool, ...]:
        """They are looked up when the agent is driven: presets are made and changed while this runs."""
        found = []
        for name in self._list(where, value):
            if not isinstance(name, str):
                raise self._fail(f"{where} must be a list of names of presets")
            if name in taken:
                raise self._fail(f"{where}: {name} is named twice")
            if self._tools(name) is not None:
                raise self._fail(f"{where}: {name} is a tool and no preset; name it under tools")
            taken.add(name)
            try:
                found.append(LatePreset(name))
            except ConfigurationError as error:
                raise self._fail(f"{where}: {error.message}") from None
        return tuple(found)

    def _list(self, where: str, value: Any) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._fail(f"{where} must be a list")
        return value

    def _keys(self, where: str, entry: Any, known: set[str]) -> None:
        if not isinstance(entry, Mapping):
            raise self._fail(f"{where} must hold keys, such as name:")
        for key in entry:
            if key not in known:
                raise self._fail(f"{where} has a key that is not known: {key}")

    def _text(self, where: str, entry: Mapping[str, Any], key: str, *, needed: bool = False) -> str:
        value = entry.get(key)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or (needed and not value.strip()):
            raise self._fail(f"{where}.{key} must be text" + (" and not empty" if needed else ""))
        return value
