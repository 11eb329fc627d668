"""Reading a jq program just far enough to know which of its words are calls.

What reads something else than the program's input is refused by name before the program is compiled. This is no more
than a clear answer for its author: the process that runs programs has no environment, no files and no other inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: What is refused, and why.
REFUSED = {
    **dict.fromkeys(("env", "$ENV"), "it reads the environment"),
    **dict.fromkeys(
        ("input", "inputs", "input_filename", "input_line_number"), "there is one input, and it is ."
    ),
    **dict.fromkeys(("debug", "stderr", "halt", "halt_error"), "it does something besides giving a value"),
    **dict.fromkeys(("import", "include", "module", "modulemeta", "get_search_list"), "it reads files"),
    **dict.fromkeys(
        ("now", "localtime", "strflocaltime"), "it reads the clock or the time zone of a machine"
    ),
    **dict.fromkeys(("$__prog_args", "$ARGS"), "there are no arguments"),
}

_TOKEN = re.compile(
    r"""
      (?P<space>    [ \t\r\n]+ )
    | (?P<comment>  \#[^\n]* )
    | (?P<quote>    " )
    | (?P<variable> \$ [ \t\r\n]* (?P<bound> [A-Za-z_][A-Za-z0-9_]* ) )
    | (?P<field>    \. [A-Za-z_][A-Za-z0-9_]* )
    | (?P<format>   @ [A-Za-z0-9_]+ )
    | (?P<number>   (?: [0-9]+ (?: \.[0-9]* )? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? )
    | (?P<word>     (?: [A-Za-z_][A-Za-z0-9_]* :: )* [A-Za-z_][A-Za-z0-9_]* )
    | (?P<opens>    [\[{(] )
    | (?P<closes>   [\]})] )
    | (?P<other>    . )
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_STRING = re.compile(
    r'(?P<text> [^"\\]+ ) | (?P<call> \\\( ) | (?P<escape> \\. ) | (?P<end> ")', re.X | re.S
)
_KEY_FOLLOWS = re.compile(r"[ \t\r\n]*:(?!:)")
_PAIRS = {")": "(", "]": "[", "}": "{"}


def refused(text: str) -> str | None:
    """Why this program is not one that may run, or None. What is None may still not be jq."""
    before = ""
    for kind, word, rest in _tokens(text):
        if kind in ("fault", "end"):
            return word or None
        # {env: 1} has a key of that name; `def env: ...` defines a function.
        is_key = kind == "word" and before != "def" and _KEY_FOLLOWS.match(text, rest) is not None
        if kind in ("word", "variable") and not is_key and word in REFUSED:
            return f"{word} is not served: {REFUSED[word]}"
        before = word
    return None


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """``(kind, word, where the text goes on)``, spaces and comments left out. ``fault`` comes with a sentence."""
    # What is open: brackets, and " for a string that is read or, below a bracket, one that an interpolation is in.
    opened: list[str] = []
    at = 0
    while at < len(text):
        if opened and opened[-1] == '"':
            part = _IN_STRING.match(text, at)
            if part is None:
                break
            at = part.end()
            if part.lastgroup == "call":
                opened.append("(")
            elif part.lastgroup == "end":
                opened.pop()
            continue
        found = _TOKEN.match(text, at)
        assert found is not None
        at, kind, word = found.end(), found.lastgroup, found.group()
        if kind == "bound":
            kind = "variable"
        if kind == "comment" and "\\" in word:
            # jq may let such a comment go on over the end of its line, depending on its version.
            yield "fault", "a comment must not hold a backslash", at
            return
        if kind == "quote":
            opened.append('"')
        elif kind == "opens":
            opened.append(word)
        elif kind == "closes" and (not opened or opened.pop() != _PAIRS[word]):
            yield "fault", f"{word} closes what was not opened", at
            return
        if kind == "variable":
            word = f"${found['bound']}"
        if kind not in ("space", "comment"):
            yield str(kind), word, at
    if opened:
        what = "a string" if opened[-1] == '"' else opened[-1]
        yield "fault", f"{what} is not closed", at
