"""Who writes messages in this process, kept where every deploy of the Functions finds it.

A deploy loads its modules under names of its own, so what two of them must know of each other is kept on a module of
the Host's, in plain dictionaries whose shape never changes:

    anchor._rejoinder_live = {
        "writers": {writer id, ...},
        "bridges": {writer id: retire function},
        "held": {id of a message that a request streams into, ...},
        "wrote": {id of a message that this process wrote: None, ...},    the newest last
    }

A writer's id names its machine, process and the process's start, so that another process of the same machine can tell
whether it is still there.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

_NAME = "_rejoinder_live"
_KEPT = 10_000


class Registry:
    """The writers of this process."""

    def __init__(self, anchor: Any) -> None:
        if not hasattr(anchor, _NAME):
            setattr(anchor, _NAME, {"writers": set(), "bridges": {}, "held": set(), "wrote": {}})
        self._live: dict[str, Any] = getattr(anchor, _NAME)

    def enter(self, writer_id: str, retire: Callable[[], None]) -> None:
        """A new connection takes over: those before it claim nothing more and only finish what they show."""
        before = list(self._live["bridges"].values())
        self._live["writers"].add(writer_id)
        self._live["bridges"][writer_id] = retire
        for other in before:
            other()

    def leave(self, writer_id: str) -> None:
        """A connection is gone with all it wrote."""
        self._live["bridges"].pop(writer_id, None)
        self._live["writers"].discard(writer_id)

    def hold(self, message_id: str) -> None:
        """A request of this process streams into the message."""
        self._live["held"].add(message_id)

    def release(self, message_id: str) -> None:
        """It does no more."""
        self._live["held"].discard(message_id)

    def held(self, message_id: str) -> bool:
        """Whether a request of this process, of any deploy, streams into the message."""
        return message_id in self._live["held"]

    def wrote(self, message_id: str) -> None:
        """This process wrote the message; if it is finished, then by somebody who knew its end."""
        kept = self._live["wrote"]
        kept[message_id] = None
        while len(kept) > _KEPT:
            del kept[next(iter(kept))]

    def known(self, message_id: str) -> bool:
        """Whether this process wrote the message."""
        return message_id in self._live["wrote"]

    def alive(self, writer_id: str) -> bool:
        """Whether the writer may still write: only from a dead one is a message taken over."""
        if writer_id in self._live["writers"]:
            return True
        parts = writer_id.split("/")
        if len(parts) != 4 or parts[0] != _machine():
            return False
        return parts[1] != str(os.getpid()) and parts[2] == _started(parts[1])


def new_writer_id() -> str:
    """An id for a writer of this process: machine/process/start of the process/random."""
    process = str(os.getpid())
    return f"{_machine()}/{process}/{_started(process)}/{uuid.uuid4().hex[:12]}"


def _machine() -> str:
    return socket.gethostname().replace("/", "-")


def _started(process: str) -> str:
    """When a process started, in the kernel's ticks; empty if there is none or the system does not say."""
    if not process.isdigit():
        return ""
    try:
        told = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
        return told.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
