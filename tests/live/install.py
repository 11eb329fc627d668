"""Sees to it that a real Gateway and a real Host are on this machine: python -m tests.live.install

Everything goes into the cache folder (`places.cache`), nothing into the system. It takes about a minute where nothing
is there and no time where everything is. Exit code 1, and the reason in words, where it cannot be done.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.live.rig import places

PYTHON = sys.executable
PIP = (PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")


class Failed(Exception):
    """What could not be done, with the end of what the program said."""


def main() -> int:
    """Install what is missing. Returns the exit code."""
    if not places.missing():
        return 0
    if not (3, 11) <= sys.version_info[:2] <= (3, 12):
        return _fail(
            f"Open WebUI {places.host_version()} runs on Python 3.11 and 3.12 only, and this is {sys.version.split()[0]}. "
            "Make the environment with such a Python: make distclean, then make live PYTHON=python3.12."
        )
    started = time.monotonic()
    try:
        places.cache().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return _fail(
            f"{places.cache()} cannot be made ({error.strerror}). Name another folder in REJOINDER_CACHE."
        )
    print(f"Installing {', '.join(places.missing())} into {places.cache()} (about a minute)", flush=True)
    with (places.cache() / ".lock").open("w") as lock:
        # Two clones may want the same at once: the second waits, and then finds everything there.
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with ThreadPoolExecutor(2) as pool:
                for job in [pool.submit(_gateway), pool.submit(_host)]:
                    job.result()
        except Failed as error:
            return _fail(str(error))
    print(f"Installed in {time.monotonic() - started:.0f} s", flush=True)
    return 0


def _fail(why: str) -> int:
    print(f"The live tests cannot run here. {why}", file=sys.stderr)
    return 1


def _gateway() -> None:
    _make(places.node_folder(), _node)
    version = places.gateway_version()
    _make(places.gateway_folder(version), lambda folder: _openclaw(folder, version))
    _make(places.conformance_folder(), _conformance)


def _node(folder: Path) -> None:
    _run(
        "Node",
        [*PIP, "--no-deps", "--only-binary", ":all:", "--target", str(folder), places.NODE_WHEEL],
    )
    places.node().chmod(0o755)


def _openclaw(folder: Path, version: str) -> None:
    _npm(f"OpenClaw {version}", folder, f"openclaw@{version}")


def _conformance(folder: Path) -> None:
    name = f"The MCP conformance suite {places.CONFORMANCE}"
    _npm(name, folder, f"@modelcontextprotocol/conformance@{places.CONFORMANCE}")


def _npm(name: str, folder: Path, package: str) -> None:
    # No install script of any package is run; none is needed.
    quiet = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel", "error")
    npm = (str(places.node()), str(places.npm()), "install", "--ignore-scripts", *quiet)
    _run(name, [*npm, "--prefix", str(folder), package], path=places.node().parent)


def _host() -> None:
    _make(places.host_folder(), _open_webui)


def _open_webui(folder: Path) -> None:
    name = f"Open WebUI {places.host_version()}"
    _run(name, [PYTHON, "-m", "venv", str(folder)])
    python = str(places.host_python())
    _run(name, [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", places.UV])
    install = [str(folder / "bin" / "uv"), "pip", "install", "--quiet", "--compile-bytecode", "--no-deps"]
    # Without its dependencies: it asks for gigabytes that it does not import when it is started slim.
    wanted = ["-r", str(places.host_pins()), f"open-webui=={places.host_version()}"]
    _run(name, [*install, "--python", python, *wanted])


def _make(folder: Path, install: Callable[[Path], None]) -> None:
    if places.mark(folder).exists():
        return
    # What an attempt that was cut short left is of no use to anybody.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    install(folder)
    places.mark(folder).touch()


def _run(name: str, command: list[str], path: Path | None = None) -> None:
    environment = dict(os.environ)
    # Compiled files are what makes the programs start in seconds.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if path is not None:
        environment["PATH"] = f"{path}{os.pathsep}{environment.get('PATH', os.defpath)}"
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=900
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{name} could not be installed: {error}") from error
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise Failed(f"{name} could not be installed; {Path(command[0]).name} said:\n{said}")


if __name__ == "__main__":
    sys.exit(main())
