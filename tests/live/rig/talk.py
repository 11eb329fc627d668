"""Turns that say words of their own at even times, and when each word was said and heard."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

_MARK = re.compile(r"w[0-9a-f]{6}x\d+")
_numbers = itertools.count(1)


class Start:
    """Turns that begin together say their first word each, and go on when all have."""

    def __init__(self, count: int) -> None:
        self._missing = count
        self._all = asyncio.Event()

    async def wait(self) -> None:
        self._missing -= 1
        if self._missing <= 0:
            self._all.set()
        await self._all.wait()


@dataclass(eq=False)
class Turn:
    """So many words after the first, one every so many seconds, so much of that later. over: it has said them all."""

    words: int
    every: float
    late: float = 0.0
    start: Start = field(default_factory=lambda: Start(1))
    name: str = field(default_factory=lambda: f"turn {next(_numbers)}")
    over: bool = False

    def mark(self, number: int) -> str:
        """The word at this place."""
        return f"w{int(self.name.rpartition(' ')[2]):06x}x{number}"


async def spoken(turn: Turn) -> AsyncIterator[str]:
    """The turn's words, each at its time, with the blank behind it."""
    yield f"{turn.mark(0)} "
    await turn.start.wait()
    loop = asyncio.get_running_loop()
    began = loop.time() + turn.late * turn.every
    for number in range(1, turn.words + 1):
        await asyncio.sleep(max(0.0, began + number * turn.every - loop.time()))
        yield f"{turn.mark(number)} "


class Told:
    """When each word was said, and when a page first heard of it."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}
        self._heard: dict[str, float] = {}

    def say(self, word: str) -> None:
        """Note that it is said now."""
        self._said[word.strip()] = time.perf_counter()

    def hear(self, packet: str) -> None:
        """Note whatever a page is told for the first time."""
        now = time.perf_counter()
        for mark in _MARK.findall(packet):
            if mark in self._said:
                self._heard.setdefault(mark, now)

    def waits(self, turns: Sequence[Turn]) -> list[float]:
        """Seconds from each word said to it heard, but for a turn's first, which also claims its message. Every word must
        have been heard."""
        marks = [turn.mark(number) for turn in turns for number in range(1, turn.words + 1)]
        lost = [mark for mark in marks if mark not in self._heard]
        assert not lost, f"{len(lost)} of {len(marks)} words were never told to a page, such as {lost[0]}"
        return [self._heard[mark] - self._said[mark] for mark in marks]
