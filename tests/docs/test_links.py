"""Links lead somewhere, and every page is found from the index."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Page, all_pages, read

PAGES = all_pages()
#: The page of measurements before the first full ``make bench``, which also draws its picture.
NOT_MEASURED = "<!-- measured: written by make bench -->\n<!-- end of measured -->"
INDEX = ROOT / "docs" / "README.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Page) -> None:
    for link in page.links():
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        if link.endswith("/bench-answer.svg") and NOT_MEASURED in page.text:
            continue
        name, _, anchor = link.partition("#")
        target = (page.path.parent / name).resolve() if name else page.path
        assert target.exists(), f"{page.name}: {link}"
        assert target.is_relative_to(ROOT), f"{page.name}: {link}"
        if anchor:
            assert anchor in read(target).anchors(), f"{page.name}: {link}"


def test_every_page_is_in_the_index() -> None:
    linked = {(INDEX.parent / link.partition("#")[0]).resolve() for link in read(INDEX).links()}
    pages = {path for path in (ROOT / "docs").rglob("*.md") if path != INDEX}
    assert pages == linked & pages, {path.name for path in pages - linked}


def test_pages_speak_of_the_project_only() -> None:
    for page in PAGES:
        for word in ("/work/", "/root/", "TODO", "FIXME"):
            assert word not in page.text.replace("because it is below `/root`", ""), f"{page.name}: {word}"


def test_every_line_fits() -> None:
    """Prose is wrapped, so that a change shows as what it is. Tables and blocks may be wider."""
    for page in PAGES:
        if page.path.parent.name == "reference":
            continue
        for line in page.prose.splitlines():
            if not line.startswith("|") and "](" not in line:
                assert len(line) <= 130, f"{page.name}: {line}"


@pytest.mark.parametrize("image", sorted((ROOT / "docs" / "images").glob("*.png")), ids=lambda p: p.name)
def test_images_are_images(image: Path) -> None:
    head = image.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:24])
    assert min(width, height) >= 300
