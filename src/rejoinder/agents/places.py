"""Where in the code of a resumable tool something is done: the same text each time the code is played.

The code counts what it does: 1, 2, 3. What ``asyncio.gather`` and its like run beside each other counts for itself: 2/1.1
is the first thing that the first branch does which was begun after 2. Which of them is quicker does not matter: a branch
knows where it came off from when it was made, and those that came off together are counted in the order in which they
first do something, which is the order in which they were made unless they wait for something else before. Then what was
recorded does not fit any more, which is found out (see ``records``).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Branch:
    """One task of the code. ``count`` is what it has done so far; ``begun`` counts the branches that came off at each
    number, and is shared by all that a branch has been."""

    prefix: str
    task: asyncio.Task[Any] | None
    count: int
    begun: Counter[int]


# Tasks take a copy of it along when they are made, which is how a branch knows where it came off.
_branch: ContextVar[Branch | None] = ContextVar("rejoinder_branch", default=None)


def begin() -> None:
    """The current task is the code's own, from its beginning."""
    _branch.set(Branch("", asyncio.current_task(), 0, Counter()))


def here() -> str:
    """The place of what is done now; each call is the next one."""
    branch = _branch.get()
    assert branch is not None
    task = asyncio.current_task()
    if branch.task is not task:
        branch.begun[branch.count] += 1
        prefix = f"{branch.prefix}{branch.count}/{branch.begun[branch.count]}."
        branch = Branch(prefix, task, 0, Counter())
    branch = Branch(branch.prefix, task, branch.count + 1, branch.begun)
    _branch.set(branch)
    return f"{branch.prefix}{branch.count}"


def split(place: str) -> tuple[str, int]:
    """The branch of a place, and its number there."""
    prefix, dot, number = place.rpartition(".")
    return prefix + dot, int(number)
