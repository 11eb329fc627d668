"""Every page that shows commands to run is followed from its first block to its last."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Page, all_pages
from tests.docs.runner import Reader, Server, matches, remove_data, shared_server

pytestmark = pytest.mark.timeout(300)

RUN = [
    page
    for page in all_pages()
    if any(block.words & {"run", "serve", "background", "served"} for block in page.blocks)
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with shared_server() as started:
        yield started


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="rjp-", dir="/tmp"))
    made.chmod(0o711)
    yield made
    data = made / ".data"
    if data.is_symlink():
        data.unlink()
    elif data.exists():
        remove_data(data)
    remove_data(made)


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_a_page_does_what_it_says(page: Page, folder: Path, server: Server) -> None:
    _lay_out(page, folder)
    own = any("serve" in block.words for block in page.blocks)
    if not own:
        (folder / ".data").symlink_to(server.data.root)
    Reader(page, folder, None if own else server).follow()


def _lay_out(page: Page, folder: Path) -> None:
    """A page of an example is followed in a copy of its folder, any other page in what looks like a clone."""
    if page.path.is_relative_to(ROOT / "examples"):
        shutil.copytree(page.path.parent, folder, dirs_exist_ok=True)
    else:
        (folder / ".venv").symlink_to(sys.prefix)
        shutil.copytree(ROOT / "examples", folder / "examples")


def test_the_pages_that_newcomers_follow_are_among_them() -> None:
    names = {page.name for page in RUN}
    assert {"README.md", "docs/tutorial/first-question.md", "docs/tutorial/parked-run.md"} <= names


@pytest.mark.parametrize(
    ("wanted", "printed", "same"),
    [
        ("Answered.", "Answered.\n", True),
        ("Answered.", "Answered twice.\n", False),
        ("a ... z", "a b\nc z", True),
        ("a ... z", "a z", True),
        ("a ... z", "a b y", False),
        ("ID   TOOL\n...", "ID TOOL\n1 x\n", True),
        ("ID   TOOL\n...", "TOOL ID\n1 x\n", False),
        ("Answered.\n...", "Answered.", True),
    ],
)
def test_expected_output_is_compared(wanted: str, printed: str, same: bool) -> None:
    assert matches(wanted, printed) is same
