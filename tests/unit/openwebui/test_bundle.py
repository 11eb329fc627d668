"""Each Function is one file that carries the package's own sources."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import zlib
from base64 import b64decode
from pathlib import Path

import pytest

import rejoinder
from rejoinder.openwebui.bundle import FUNCTIONS, BundleError, build, build_of, carried, sources_of

ROOT = Path(rejoinder.__file__).parent
_ASK = """
import sys, types, json
sys.path[:] = [one for one in sys.path if "main/src" not in one]
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == "rejoinder" or name.startswith("rejoinder."):
            raise ModuleNotFoundError("rejoinder is not installed here")
sys.meta_path.insert(0, Blocked())
found = []
for path in sys.argv[1:]:
    module = types.ModuleType("function")
    exec(open(path, encoding="utf-8").read(), module.__dict__)
    for kind in ("Pipe", "Filter", "Action", "Event"):
        if hasattr(module, kind):
            made = getattr(module, kind)()
            found.append([kind, type(made).__module__, hasattr(made, "valves")])
print(json.dumps(found))
"""


def load(*files: Path) -> list[list[object]]:
    """The Functions of these files, loaded as Open WebUI loads them, in a process without this package."""
    told = subprocess.run(
        [sys.executable, "-c", _ASK, *map(str, files)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    found: list[list[object]] = json.loads(told.stdout)
    return found


def written(folder: Path, root: Path = ROOT) -> list[Path]:
    files = []
    for name, content in build(root).items():
        files.append(folder / f"{name}.py")
        files[-1].write_text(content, encoding="utf-8")
    return files


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "rejoinder"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert build() == build(copy)


def test_every_function_loads_without_the_package(tmp_path: Path) -> None:
    found = load(*written(tmp_path))
    assert [kind for kind, _, _ in found] == [function.kind for function in FUNCTIONS]
    assert all(has_valves for _, _, has_valves in found)
    # One build is one set of modules: the Functions share the connection.
    assert len({str(module).partition(".")[0] for _, module, _ in found}) == 1


def test_an_old_deploy_and_a_new_one_live_side_by_side(tmp_path: Path) -> None:
    copy = tmp_path / "old" / "rejoinder"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / "openwebui" / "valves.py").open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    old, new = written(tmp_path / "a", copy), written(tmp_path / "b")
    modules = [str(module) for _, module, _ in load(old[0], new[0])]
    assert modules[0] != modules[1]
    assert build_of(old[0].read_text(encoding="utf-8")) != build_of(new[0].read_text(encoding="utf-8"))


def test_only_what_runs_inside_the_host_is_carried() -> None:
    names = set(carried())
    assert "rejoinder.turns.table" in names
    assert not {
        name for name in names if name.split(".")[1:2] not in ([], ["turns"], ["openclaw"], ["openwebui"])
    }
    allowed = {"pydantic", "websockets", "cryptography"} | set(sys.stdlib_module_names) | {"rejoinder"}
    for name, (_, source) in carried().items():
        for node in ast.walk(ast.parse(source)):
            tops = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                tops = [node.module or ""]
            assert {top.partition(".")[0] for top in tops} <= allowed, name


def test_only_one_module_knows_the_hosts_names() -> None:
    knowing = [name for name, (_, source) in carried().items() if "open_webui." in source]
    assert knowing == ["rejoinder.openwebui.host"]


def test_the_carried_sources_can_be_read_again(tmp_path: Path) -> None:
    (first, *_) = written(tmp_path)
    sources = sources_of(first.read_text(encoding="utf-8"))
    assert any(name.endswith("/openwebui/pipe.py") for name in sources)
    assert any("class Bridge" in source for source in sources.values())
    with pytest.raises(BundleError):
        sources_of("print('something else')")


def test_nothing_in_a_file_is_changed_by_the_hosts_own_rewriting(tmp_path: Path) -> None:
    # Open WebUI replaces these words wherever they stand in a Function.
    for content in build().values():
        for words in ("from utils", "from apps", "from main", "from config"):
            assert words not in content
        packed = content.partition('_PACKED = """\n')[2].partition('\n"""')[0]
        assert zlib.decompress(b64decode("".join(packed.split())))
