"""Checks, without a network, that the pinned files fit what pyproject.toml declares, and each other."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

HERE = Path(__file__).parent
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)")
_DIRECT = re.compile(r"^    #(?: via|  ) .*\(pyproject\.toml")


def read(path: Path) -> tuple[dict[str, set[Version]], set[str], list[str]]:
    """The pins of one file, the names that it says pyproject.toml asked for, and those without a hash."""
    pins: dict[str, set[Version]] = {}
    direct, bare, name = set(), [], ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := _PIN.match(line):
            name = canonicalize_name(match[1])
            pins.setdefault(name, set()).add(Version(match[2]))
            if not line.endswith("\\"):
                bare.append(name)
        elif _DIRECT.match(line):
            direct.add(name)
    return pins, direct, bare


def main() -> int:
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    run: list[str] = project["project"]["dependencies"]
    extras = project["project"]["optional-dependencies"]
    groups: dict[str, list[str]] = {
        "run": run,
        "agents": [*run, *extras["agents"], *extras["redis"]],
        **project["dependency-groups"],
    }
    faults: list[str] = []
    everywhere: dict[str, tuple[str, set[Version]]] = {}
    for group, declared in groups.items():
        path = HERE / f"{group}.txt"
        if not path.exists():
            faults.append(f"requirements/{group}.txt is missing")
            continue
        pins, direct, bare = read(path)
        wanted = {canonicalize_name(Requirement(text).name): Requirement(text) for text in declared}
        for name, requirement in wanted.items():
            if not any(
                requirement.specifier.contains(version, prereleases=True) for version in pins.get(name, ())
            ):
                faults.append(f"{group}: {requirement} is declared and not pinned")
        faults += [
            f"{group}: {name} is pinned and no longer declared" for name in sorted(direct - set(wanted))
        ]
        faults += [f"{group}: {name} has no hash" for name in bare]
        for name, versions in pins.items():
            first, known = everywhere.setdefault(name, (group, versions))
            if versions != known:
                faults.append(f"{name} differs between {first} and {group}")
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        print("The pinned files are out of step with pyproject.toml. Run: make lock", file=sys.stderr)
        return 1
    print(f"The pinned files fit: {len(everywhere)} packages in {len(groups)} groups.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
