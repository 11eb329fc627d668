"""The manifest: which tools and agents this deployment exposes, and nothing else.

tools:
  - title: Housekeeping          # for people; optional
    module: ./housekeeping.py    # a file beside the manifest, or a dotted module name
    include: [delete_branch]     # names to expose; left out: every tool of the module
    requires_approval: [delete_branch]  # or true: every tool of the entry
    internal: [confirm_payment]  # or true; nobody calls it, hooks run it
    only_pinned: [request_payment]  # or true; run by way of presets only
    extensions:                  # see extensions.py
      delete_branch: [[ask_external]]
extensions_modules: [rejoinder.tools.ask_external]
webhook_verifier_modules: [./our_verifiers.py]
agents:
  - name: housekeeper            # see manifest_agents.py
    model: openai:gpt-5-mini
    tools: [delete_branch]
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol
from uuid import UUID

import yaml

from rejoinder.contract.errors import ConfigurationError, ToolNotFoundError
from rejoinder.contract.verifiers import Verifier
from rejoinder.runs.agent import Agent
from rejoinder.runs.extensions import Attachments
from rejoinder.runs.manifest_agents import APPROVED, INTERNAL, ONLY_PINNED, Reader, marked
from rejoinder.runs.resumable import lacking
from rejoinder.runs.tools import Tool
from rejoinder.store.runs import Run
from rejoinder.verifiers.registry import Verifiers

KEYS = {"tools", "agents", "extensions_modules", "webhook_verifier_modules"}
ENTRY_KEYS = {"title", "module", "include", "extensions", "requires_approval", "internal", "only_pinned"}
#: Keys of the same interface that this version does not serve. Passing over one silently could drop a safeguard.
NOT_SERVED = {
    "lifecycle_modules",
    "channels",
    "presets",
}


@dataclass(frozen=True, slots=True)
class Exposed:
    tool: Tool
    group: str | None


class Versions(Protocol):
    """Where the versions of presets are made into tools."""

    async def of_version(self, version: UUID, name: str) -> Tool:
        """Raises ToolNotFoundError."""
        ...


class Registry:
    """The exposed tools by name, and the webhook verifiers. Presets come and go beside the tools of the manifest, which
    their names never hide."""

    def __init__(self, exposed: list[Exposed] | None = None) -> None:
        self.verifiers = Verifiers()
        self.attachments = Attachments(self.verifiers, ConfigurationError)
        self.versions: Versions | None = None
        self._tools: dict[str, Exposed] = {}
        self._presets: Mapping[str, Exposed] = {}
        for one in exposed or []:
            self.add(one.tool, one.group)

    def add(self, tool: Tool, group: str | None = None) -> None:
        known = self._tools.get(tool.name)
        if known is not None and known.tool is not tool:
            raise ConfigurationError(f"the manifest exposes two tools named {tool.name}")
        self._tools[tool.name] = Exposed(tool, group)

    def bind(self, presets: Mapping[str, Exposed]) -> None:
        """These are the presets from now on."""
        self._presets = {name: one for name, one in presets.items() if name not in self._tools}

    def get(self, name: str) -> Tool:
        """Raises ToolNotFoundError."""
        exposed = self._tools.get(name) or self._presets.get(name)
        if exposed is None:
            raise ToolNotFoundError("no tool of this name is exposed", field="tool_name")
        return exposed.tool

    def manifested(self, name: str) -> Tool | None:
        """A tool of the manifest, or None where a preset or nothing has the name."""
        exposed = self._tools.get(name)
        return None if exposed is None else exposed.tool

    def agents(self) -> Iterator[Agent]:
        return (one.tool for one in self._tools.values() if isinstance(one.tool, Agent))

    async def of_run(self, run: Run, pin: Callable[[UUID, UUID], Awaitable[UUID]]) -> Tool:
        """The tool that carries a run on. Of a preset it is the version that the run began with; ``pin`` writes that
        down where this is the beginning. Raises ToolNotFoundError."""
        if run.preset_version is not None:
            if self.versions is None:
                raise ToolNotFoundError("no tool of this name is exposed", field="tool_name")
            return await self.versions.of_version(run.preset_version, run.tool)
        tool = self.get(run.tool)
        if tool.preset_version is None:
            return tool
        return await tool.of_version(await pin(run.id, tool.preset_version))

    def __contains__(self, name: str) -> bool:
        return name in self._tools or name in self._presets

    def __iter__(self) -> Iterator[Exposed]:
        return iter([*self._tools.values(), *self._presets.values()])

    def __len__(self) -> int:
        return len(self._tools) + len(self._presets)


def load_manifest(path: Path) -> Registry:
    """Raises ConfigurationError naming the file, the entry and the key."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"the manifest {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"the manifest {path} is not UTF-8 text") from None
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"the manifest {path} is not YAML: {error}") from None
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"the manifest {path} must hold keys, such as tools:")
    for key in content:
        if key in NOT_SERVED:
            raise ConfigurationError(f"the manifest {path}: {key} is not served by this version; remove it")
        if key not in KEYS:
            raise ConfigurationError(f"the manifest {path} has a key that is not known: {key}")
    entries = content.get("tools") or []
    if not isinstance(entries, list):
        raise ConfigurationError(f"the manifest {path}: tools must be a list")
    registry = Registry()
    for where, module in _modules(path, content, "webhook_verifier_modules"):
        _verifiers(path, where, module, registry.verifiers)
    attachments = Attachments(
        registry.verifiers, lambda text: ConfigurationError(f"the manifest {path}: {text}")
    )
    for where, module in _modules(path, content, "extensions_modules"):
        attachments.load(where, module)
    registry.attachments = attachments
    for i, entry in enumerate(entries):
        for one in _entry(path, f"tools[{i}]", entry, attachments):
            registry.add(one.tool, one.group)
    _agents(path, content.get("agents") or [], registry)
    return registry


def _agents(path: Path, entries: Any, registry: Registry) -> None:
    if not isinstance(entries, list):
        raise ConfigurationError(f"the manifest {path}: agents must be a list")
    reader = Reader(
        lambda name: registry.get(name) if name in registry else None,
        lambda text: ConfigurationError(f"the manifest {path}: {text}"),
        lambda where, name: _import(path, where, name),
    )
    for i, entry in enumerate(entries):
        registry.add(reader.agent(f"agents[{i}]", entry), "Agents")


def _modules(path: Path, content: dict[str, Any], key: str) -> Iterator[tuple[str, ModuleType]]:
    names = content.get(key) or []
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"the manifest {path}: {key} must be a list of modules or files")
    for i, name in enumerate(names):
        yield f"{key}[{i}]", _import(path, f"{key}[{i}]", name)


def _verifiers(path: Path, where: str, module: ModuleType, known: Verifiers) -> None:
    found = [one for one in vars(module).values() if isinstance(one, Verifier)]
    if not found:
        raise ConfigurationError(
            f"the manifest {path}: {where}: {module.__name__} defines no webhook verifier"
        )
    for one in found:
        try:
            known.add(one)
        except ConfigurationError as error:
            raise ConfigurationError(f"the manifest {path}: {where}: {error.message}") from None


def _entry(path: Path, where: str, entry: Any, attachments: Attachments) -> list[Exposed]:
    if not isinstance(entry, dict):
        raise ConfigurationError(f"the manifest {path}: {where} must hold keys, such as module:")
    for key in entry:
        if key not in ENTRY_KEYS:
            raise ConfigurationError(f"the manifest {path}: {where} has a key that is not known: {key}")
    module_name = entry.get("module")
    if not isinstance(module_name, str) or not module_name:
        raise ConfigurationError(f"the manifest {path}: {where}.module must name a module or a file")
    tools = {t.name: t for t in vars(_import(path, where, module_name)).values() if isinstance(t, Tool)}
    fail = partial(_failure, path)
    hidden, pinned = entry.get("internal"), entry.get("only_pinned")
    pin = partial(_pinned, f"{where}.only_pinned", fail)
    # What is composed of such a tool is such a tool too, so these are marked before.
    for value, mark in ((hidden, INTERNAL), (pinned, pin)):
        for name in value if isinstance(value, list) else ():
            if isinstance(name, str) and name in tools:
                tools[name] = mark(tools[name])
    include = entry.get("include")
    if include is None:
        chosen = list(tools)
    elif isinstance(include, list) and all(isinstance(name, str) for name in include):
        chosen = include
    else:
        raise ConfigurationError(f"the manifest {path}: {where}.include must be a list of names")
    missing = [name for name in chosen if name not in tools]
    if missing:
        raise ConfigurationError(
            f"the manifest {path}: {where}: {module_name} has no tool named {missing[0]}"
        )
    composed = attachments.composed(f"{where}.extensions", entry.get("extensions"), tools)
    if not chosen and not composed:
        raise ConfigurationError(f"the manifest {path}: {where}: {module_name} defines no tool")
    title = entry.get("title")
    group = str(title) if title is not None else None
    exposed = [*(tools[name] for name in chosen), *composed]
    exposed = marked(f"{where}.internal", hidden, exposed, INTERNAL, fail, also=tools)
    exposed = marked(f"{where}.only_pinned", pinned, exposed, pin, fail, also=tools)
    exposed = marked(f"{where}.requires_approval", entry.get("requires_approval"), exposed, APPROVED, fail)
    for tool in exposed:
        if (lack := lacking(tool)) is not None:
            raise fail(f"{where}: {lack}")
    return [Exposed(tool, group) for tool in exposed]


def _pinned(where: str, fail: Callable[[str], ConfigurationError], tool: Tool) -> Tool:
    """Raises ConfigurationError for an internal tool: it is run by no preset, so this would free it."""
    if tool.internal and not tool.only_pinned:
        raise fail(f"{where}: {tool.name} is internal, and no preset may be made of it")
    return ONLY_PINNED(tool)


def _failure(path: Path, text: str) -> ConfigurationError:
    return ConfigurationError(f"the manifest {path}: {text}")


def _import(path: Path, where: str, name: str) -> ModuleType:
    try:
        if name.endswith(".py") or "/" in name:
            return _import_file((path.parent / name).resolve())
        return importlib.import_module(name)
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"the manifest {path}: {where}: {name} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def _import_file(file: Path) -> ModuleType:
    # A name of its own for each file: two files called tools.py are two modules.
    name = f"rejoinder_tools_{file.stem}_{abs(hash(str(file))) % 10**8}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
