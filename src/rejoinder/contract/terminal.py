"""Text of others on a terminal: without the characters that steer it or reorder what is read."""

from __future__ import annotations

import unicodedata

#: Categories of characters that steer a terminal or reorder text: controls, formats, surrogates, line separators.
_UNSAFE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
#: Joiners that scripts need within words; they move nothing else.
_HARMLESS = frozenset("\u200c\u200d")


def clean(text: str, *, keep: str = "") -> str:
    """The text without control and direction characters, except those in ``keep``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c for c in text if c in keep or c in _HARMLESS or unicodedata.category(c) not in _UNSAFE)


def one_line(text: str, most: int | None = None) -> str:
    """The text on one line, runs of white space as one blank; cut to ``most`` characters, which then shows."""
    line = clean(" ".join(text.split()))
    return line if most is None or len(line) <= most else line[: most - 1] + "…"
