"""A process that the rig starts and ends, with its output in a file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_EVERY = 0.1


class Ended(Exception):
    """It ended before it was ready."""


class Running:
    """One program. It can be started again after it has ended; the output goes on in the same file."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._environment = dict(environment)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def spawn(self) -> None:
        """Start it, without waiting for anything."""
        assert not self.running, f"{self.name} runs already"
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Of its own group, so that what it started itself is ended with it.
                start_new_session=True,
            )

    def check(self, deadline: float) -> None:
        """Called while one waits for it: raises where waiting is of no use any more."""
        if not self.running:
            raise Ended(f"{self.name} ended with {self.returncode}:\n{self.tail()}")
        if time.monotonic() > deadline:
            raise Ended(f"{self.name} was not ready in time:\n{self.tail()}")
        time.sleep(_EVERY)

    def signal(self, number: int) -> None:
        if self.running:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9 to it and to everything it started, and wait until it is gone."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait(self, seconds: float) -> int:
        """Until it has ended; its exit code. Raises TimeoutExpired."""
        assert self._process is not None
        return self._process.wait(seconds)

    def stop(self, seconds: float = 10) -> None:
        """Ask it to end, and kill it if it does not."""
        if self.running:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(seconds)
        self.kill()

    def memory(self) -> int:
        """Resident memory in MB."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) // 1024
        return 0

    def tail(self, lines: int = 60) -> str:
        """The end of its output."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])
