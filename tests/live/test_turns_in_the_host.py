"""The tests of the chat side once more, with the real Host's chats, tasks and emitter instead of the stand-in."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tests.live.rig import places

#: What the tests need and the Host does not bring.
_TESTERS = ("pytest", "pytest-asyncio", "pytest-timeout", "asyncpg", "httpx2")
_ROOT = Path(__file__).parents[2]


def _borrowed(folder: Path, host_packages: Path) -> None:
    """Links to the test packages of this environment, as far as the Host's own has no such package."""
    wanted, seen = list(_TESTERS), set[str]()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # only for other systems
        tops = {path.parts[0] for path in found.files or () if path.parts[0] not in ("..", "__pycache__")}
        for top in tops:
            if not (host_packages / top).exists() and not (folder / top).exists():
                (folder / top).symlink_to(str(found.locate_file(top)))
        wanted += [
            re.split(r"[^\w.-]", line, maxsplit=1)[0]
            for line in found.requires or ()
            if "extra ==" not in line
        ]


@pytest.mark.timeout(300)
def test_the_chat_side_on_the_real_host(tmp_path: Path) -> None:
    missing = places.missing()
    assert not missing, f"{', '.join(missing)} is not installed; make live installs it"
    packages = next((places.host_folder() / "lib").glob("python*")) / "site-packages"
    borrowed = tmp_path / "borrowed"
    borrowed.mkdir()
    _borrowed(borrowed, packages)
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(borrowed)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [
        str(places.host_python()),
        "-m",
        "pytest",
        "-q",
        "-c",
        os.devnull,
        f"--rootdir={_ROOT}",
        "--confcutdir=tests/integration/openwebui",
        "--import-mode=importlib",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:warnings",
        "-o",
        "asyncio_mode=auto",
        "-o",
        "pythonpath=.",
        "--timeout=60",
        "tests/integration/openwebui",
    ]
    done = subprocess.run(
        command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
