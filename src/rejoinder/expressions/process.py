"""One helper process, as the process that started it sees it: requests go in, answers come back in the same order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, cast

from rejoinder.expressions.helper import ANSWER, REQUEST

PROGRAM: Final = Path(__file__).with_name("helper.py")
#: What a system may need to start Python at all.
_PASSED_ON: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
#: Signals that say what the program did that ran: too long, too much memory, too deep.
BY_PROGRAM: Final = {
    signal.SIGPROF: "it took too long",
    signal.SIGABRT: "it took too much memory",
    signal.SIGSEGV: "it went too deep",
    signal.SIGBUS: "it took too much memory",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """``seconds`` of processor time and ``patience`` of waiting for one request; sizes in bytes."""

    seconds: float = 1.0
    patience: float = 30.0
    memory: int = 256 * 2**20
    given: int = 4 * 2**20
    result: int = 2**20


class Died(Exception):
    """The helper ended. ``reason`` is what the request at its head did to it, or None where it ended otherwise."""

    def __init__(self, reason: str | None) -> None:
        super().__init__(reason)
        self.reason = reason


class Helper(asyncio.SubprocessProtocol):
    """Ask it by ``ask``; the future gets ``(status, text)`` or raises Died."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.SubprocessTransport | None = None
        self._asked: deque[asyncio.Future[tuple[int, bytes]]] = deque()
        self._buffer = bytearray()
        self._to_send: list[bytes] = []
        self._head_since = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._too_slow = False
        self.ended = asyncio.Event()

    @classmethod
    async def start(cls, limits: Limits) -> Helper:
        """Raises OSError where no process can be started."""
        module = find_spec("jq")
        assert module is not None
        assert module.origin is not None
        helper = cls(limits)
        await asyncio.get_running_loop().subprocess_exec(
            lambda: helper,
            sys.executable,
            "-I",
            "-S",
            str(PROGRAM),
            module.origin,
            str(limits.seconds),
            str(limits.memory),
            str(limits.result),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            # An interrupt typed at a terminal is for the process that asks, which still has answers to wait for.
            start_new_session=True,
        )
        return helper

    @property
    def waiting(self) -> int:
        return len(self._asked)

    @property
    def pid(self) -> int | None:
        return None if self._transport is None else self._transport.get_pid()

    def ask(self, kind: int, program: bytes, given: bytes) -> asyncio.Future[tuple[int, bytes]]:
        answer: asyncio.Future[tuple[int, bytes]] = self._loop.create_future()
        if self.ended.is_set():
            answer.set_exception(Died(None))
            return answer
        if not self._asked:
            self._head_since = self._loop.time()
            if self._watch is None:
                self._watch = self._loop.call_later(self._limits.patience, self._look)
        self._asked.append(answer)
        # What is asked in one turn of the loop goes in one write.
        if not self._to_send:
            self._loop.call_soon(self._flush)
        self._to_send += (REQUEST.pack(kind, len(program), len(given)), program, given)
        return answer

    def kill(self) -> None:
        if self._transport is not None and not self.ended.is_set():
            with contextlib.suppress(ProcessLookupError):
                self._transport.kill()

    async def close(self) -> None:
        """End it, and wait until it has."""
        self.kill()
        await self.ended.wait()

    def _flush(self) -> None:
        data, self._to_send = b"".join(self._to_send), []
        if self._transport is not None and not self.ended.is_set():
            cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0)).write(data)

    def _look(self) -> None:
        """Processor time bounds a program; this is for a helper that was stopped, or that waits for something."""
        self._watch = None
        if not self._asked or self.ended.is_set():
            return
        left = self._head_since + self._limits.patience - self._loop.time()
        if left <= 0:
            self._too_slow = True
            self.kill()
        else:
            self._watch = self._loop.call_later(left, self._look)

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= ANSWER.size:
            status, length = ANSWER.unpack_from(buffer, at)
            end = at + ANSWER.size + length
            if len(buffer) < end:
                break
            answer = self._asked.popleft()
            self._head_since = self._loop.time()
            if not answer.done():
                answer.set_result((status, bytes(buffer[at + ANSWER.size : end])))
            at = end
        del buffer[:at]

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has ended, and everything that it wrote was read."""
        self.ended.set()
        if self._watch is not None:
            self._watch.cancel()
        code = None if self._transport is None else self._transport.get_returncode()
        reason = None if code is None or self._too_slow else BY_PROGRAM.get(cast(signal.Signals, -code))
        if self._transport is not None:
            self._transport.close()
        asked, self._asked = self._asked, deque()
        for answer in asked:
            if not answer.done():
                answer.set_exception(Died(reason))
                # Nobody may be waiting for it any more.
                answer.exception()
            reason = None
