"""The files that an agent's words attach: lines `MEDIA:<path>` on their own, outside of code.

The Gateway takes the lines out of what it streams. For a person's turn it takes them out of the transcript as well and
puts blocks with the files there; the rows of every other run keep the lines, and have no blocks (2026.9.3, 2026.9.6).
"""

from __future__ import annotations

import re

_LINE = re.compile(r"^\s*MEDIA:[ \t]*(?P<quote>[\"'`]?)(?P<path>[^\"'`]+?)(?P=quote)\s*$", re.IGNORECASE)
#: A path has an ending and no blanks, unless it is quoted: a sentence that begins with the word is none.
_PATH = re.compile(r"https?://\S+|\S*[\w)\]-]\.[A-Za-z0-9]{1,8}")
_FENCE = re.compile(r"^\s*(```|~~~)")


def split(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without the lines that attach files, and the files' paths as the agent wrote them."""
    if "media:" not in text.lower():
        return text, ()
    kept: list[str] = []
    paths: list[str] = []
    fence: str | None = None
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark is not None:
            fence = mark[1] if fence is None else None if mark[1] == fence else fence
        found = _LINE.match(line) if fence is None else None
        if found is None or not (found["quote"] or _PATH.fullmatch(found["path"])):
            kept.append(line)
            continue
        paths.append(found["path"].strip())
        # The line's own paragraph goes with it.
        if kept and not kept[-1].strip():
            kept.pop()
    if not paths:
        return text, ()
    return "\n".join(kept).strip("\n"), tuple(dict.fromkeys(paths))
