"""The wheel that people install: everything that the program reads is in it, and nothing else."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support import clean_environment

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src"
#: What compilers and editors leave in the source folder.
_LEFT = {"__pycache__"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        env=clean_environment(),
    )
    return folder


def test_the_wheel_holds_every_file_of_the_package(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
        licences = [name for name in wheel.namelist() if name.endswith("LICENSE")]
    there = {
        str(path.relative_to(SOURCE))
        for path in (SOURCE / "rejoinder").rglob("*")
        if path.is_file() and not _LEFT & set(path.parts)
    }
    assert inside == there
    assert len(licences) == 1


def test_the_source_archive_can_be_built_from(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "src/rejoinder/__init__.py",
        "tests/conftest.py",
    } <= names
    assert not [name for name in names if name.startswith((".data", ".venv", "dist"))]


def test_the_installed_program_runs_from_any_folder(built: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(target)
        metadata = email.message_from_bytes(
            wheel.read(next(name for name in wheel.namelist() if name.endswith("METADATA")))
        )
    code = (
        "import rejoinder, sys; from rejoinder.cli.main import main; from rejoinder.store.migrate import available;"
        "print(rejoinder.__file__, len(available())); sys.argv = ['rejoinder', '--version']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=clean_environment({"PYTHONPATH": str(target)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    path, migrations = first.rsplit(" ", 1)
    assert Path(path).is_relative_to(os.path.realpath(target))
    assert int(migrations) == len(list((SOURCE / "rejoinder/store/migrations").glob("*.sql")))
    assert metadata["Version"] in " ".join(rest)
