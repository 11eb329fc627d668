"""Running until told to stop: the event loop, and what Ctrl-C and SIGTERM mean."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stop:
    """Set by the first Ctrl-C or SIGTERM. The second Ctrl-C ends the process there and then.

    Nothing is lost by that: it is what a kill -9 does, and the next start finds everything.
    """

    def __init__(self, *, announce: bool = False) -> None:
        self._event = asyncio.Event()
        self._announce = announce
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled, number)

    async def wait(self) -> None:
        await self._event.wait()

    @property
    def asked(self) -> bool:
        return self._event.is_set()

    def now(self) -> None:
        self._event.set()

    def _signalled(self, number: int) -> None:
        if not self._event.is_set():
            if self._announce:
                print("\nStopping. Ctrl-C once more ends it at once.", file=sys.stderr, flush=True)
            self._event.set()
        elif number == signal.SIGINT:
            os._exit(128 + number)


def run(main: Coroutine[Any, Any, T]) -> T:
    """``asyncio.run`` on uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)
