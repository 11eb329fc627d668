"""The helpers together: which of them is asked, and what comes of one that dies."""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from rejoinder.contract.errors import NotReadyError
from rejoinder.contract.text import unstorable
from rejoinder.expressions.expression import Expression, ExpressionError, ExpressionFailedError
from rejoinder.expressions.helper import COMPILE, REFUSED, RUN, TOO_LARGE, VALUE
from rejoinder.expressions.helper import NOTHING as NO_OUTPUT
from rejoinder.expressions.process import Died, Helper, Limits
from rejoinder.observe.logs import get_logger

log = get_logger("expressions")


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"

    def __bool__(self) -> bool:
        return False


#: What an expression without an output comes to. It is not null.
NOTHING: Final = _Nothing()

#: The first helper is for every expression. What somebody tries out, and what has ended a helper before, is asked of the
#: second, so that it holds up nobody but its like.
_LANES = 2
_SUSPECTS = 1000
_LOCATION = re.compile(r" at <top-level>, line (\d+), column (\d+):?")
#: What jq says of a value without its contents: what comes in brackets or quotes may be part of the input.
_HARMLESS = re.compile(
    r"Cannot (?:iterate over|index|use|check whether|delete|determine)[a-z ]*"
    r"|(?:null|boolean|number|string|array|object) \(.*\) and (?P<other>[a-z]+) \(.*\) cannot be (?P<done>[a-z]+)",
    re.DOTALL,
)


class Expressions:
    """``compile`` at registration, ``run`` at every event. Helpers start when they are first needed; ``stop`` ends them."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._helpers: list[Helper | None] = [None] * _LANES
        self._starting = [asyncio.Lock() for _ in range(_LANES)]
        self._suspects: OrderedDict[bytes, None] = OrderedDict()
        self._stopped = False

    async def compile(self, text: object, *, field: str, variables: Iterable[str] = ()) -> Expression:
        """The expression in ``text``. Raises ExpressionError naming ``field`` where it is none that runs here."""
        expression = Expression.read(text, field=field, variables=variables)
        try:
            status, said = await self._ask(COMPILE, expression.program, b"")
        except ExpressionFailedError as error:
            raise ExpressionError(f"{field} cannot be compiled: {error.message}", field=field) from None
        if status == REFUSED:
            raise ExpressionError(f"{field} is not jq: {_of_author(expression, said)}", field=field)
        return expression

    async def run(
        self, expression: Expression, value: Any, variables: Mapping[str, Any] | None = None
    ) -> Any:
        """The first output for ``value``, or ``NOTHING``. ``variables`` has a value for each that the expression
        declares. Raises ExpressionFailedError where it fails, takes too long or too much memory, or makes more than may be
        kept: it would do so again. Raises NotReadyError where no helper runs: try again."""
        given = value
        if expression.variables:
            given = [value, {name: (variables or {})[name] for name in expression.variables}]
        text = _encode(given)
        if len(text) > self._limits.given:
            raise ExpressionFailedError("The input is larger than an expression takes.")
        status, said = await self._ask(RUN, expression.program, text)
        if status == VALUE:
            return _decode(said)
        if status == NO_OUTPUT:
            return NOTHING
        if status == TOO_LARGE:
            raise ExpressionFailedError(f"The result is larger than {self._limits.result} bytes.")
        if status == REFUSED:
            raise ExpressionFailedError("The expression is not jq that this server knows.")
        raise ExpressionFailedError(_of_value(said))

    async def stop(self) -> None:
        self._stopped = True
        for helper in self._helpers:
            if helper is not None:
                await helper.close()
        self._helpers = [None] * _LANES

    async def _ask(self, kind: int, program: bytes, given: bytes) -> tuple[int, bytes]:
        """Asks once more where a helper ended that another program, or nobody here, ended."""
        innocent = 0
        while True:
            lane = 1 if kind == COMPILE or program in self._suspects else 0
            helper = await self._helper(lane)
            try:
                return await helper.ask(kind, program, given)
            except Died as death:
                if death.reason is not None:
                    self._suspect(program)
                    raise ExpressionFailedError(f"The expression was stopped: {death.reason}.") from None
                innocent += 1
            if innocent >= 20:
                raise NotReadyError("the processes that evaluate expressions keep ending; try again")

    def _suspect(self, program: bytes) -> None:
        self._suspects[program] = None
        self._suspects.move_to_end(program)
        if len(self._suspects) > _SUSPECTS:
            self._suspects.popitem(last=False)

    async def _helper(self, lane: int) -> Helper:
        helper = self._helpers[lane]
        if helper is not None and not helper.ended.is_set():
            return helper
        async with self._starting[lane]:
            helper = self._helpers[lane]
            if helper is None or helper.ended.is_set():
                if self._stopped:
                    raise NotReadyError("this process is stopping")
                try:
                    helper = self._helpers[lane] = await Helper.start(self._limits)
                except OSError as error:
                    log.error("no process for expressions could be started", reason=type(error).__name__)
                    raise NotReadyError("no process for expressions could be started; try again") from None
            return helper


def _encode(value: Any) -> bytes:
    if reason := unstorable(value):
        raise ExpressionFailedError(f"The input cannot be given to an expression: {reason}.")
    try:
        return orjson.dumps(value)
    except TypeError:
        # An integer beyond 64 bits.
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


_BIG_NUMBER = re.compile(rb"[0-9]{19}")


def _decode(text: bytes) -> Any:
    """A number keeps its digits where Python has a type for it; one beyond every type is no result."""
    try:
        value = json.loads(text) if _BIG_NUMBER.search(text) else orjson.loads(text)
    except (ValueError, RecursionError):
        value = float("nan")
    if reason := unstorable(value):
        raise ExpressionFailedError(f"The result cannot be kept: {reason}.")
    return value


def _of_author(expression: Expression, said: bytes) -> str:
    """What jq says about a program, with the places as its author counts them."""
    first = said.decode().removeprefix("jq: error: ").partition("\n")[0]
    found = _LOCATION.search(first)
    words = _LOCATION.sub("", first).strip()[:300]
    if found is None:
        return words
    line, column = int(found[1]), int(found[2])
    if line > expression.text.count("\n") + 1:
        return "it ends too early"
    return f"{words} (line {line}, column {column - len(expression.before) if line == 1 else column})"


def _of_value(said: bytes) -> str:
    """What jq says about a value. The rest of its sentence, and what a program raised itself, may be the input's."""
    found = _HARMLESS.match(said.decode("utf-8", "replace"))
    if found is None:
        return "The expression raised an error."
    if found["done"]:
        return f"The expression failed: these two cannot be {found['done']}."
    return f"The expression failed: {found[0].strip()}."
