"""Tools: plain Python functions that Rejoinder runs, described by their own signatures."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias, cast, get_args, get_origin, get_type_hints, overload
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import ErrorDetails, PydanticSerializationError, PydanticUndefined, to_jsonable_python
from pydantic_core import to_json as json_bytes

from rejoinder.contract.answers import AskAnswer, SecretValue, SuspendedInteraction
from rejoinder.contract.errors import ConfigurationError, ToolArgumentError, ToolFailedError
from rejoinder.contract.text import unstorable
from rejoinder.runs.calling import invoke
from rejoinder.runs.elicitation import Context

Function = Callable[..., Any]
#: Parameters that are given a context, and what makes it.
Contexts: TypeAlias = "dict[str, Callable[[], Any]]"
_THEIR_CONTEXT = ("mcp.server.mcpserver.context", "Context")

#: What a continuation may ask to be given, by parameter name.
CONTINUATION_PARAMETERS = ("interaction_id", "ask_result", "answers", "arguments", "run_id", "attempt")
#: Bytes of JSON. The column takes four times as much; a run whose end it refused would never end.
MAX_RESULT = 64 * 2**20
_NAME = r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$"


class Tool:
    """One tool. Calling it calls the function itself, so that a decorated function stays usable and testable.

    ``idempotent=True`` says that running it twice does no harm: a start or a continuation whose worker died is
    then run again. Without it such a run is held for an operator instead. ``requires_approval=True``: before each call a
    person is shown it whole, and the tool runs only where they approve. ``internal=True``: nobody calls it, neither a
    person nor a model; hooks run it on events whose sender was verified. ``admin_may_run=True`` lets an admin run and
    schedule such a tool all the same.
    """

    #: Its runs are carried on from checkpoints and recorded steps, on any worker.
    checkpointed: ClassVar[bool] = False

    #: Of a preset, the version that this is. Runs and steps that begin with one are carried on with it.
    preset_version: UUID | None = None

    def __init__(
        self,
        function: Function,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        idempotent: bool = False,
        read_only: bool = False,
        destructive: bool | None = None,
        requires_approval: bool = False,
        internal: bool = False,
        admin_may_run: bool = False,
    ) -> None:
        import re

        self.function = function
        self.name = name or function.__name__
        if not re.match(_NAME, self.name):
            raise ConfigurationError(
                f"{self.name!r} cannot be a tool's name: use letters, digits, _, . and -"
            )
        if admin_may_run and not internal:
            raise ConfigurationError(f"{self.name}: admin_may_run is for internal tools; say internal=True")
        self.title = title
        self.description = (
            description if description is not None else inspect.cleandoc(function.__doc__ or "")
        )
        self.idempotent = idempotent
        self.read_only = read_only
        self.destructive = destructive
        self.requires_approval = requires_approval
        self.internal = internal
        self.admin_may_run = admin_may_run
        #: Internal, but an admin may make presets of it, and those are run as any tool is.
        self.only_pinned = False
        self.continuation_function: Function | None = None
        self._continuation_takes: frozenset[str] = frozenset()
        self._continuation_contexts: Contexts = {}
        self._contexts = _contexts_of(function, self.name)
        self._model = _model_of(function, self.name, self._contexts)
        self.input_schema: dict[str, Any] = self._model.model_json_schema()
        self.input_schema.pop("title", None)
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def continuation(self, function: Function) -> Function:
        """Decorator: what is called with the answer once a parked run of this tool may go on.

        It takes any of ``interaction_id`` (UUID), ``ask_result`` (AskAnswer), ``answers`` (``{UUID: AskAnswer}`` in
        the order asked, for several questions), ``arguments`` (the tool's own as JSON, with its defaults), ``run_id`` and
        ``attempt``; and a parameter of the type ``Context``.
        """
        contexts = _contexts_of(function, self.name)
        names = frozenset(inspect.signature(function).parameters) - set(contexts)
        unknown = names - set(CONTINUATION_PARAMETERS)
        if unknown:
            raise ConfigurationError(
                f"the continuation of {self.name} takes {sorted(unknown)[0]}, which is not one of "
                f"{', '.join(CONTINUATION_PARAMETERS)}"
            )
        self.continuation_function = function
        self._continuation_takes = names
        self._continuation_contexts = contexts
        return function

    @property
    def takes_several_answers(self) -> bool:
        return "answers" in self._continuation_takes

    def check_arguments(self, arguments: object) -> dict[str, Any]:
        """The arguments as the function takes them. Raises ToolArgumentError naming the argument."""
        if not isinstance(arguments, Mapping):
            raise ToolArgumentError("arguments must be an object", field="arguments")
        if reason := unstorable(dict(arguments)):
            raise ToolArgumentError(f"arguments cannot be stored: {reason}", field="arguments")
        try:
            model = self._validated(arguments)
        except ValidationError as error:
            raise _argument_error(_faults(error)[0]) from None
        return {str(field.alias): getattr(model, name) for name, field in type(model).model_fields.items()}

    def check_part(self, arguments: Mapping[str, Any]) -> None:
        """The same for some of the arguments: those that are left out are no fault."""
        try:
            self._validated(arguments)
        except ValidationError as error:
            faults = [one for one in _faults(error) if one["type"] != "missing" or len(one["loc"]) > 1]
            if faults:
                raise _argument_error(faults[0]) from None

    def _validated(self, arguments: Mapping[str, Any]) -> BaseModel:
        """Raises ValidationError, ToolArgumentError, or whatever Exception a check of the author's own raises."""
        try:
            return self._model.model_validate(dict(arguments))
        except RecursionError:
            raise ToolArgumentError("arguments are nested too deeply", field="arguments") from None
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            # Such as sys.exit: on the loop it would end the process, for all that it serves.
            raise RuntimeError(f"a check of {self.name}'s arguments raised {type(error).__name__}") from error

    def check_approved(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """As ``check_arguments``, for what a person approved of a call: it holds what ``with_defaults`` showed."""
        return self.check_arguments(arguments)

    @property
    def approval_schema(self) -> dict[str, Any]:
        """What the arguments that a person approves must fit."""
        return self.input_schema

    async def of_version(self, version: UUID) -> Tool:
        """This tool as it was in an earlier version; only presets have any."""
        return self

    def with_defaults(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """``arguments`` as given, with the defaults of those left out, as far as those are JSON."""
        given = dict(arguments)
        for field in self._model.model_fields.values():
            if field.alias is not None and field.alias not in given and not field.is_required():
                with contextlib.suppress(PydanticSerializationError, TypeError, ValueError):
                    given[field.alias] = to_jsonable_python(field.get_default(call_default_factory=True))
        return given

    def needing_approval(self) -> Tool:
        """The same tool, to be approved before each call."""
        marked = copy.copy(self)
        marked.requires_approval = True
        return marked

    def made_internal(self) -> Tool:
        """The same tool, kept from everybody who calls tools."""
        marked = copy.copy(self)
        marked.internal, marked.only_pinned = True, False
        return marked

    def made_only_pinned(self) -> Tool:
        """The same tool, run by way of presets that fix some of its arguments, and in no other way."""
        marked = copy.copy(self)
        marked.internal = marked.only_pinned = True
        return marked

    def why_not_park(self) -> str | None:
        """Why a run cannot be parked on what this tool's own code asks, or None."""
        if self.continuation_function is not None:
            return None
        return f'{self.name} has no continuation to go on with; give it one, or ask with mode="sync"'

    async def call(self, arguments: dict[str, Any]) -> Any:
        """Run it for the current run; where it needs approval, ask for that first."""
        if self.requires_approval:
            from rejoinder.runs.approval import ask_first

            return await ask_first(self)
        return await self.run(arguments)

    async def run(self, arguments: dict[str, Any]) -> Any:
        return await invoke(self.function, arguments | _made(self._contexts))

    async def go_on(self, given: dict[str, Any]) -> Any:
        """Call the continuation with what it takes of ``given``; the tool itself, where its approval is what came."""
        if given.get("approval") is not None:
            from rejoinder.runs.approval import go_on

            return await go_on(self, given["approval"])
        assert self.continuation_function is not None
        return await invoke(
            self.continuation_function,
            {name: given[name] for name in self._continuation_takes if name in given}
            | _made(self._continuation_contexts),
        )


@overload
def tool(function: Function, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    read_only: bool = False,
    destructive: bool | None = None,
    requires_approval: bool = False,
    internal: bool = False,
    admin_may_run: bool = False,
    resumable: bool = False,
) -> Callable[[Function], Tool]: ...
def tool(function: Function | None = None, /, **options: Any) -> Tool | Callable[[Function], Tool]:
    """Make a function a tool. Its parameters, their types and its docstring become the tool's description; a plain
    function runs in a thread, an async one on the event loop. ``resumable=True``: its code may ask with mode="async" in
    the middle and goes on there, each of its steps done once; see ``step``."""
    if function is not None:
        return Tool(function)
    if options.pop("resumable", False):
        from rejoinder.runs.resumable import Resumable

        return lambda f: Resumable(f, **options)
    return lambda f: Tool(f, **options)


def _hints_of(function: Function, name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"tool {name}: a type of its parameters is not known here: {error}"
        ) from None


def _contexts_of(function: Function, name: str) -> Contexts:
    """The parameters that no caller gives: those that want to ask through a context."""
    found: Contexts = {}
    for parameter, hint in _hints_of(function, name).items():
        if parameter == "return":
            continue
        for one in (hint, *get_args(hint)):
            lineage = getattr(get_origin(one) or one, "__mro__", ())
            if Context in lineage:
                found[parameter] = Context
            # By its name: looking it up would load the library for everybody.
            elif any((kind.__module__, kind.__name__) == _THEIR_CONTEXT for kind in lineage):
                from rejoinder.runs.foreign_context import ForeignContext

                found[parameter] = cast(Callable[[], Any], ForeignContext)
    return found


def _made(contexts: Contexts) -> dict[str, Any]:
    return {name: make() for name, make in contexts.items()}


def _model_of(function: Function, name: str, contexts: Contexts) -> type[BaseModel]:
    hints = _hints_of(function, name)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in contexts:
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigurationError(f"tool {name}: {parameter.name} must be an ordinary named parameter")
        if parameter.name.startswith("_"):
            raise ConfigurationError(f"tool {name}: a parameter's name must not begin with an underscore")
        default = PydanticUndefined if parameter.default is parameter.empty else parameter.default
        # The alias keeps a parameter named schema or copy from hiding pydantic's own attributes.
        fields[f"argument_{parameter.name}"] = (
            hints.get(parameter.name, Any),
            Field(default=default, alias=parameter.name),
        )
    try:
        return create_model(
            name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields
        )
    except Exception as error:
        raise ConfigurationError(f"tool {name}: its parameters cannot be described: {error}") from None


def _faults(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_context=False, include_input=False)


def _argument_error(fault: ErrorDetails) -> ToolArgumentError:
    place = ".".join(str(part) for part in fault["loc"]) or "arguments"
    reason = {"missing": "it is required", "extra_forbidden": "the tool takes no such argument"}.get(
        fault["type"], fault["msg"]
    )
    return ToolArgumentError(f"argument {place}: {reason}", field=place)


def suspensions(result: Any) -> list[SuspendedInteraction] | None:
    """The sentinels that a tool returned to park its run, or None where it returned something else."""
    if isinstance(result, SuspendedInteraction):
        return [result]
    if (
        isinstance(result, list | tuple)
        and result
        and all(isinstance(r, SuspendedInteraction) for r in result)
    ):
        return list(result)
    return None


def to_json(result: Any) -> Any:
    """A tool's result as JSON. Raises ToolFailedError where it is not JSON, is over MAX_RESULT, or holds an unrevealed
    secret."""
    try:
        value = to_jsonable_python(result, fallback=_fallback, inf_nan_mode="strings")
    except (PydanticSerializationError, TypeError, ValueError, RecursionError):
        raise ToolFailedError(
            "the tool's result is not JSON, or holds a secret that was not revealed"
        ) from None
    if reason := unstorable(value):
        raise ToolFailedError(f"the tool's result cannot be stored: {reason}")
    if len(json_bytes(value)) > MAX_RESULT:
        raise ToolFailedError(
            f"the tool's result is over {MAX_RESULT // 2**20} MiB, which is the most that a run returns"
        )
    return value


def _fallback(value: Any) -> Any:
    if isinstance(value, SecretValue):
        raise TypeError("secret")
    if isinstance(value, AskAnswer):
        return value.as_json()
    raise TypeError("not JSON")
