"""Why a preset, a schedule or a hook does not run, in the reader's language.

The doors and the command line tell these reasons in English, and rows keep them so. A page says those that are ours in
its reader's words. What an author's code, a library or an extension said stays as it is.
"""

from __future__ import annotations

import re
from functools import cache

from rejoinder.hooks.kinds import Kind
from rejoinder.language.spoken import later, t

KINDS: dict[Kind, str] = {
    "bad_input": later("Bad input"),
    "unauthorized": later("Not allowed"),
    "not_found": later("Not found"),
    "conflict": later("Conflict"),
    "cancelled": later("Withdrawn"),
    "interrupted": later("Interrupted"),
    "failed": later("Failed"),
    "timed_out": later("Timed out"),
    "unavailable": later("Unavailable"),
    "internal": later("Fault of the server"),
}

#: Presets: what cannot be made a tool.
_PRESETS = (
    later("no tool named {tool} is exposed"),
    later("{tool} is a preset, and a preset is no base for another"),
    later("{tool} is an agent, and an agent is no base for a preset"),
    later("{tool} is internal, and no preset may be made of it"),
    later("{tool} is run with fixed arguments only, so a preset of it fixes some"),
    later("{tool} waits for approval: the person would be shown something else than what runs"),
    later("{tool} takes no argument named {name}"),
    later("it needs input_schema, which says what callers give"),
    later("{name} is fixed, so no caller can give it"),
    later("{tool} needs {name}: name it, and require it"),
    later("the manifest exposes a tool of this name"),
    later("it cannot be read ({kind})"),
    later("{mark} needs a reference, such as {example}"),
    later("a reference must be the name of a variable, such as {example}"),
    later("the variable {name} is not among those that presets may refer to (REJOINDER_PRESET_VARIABLES)"),
    later("the variable {name} is not set"),
    later("{place}: no module under extensions_modules has an extension named {name}"),
)
_SCHEDULES = (
    later("no worker is running"),
    later("no tool of this name is exposed here"),
    later("the key that it runs under was revoked, has expired, or may not run tools any more"),
    later("start_expr gave no object"),
    later("start_expr gave what {tool} does not take: {reason}"),
    later("its input could not be made; the log says why"),
    later("start_expr: {reason}"),
)
#: Hooks, and the runs that they began.
_HOOKS = (
    later("its run is not known any more"),
    later("the run ended"),
    later("it could not be begun; the log says why under its id"),
    later("start_expr must come to an object or to null"),
    later("no tool of this name is exposed"),
    later(
        "The key that this hook runs under was revoked or has expired, or there is none. Register the hook with a live one."
    ),
    later("The tool raised an error."),
    later("Nobody answered in time."),
    later("A worker died inside code that may not run twice. An operator looks what it had done."),
    later("The run was taken down meanwhile."),
    later("Its worker stopped."),
)
#: Expressions and arguments, of whichever of them.
_INPUTS = (
    later("The input is larger than an expression takes."),
    later("The result is larger than {count} bytes."),
    later("The expression is not jq that this server knows."),
    later("The expression raised an error."),
    later("The expression failed: {reason}."),
    later("The expression was stopped: {reason}."),
    later("The input cannot be given to an expression: {reason}."),
    later("The result cannot be kept: {reason}."),
    later("argument {name}: {reason}"),
    later("it is required"),
    later("the tool takes no such argument"),
    later("what the variable holds does not fit"),
)
#: A name has no spaces in it, so that no sentence of another's is taken for one of ours.
_NAME = r"\S+"
_PLACES = {"reason": r"(?s:.+)", "example": r".+"}
SENTENCES = (*_PRESETS, *_SCHEDULES, *_HOOKS, *_INPUTS)


def in_words(text: str) -> str:
    """A reason as a page says it. One that is none of ours is returned as it is."""
    if text in SENTENCES:
        return t(text)
    for sentence, pattern in _patterns():
        if found := pattern.fullmatch(text):
            values = found.groupdict()
            if "reason" in values:
                values["reason"] = in_words(values["reason"])
            return t(sentence, **values)
    return text


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Those with places."""
    made = []
    for sentence in SENTENCES:
        texts = re.split(r"\{(\w+)\}", sentence)
        if len(texts) > 1:
            pattern = "".join(
                f"(?P<{one}>{_PLACES.get(one, _NAME)})" if i % 2 else re.escape(one)
                for i, one in enumerate(texts)
            )
            made.append((sentence, re.compile(pattern)))
    return tuple(made)
