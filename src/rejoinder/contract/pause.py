"""Named pause points: places between two steps where a test can stop, kill or fail this process.

A point does nothing unless it is armed: by ``arm()`` inside a test's process, or by the environment variable
``REJOINDER_PAUSE`` for a process under test: ``name=kill`` (SIGKILL itself), ``name=stop`` (SIGSTOP itself).
Several are separated by commas. ``name=kill@FILE`` acts only while FILE exists and removes it first, so that a
restarted process passes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable

#: Every point of the code, so that a test can run over all of them. ``here`` refuses a name that is not in it.
POINTS = frozenset(
    {
        "ask.recorded",
        "ask.waiting",
        "answer.validated",
        "answer.committed",
        "expiry.committed",
        "park.sealed",
        "nested.parked",
        "chain.settled",
        "resume.picked",
        "resume.entered",
        "resume.returned",
        "run.picked",
        "run.entered",
        "run.returned",
        "run.finished",
        "notify.sent",
        "step.entered",
        "step.interrupted",
        "step.returned",
        "step.recorded",
        "agent.stopped",
        "delivery.verified",
        "delivery.kept",
        "hook.taken",
        "hook.evaluated",
        "hook.started",
        "hook.judging",
        "checkpoint.writing",
        "checkpoint.held",
        "preset.seen",
        "preset.written",
        "schedule.planned",
        "schedule.taken",
    }
)

_armed: dict[str, Callable[[], Awaitable[None]]] = {}


def arm(name: str, action: Callable[[], Awaitable[None]]) -> None:
    _check(name)
    _armed[name] = action


def disarm(name: str | None = None) -> None:
    if name is None:
        _armed.clear()
    else:
        _armed.pop(name, None)


async def here(name: str) -> None:
    """Stand at this point. Costs one dictionary look-up when nothing is armed."""
    if _armed:
        _check(name)
        action = _armed.get(name)
        if action is not None:
            await action()


def _check(name: str) -> None:
    if name not in POINTS:
        raise ValueError(f"no pause point is called {name}")


def arm_from_environment() -> None:
    """Called once at the start of a process; without the variable it does nothing."""
    for part in os.environ.get("REJOINDER_PAUSE", "").split(","):
        if not part.strip():
            continue
        name, _, action = part.strip().partition("=")
        verb, _, token = action.partition("@")
        number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}.get(verb)
        if number is None:
            raise ValueError("REJOINDER_PAUSE takes name=kill or name=stop")
        arm(name, _signal_self(number, token))


def _signal_self(number: signal.Signals, token: str) -> Callable[[], Awaitable[None]]:
    async def act() -> None:
        if token:
            try:
                os.unlink(token)
            except FileNotFoundError:
                return
        os.kill(os.getpid(), number)

    return act
