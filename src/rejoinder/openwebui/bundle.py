"""Each Function as ONE file that needs nothing of this package installed.

The package's own sources are carried inside and imported under a name that is unique to them, so that an old deploy
and a new one live side by side in one process. All Functions of one build carry the same sources and so share their
modules, and with them the one connection. The same sources give the same file, byte for byte.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import re
import textwrap
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGE = "rejoinder"
_ROOT = Path(__file__).resolve().parent.parent
_IMPORT = re.compile(rf"^(\s*(?:from|import)\s+){_PACKAGE}(?=[.\s])", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Function:
    """A Function as Open WebUI knows it. kind: the class it looks for; module: where that class is; everywhere: whether
    it is offered with every model from the start, because one made by a pipe has no settings to choose it in."""

    id: str
    name: str
    kind: str
    module: str
    about: str
    everywhere: bool = False


FUNCTIONS = (
    Function(
        "openclaw_gateway",
        "OpenClaw",
        "Pipe",
        "pipe",
        "OpenClaw's agent as models: every run of a chat's session is one message in the chat.",
    ),
    Function(
        "openclaw_start",
        "OpenClaw: connect at start",
        "Event",
        "start",
        "Connects the OpenClaw pipe when Open WebUI starts, so that runs show before anybody writes.",
    ),
    Function(
        "openclaw_thinking",
        "Thinking",
        "Filter",
        "thinking",
        "Sets how much OpenClaw's agent thinks before it answers, chat by chat.",
        everywhere=True,
    ),
    Function(
        "openclaw_status_action",
        "OpenClaw status",
        "Action",
        "status",
        "Shows under a reply how the agent's session stands: context, limits, sub-agents; and compacts it.",
        everywhere=True,
    ),
)

_LOADER = '''
import base64 as _base64
import importlib.abc as _abc
import importlib.util as _util
import json as _json
import linecache as _linecache
import sys as _sys
import zlib as _zlib


class _Carried(_abc.MetaPathFinder, _abc.Loader):
    """Finds the modules of this file's own package; nobody else's."""

    def __init__(self, package, packed):
        self.package = package
        self.sources = _json.loads(_zlib.decompress(_base64.b64decode("".join(packed.split()))))

    def find_spec(self, name, path=None, target=None):
        if name not in self.sources:
            return None
        return _util.spec_from_loader(name, self, origin=f"<{name}>", is_package=self.sources[name][0])

    def create_module(self, spec):
        return None

    def get_source(self, name):
        return self.sources[name][1]

    def exec_module(self, module):
        name = module.__name__
        place, source = f"<{name}>", self.sources[name][1]
        _linecache.cache[place] = (len(source), None, source.splitlines(True), place)
        exec(compile(source, place, "exec", dont_inherit=True), module.__dict__)


if not any(getattr(_one, "package", None) == _PACKAGE for _one in _sys.meta_path):
    _sys.meta_path.insert(0, _Carried(_PACKAGE, _PACKED))
'''


class BundleError(Exception):
    """The sources cannot be carried as they are."""


def build(root: Path = _ROOT) -> dict[str, str]:
    """Every Function's file by its id. `root`: the package's folder. Raises BundleError."""
    sources = carried(root)
    plain = json.dumps(sources, sort_keys=True, ensure_ascii=True)
    build_id = hashlib.sha256(plain.encode()).hexdigest()[:12]
    package = f"{_PACKAGE}_{build_id}"
    renamed = {
        _renamed(name, package): [is_package, _rewritten(source, package)]
        for name, (is_package, source) in sources.items()
    }
    packed = base64.b64encode(
        zlib.compress(json.dumps(renamed, sort_keys=True, ensure_ascii=True).encode(), 9)
    ).decode()
    return {function.id: _file(function, package, build_id, packed) for function in FUNCTIONS}


def build_of(content: str) -> str | None:
    """The build a Function's file is of, or None if it is not one of ours."""
    found = re.search(rf'^_PACKAGE = "{_PACKAGE}_([0-9a-f]{{12}})"$', content, re.MULTILINE)
    return found[1] if found else None


def carried(root: Path = _ROOT) -> dict[str, tuple[bool, str]]:
    """The modules that the Functions need, by name: whether it is a package, and its source."""
    wanted = [f"{_PACKAGE}.openwebui.{function.module}" for function in FUNCTIONS]
    found: dict[str, tuple[bool, str]] = {_PACKAGE: (True, "")}
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        is_package, source = _source(root, name)
        found[name] = (is_package, source)
        parent = name.rpartition(".")[0]
        if parent not in found:
            wanted.append(parent)
        wanted += _imports(root, source)
    return found


def _source(root: Path, name: str) -> tuple[bool, str]:
    path = root.joinpath(*name.split(".")[1:])
    if path.is_dir():
        return True, (path / "__init__.py").read_text(encoding="utf-8")
    return False, path.with_suffix(".py").read_text(encoding="utf-8")


def _imports(root: Path, source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if _ours(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise BundleError("A module with relative imports cannot be carried.")
            if not _ours(node.module or ""):
                continue
            assert node.module is not None
            found.append(node.module)
            for alias in node.names:
                path = root.joinpath(*node.module.split(".")[1:], alias.name)
                if path.is_dir() or path.with_suffix(".py").is_file():
                    found.append(f"{node.module}.{alias.name}")
    return found


def _ours(name: str) -> bool:
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")


def _renamed(name: str, package: str) -> str:
    return package + name[len(_PACKAGE) :]


def _rewritten(source: str, package: str) -> str:
    changed = _IMPORT.sub(rf"\g<1>{package}", source)
    for node in ast.walk(ast.parse(changed)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        if any(_ours(name) for name in names):
            raise BundleError("An import of this package is written in a way that cannot be carried.")
    return changed


def _file(function: Function, package: str, build_id: str, packed: str) -> str:
    lines = "\n".join(textwrap.wrap(packed, 110))
    return (
        f'"""\ntitle: {function.name}\nauthor: The Rejoinder authors\nversion: {_version()}\n'
        f'license: Apache-2.0\ndescription: {function.about}\n"""\n\n'
        "# Built by `rejoinder openwebui bundle`; change the package and build it again, not this file.\n"
        f"# Build {build_id}. Its sources are carried packed: `rejoinder openwebui sources FILE` writes them out.\n\n"
        f'_PACKAGE = "{package}"\n_PACKED = """\n{lines}\n"""\n'
        f"{_LOADER}\n"
        f"{function.kind} = __import__("
        f'_PACKAGE + ".openwebui.{function.module}", fromlist=["{function.kind}"]).{function.kind}\n'
    )


def sources_of(content: str) -> Mapping[str, str]:
    """The sources that a Function's file carries, by file name. Raises BundleError for a file that is not ours."""
    found = re.search(r'^_PACKED = """\n(.*?)\n"""$', content, re.MULTILINE | re.DOTALL)
    if build_of(content) is None or found is None:
        raise BundleError("This file was not built by this program.")
    carried_sources = json.loads(zlib.decompress(base64.b64decode("".join(found[1].split()))))
    return {
        f"{name.replace('.', '/')}{'/__init__' if is_package else ''}.py": source
        for name, (is_package, source) in carried_sources.items()
    }


def _version() -> str:
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:
        return "0"
