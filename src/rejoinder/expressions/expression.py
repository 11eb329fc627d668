"""One expression, and what can be wrong with one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from rejoinder.contract.errors import RejoinderError
from rejoinder.contract.text import unstorable_text
from rejoinder.expressions.tokens import refused

#: Characters of an expression.
MOST_TEXT = 8192
_VARIABLE = re.compile(r"[a-z][a-z0-9_]*\Z")
#: Two ends of line: the first ends a comment.
_AFTER = "\n\n)|tojson"


class ExpressionError(RejoinderError, ValueError):
    """This is not an expression that runs here; ``field`` names the parameter that it came in."""

    code = "bad-expression"
    status = 400


class ExpressionFailedError(RejoinderError, ValueError):
    """The expression gave no value for this input. Its message holds nothing of the input."""

    code = "expression-failed"
    status = 400


@dataclass(frozen=True)
class Expression:
    """A jq program over one value, as it is stored. ``variables`` are the names that it may use as ``$name`` besides.

    The first of its outputs counts. Numbers that pass through it unchanged keep all their digits; arithmetic is that
    of jq, in double precision.
    """

    text: str
    variables: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: object, *, field: str, variables: Iterable[str] = ()) -> Expression:
        """Raises ExpressionError naming ``field`` for what is no text, too long, or reads more than its input.
        Whether it is jq is known when it was compiled: ``Expressions.compile`` does both."""
        names = tuple(variables)
        assert all(map(_VARIABLE.match, names)), "a variable's name is part of the program"
        if not isinstance(text, str) or not text.strip():
            raise ExpressionError(f"{field} must be a jq expression", field=field)
        if len(text) > MOST_TEXT:
            raise ExpressionError(f"{field} must have at most {MOST_TEXT} characters", field=field)
        if reason := unstorable_text(text) or refused(text):
            raise ExpressionError(f"{field} is no expression that runs here: {reason}", field=field)
        return cls(text, names)

    @property
    def before(self) -> str:
        """What stands before the text in the program: with variables, the value comes as the first of a pair."""
        if not self.variables:
            return "("
        names = ",".join(f"${name}" for name in self.variables)
        return f".[1] as {{{names}}}|.[0]|("

    @cached_property
    def program(self) -> bytes:
        """What the helper compiles. jq itself writes the result down, since only jq knows a number's digits."""
        return f"{self.before}{self.text}{_AFTER}".encode()
