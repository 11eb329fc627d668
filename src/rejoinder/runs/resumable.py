"""Resumable tools: written straight through, with questions in the middle and no continuation.

When such a run goes on, its code is played again from its beginning. What it did in ``step``, what it was answered and
what it called is read from rows then, so that each is done once; the code between them runs again.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from pydantic_core import to_jsonable_python

from rejoinder.asks.service import Elicited
from rejoinder.contract.answers import AskAnswer
from rejoinder.contract.errors import ConfigurationError, SuspensionError
from rejoinder.contract.questions import AskRequest
from rejoinder.runs.context import current_run, entered_run
from rejoinder.runs.nested import call_tool
from rejoinder.runs.tools import Function, Tool

P = ParamSpec("P")
T = TypeVar("T")

#: Steps, questions and calls that one run may have: replaying them must stay quick.
MOST_OPERATIONS = 10_000
_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_. -]{0,127}$")


class Resumable(Tool):
    """A tool whose runs go on from what is recorded of them, on any worker. Its function is async."""

    checkpointed = True

    def __init__(self, function: Function, **options: Any) -> None:
        super().__init__(function, **options)
        if not inspect.iscoroutinefunction(function):
            raise ConfigurationError(f"{self.name} is resumable, so it must be an async function")

    def continuation(self, function: Function) -> Function:
        raise ConfigurationError(
            f"{self.name} is resumable: its code goes on where it asked, so it takes no continuation"
        )

    def why_not_park(self) -> str | None:
        return None

    async def play(self, arguments: dict[str, Any]) -> Any:
        """The function itself, inside a replay. ``arguments`` as the run has them."""
        return await self.play_checked(self.check_arguments(arguments))

    async def play_checked(self, arguments: dict[str, Any]) -> Any:
        """The same with arguments as ``check_arguments`` gives them."""
        return await super().run(arguments)

    async def call(self, arguments: dict[str, Any]) -> Any:
        """As a step of another run, such as an agent's."""
        nested = current_run().nested
        if nested is not None and nested.registered(self.name).requires_approval:
            # Its own run asks for that.
            return await self.run(arguments)
        return await super().call(arguments)

    async def run(self, arguments: dict[str, Any]) -> Any:
        """As a step of another run: a run of its own, which that one waits for."""
        return await call_tool(self.name, to_jsonable_python(arguments), on_failure="resume")


def lacking(tool: Tool) -> str | None:
    """What this process lacks for a resumable tool, as a sentence for its operator; None where it lacks nothing."""
    if not isinstance(tool, Resumable) or find_spec("langgraph") is not None:
        return None
    return f"{tool.name} is resumable, which needs packages that are not installed; install rejoinder[agents]"


class Replay(Protocol):
    """What carries the current resumable run on. Each call is known by its place in the code."""

    async def ask(self, request: AskRequest) -> AskAnswer[Any]: ...

    async def elicit(self, request: AskRequest) -> Elicited: ...

    async def call(self, name: str, arguments: object, on_failure: str) -> Any: ...

    async def step(
        self, name: str, code: Callable[[], Any], returns: Any, given: Any, *, once: bool
    ) -> Any: ...


@overload
def step(function: Callable[P, Awaitable[T]], /) -> Callable[P, Awaitable[T]]: ...
@overload
def step(
    *, name: str | None = None, once: bool = False
) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]: ...
@overload
def step(
    name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
) -> Awaitable[T]: ...
@overload
def step(name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...
def step(*args: Any, **kwargs: Any) -> Any:
    """Do something once, from inside a resumable tool: ``await step("charge", charge, amount)``, or ``await
    charge(amount)`` where ``charge`` is decorated with ``@step``. Returns what the function returned.

    When the run goes on, the recorded result is returned and the function is not called. The result must be JSON, or
    what pydantic makes of JSON by the function's return annotation, and at most 1 MiB. A plain function runs in a thread.
    Where a worker died inside the function it is called again, by the next one: pass ``current_run().idempotency_key``
    to whoever does the work. ``@step(once=True)`` says that it may not be: the run is then held for an operator.

    Raises StepFailedError where the function raised, also when the run goes on (an error of Rejoinder's as it is), and
    StepsDivergedError where the code does something else at this place than it did before.
    """
    if args and isinstance(args[0], str):
        if len(args) < 2 or not callable(args[1]):
            raise TypeError("step takes a name, a function and its arguments")
        return _do(_named(args[0]), args[1], args[2:], kwargs, once=False)
    if args:
        if len(args) > 1 or kwargs or not callable(args[0]):
            raise TypeError("step takes a name, a function and its arguments; or it decorates a function")
        return _decorated(args[0], None, once=False)
    unknown = set(kwargs) - {"name", "once"}
    if unknown:
        raise TypeError(f"step takes no {sorted(unknown)[0]}")
    return lambda function: _decorated(function, kwargs.get("name"), once=kwargs.get("once", False))


def _decorated(function: Function, name: str | None, *, once: bool) -> Function:
    called = _named(name or function.__name__)

    @functools.wraps(function)
    async def as_step(*args: Any, **kwargs: Any) -> Any:
        if entered_run() is None:
            # Called by a test, as any function.
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result
        return await _do(called, function, args, kwargs, once=once)

    return as_step


def _named(name: str) -> str:
    if not _NAME.match(name):
        raise ValueError("a step's name begins with a letter and holds letters, digits, _, ., - and blanks")
    return name


async def _do(
    name: str, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], *, once: bool
) -> Any:
    run = current_run()
    if run.replay is None:
        raise SuspensionError(
            f"the step {name} is inside of another step"
            if run.idempotency_key is not None
            else f"{run.tool} is not resumable, so it has no steps; mark it @tool(resumable=True)"
        )
    return await run.replay.step(
        name, functools.partial(function, *args, **kwargs), _returns(function), [args, kwargs], once=once
    )


def _returns(function: Function) -> Any:
    """What its result is to be made of again; None where nothing says so."""
    try:
        return inspect.get_annotations(function, eval_str=True).get("return")
    except (TypeError, NameError, AttributeError, SyntaxError):
        return None
