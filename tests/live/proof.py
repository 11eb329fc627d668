"""Where a live test has looked: it notes it itself, and keeps a picture of a page where somebody wants one."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.live.rig.page import ChatPage

#: The folder for pictures; none are kept without it.
PICTURES = "LIVE_PICTURES"
_taken: dict[str, set[str]] = {}


def _test() -> str:
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition("::")[2].rpartition(" (")[0]


def in_database() -> None:
    """The messages, their chain, words and cards in the Host's database are as they must be."""
    _taken.setdefault(_test(), set()).add("database")


async def in_page(page: ChatPage, name: str = "") -> None:
    """The page, loaded anew, shows the same."""
    _taken.setdefault(_test(), set()).add("page")
    folder = os.environ.get(PICTURES)
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        file = re.sub(r"\W+", "-", f"{_test()}{name}") + ".png"
        await page.page.screenshot(path=str(Path(folder) / file))


def taken(test: str) -> set[str]:
    """Where this test looked."""
    return _taken.get(test, set())
