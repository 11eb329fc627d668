"""Which tools a process knows: those of its manifest, and for ``rejoinder up`` those of the demo."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from rejoinder.agents.runnable import why_not_run
from rejoinder.runs.agent import Agent
from rejoinder.runs.manifest import Registry, load_manifest

VARIABLE = "REJOINDER_MANIFEST"


def chosen_manifest(given: Path | None) -> Path | None:
    """``--manifest``, else the file that REJOINDER_MANIFEST names, else None."""
    named = given or os.environ.get(VARIABLE)
    return Path(os.path.abspath(Path(named).expanduser())) if named else None


def registry_of(manifest: Path | None) -> Registry:
    """The tools of a manifest; none without one. Raises ConfigurationError."""
    return load_manifest(manifest) if manifest is not None else Registry()


def demo_manifest() -> Path:
    """The manifest of the demo tools, a file of the package."""
    return Path(str(files("rejoinder.demo").joinpath("manifest.yaml")))


def with_demo(registry: Registry) -> Registry:
    """Add the demo's tools, and its agent where the packages for agents are installed. What has the same name in
    ``registry`` stays."""
    for one in load_manifest(demo_manifest()):
        if isinstance(one.tool, Agent) and why_not_run(one.tool) is not None:
            continue
        if one.tool.name not in registry:
            registry.add(one.tool, one.group)
    return registry
