"""Expressions: jq over JSON, compiled when they are registered, and bounded in size, time and memory.

An expression is somebody else's program. It is a function of the value that it is given and of nothing else: what reads
the environment, files, further inputs or a clock is refused, so that the same event comes to the same run at every
attempt. It runs in a process of its own, since one that does not end cannot be stopped from inside.
"""

from rejoinder.expressions.expression import Expression, ExpressionError, ExpressionFailedError
from rejoinder.expressions.pool import NOTHING, Expressions

__all__ = ["NOTHING", "Expression", "ExpressionError", "ExpressionFailedError", "Expressions"]
