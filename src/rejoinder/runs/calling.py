"""Calling an author's function: on the event loop where it is async, in a thread of its own where it is not."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any, cast


async def invoke(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call it here where it is async, else in a thread of its own. Raises what it raises."""
    if inspect.iscoroutinefunction(function):
        return await cast("Awaitable[Any]", function(**arguments))
    return await _in_thread(function, arguments)


async def _in_thread(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call ``function`` in a thread of its own. Not in the loop's pool: that has few threads, and each that waits for
    a person would keep the others from running. A daemon: Python waits for the others when a process ends."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def end(outcome: tuple[Any, BaseException | None]) -> None:
        if not ended.done():
            ended.set_result(outcome)

    def work() -> None:
        outcome: tuple[Any, BaseException | None]
        try:
            outcome = context.run(function, **arguments), None
        except BaseException as raised:
            outcome = None, raised
        # The process may have stopped meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(end, outcome)

    threading.Thread(
        target=work, name=f"rejoinder.tool.{getattr(function, '__name__', 'step')}", daemon=True
    ).start()
    result, error = await ended
    if error is not None:
        # Raised here and not set on the future, which takes no StopIteration.
        raise error
    return result
