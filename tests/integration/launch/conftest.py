from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rejoinder.launch.embedded import EmbeddedServer
from rejoinder.launch.paths import DataFolder


def clear(folder: Path) -> None:
    """Remove a data folder, and where root's server had to live elsewhere, that place too."""
    place = (folder / "pg").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def data() -> Iterator[DataFolder]:
    """A data folder of this test's own, on a short path; a server left running on it is stopped."""
    folder = Path(tempfile.mkdtemp(prefix="rj-", dir="/tmp"))
    folder.chmod(0o711)
    chosen = DataFolder.choose(folder)
    yield chosen
    if chosen.postgres.exists():
        left = EmbeddedServer(chosen)
        if left.pid is not None:
            left.start()
            left.stop()
    clear(folder)


@pytest.fixture(scope="module")
def shared() -> Iterator[EmbeddedServer]:
    """One started server for the tests of a module that only use it."""
    folder = Path(tempfile.mkdtemp(prefix="rj-", dir="/tmp"))
    folder.chmod(0o711)
    with EmbeddedServer(DataFolder.choose(folder)) as server:
        yield server
    clear(folder)
