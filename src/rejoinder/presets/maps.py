"""The expressions of presets: from what the caller gave to the base tool's arguments, and from its result on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rejoinder.expressions import NOTHING, Expression, Expressions


@dataclass(frozen=True, slots=True)
class CompiledMap:
    """An expression that gives no value counts as null."""

    expressions: Expressions
    expression: Expression

    async def __call__(self, value: Any) -> Any:
        """Raises ExpressionFailedError."""
        made = await self.expressions.run(self.expression, value)
        return None if made is NOTHING else made


class Maps:
    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    async def compiled(self, text: str, field: str) -> CompiledMap:
        """For one that somebody wrote just now. Raises ExpressionError naming ``field``."""
        return CompiledMap(self._expressions, await self._expressions.compile(text, field=field))

    async def read(self, text: str, field: str) -> CompiledMap:
        """The same for one that was compiled when it was saved: no process is started for it before it is used."""
        return CompiledMap(self._expressions, Expression.read(text, field=field))
