"""Text that others wrote, as a page shows it: never markup, nothing invisible, nothing cut without saying so."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from markupsafe import Markup, escape

#: Longer texts are folded: the first part is shown, the rest opens, and the page says how much there is.
FOLD_CHARACTERS = 1_500
FOLD_LINES = 24
#: A first line up to this long is a heading.
HEADING = 240

#: Invisible although their category does not say so: fillers and blanks that pass for nothing.
_INVISIBLE = frozenset("\u00ad\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_JOINER = "\u200d"


def is_hidden(character: str) -> bool:
    """Whether a reader could not see this character, or it changes how its neighbours are laid out."""
    if character in "\n\t":
        return False
    return character in _INVISIBLE or unicodedata.category(character) in _HIDDEN


def shown(text: object) -> Markup:
    """The text as HTML, with each hidden character as a visible mark such as ``U+202E``."""
    source = text if isinstance(text, str) else str(text)
    source = source.replace("\r\n", "\n")
    if _is_clear(source):
        return escape(source)
    parts: list[Markup | str] = []
    plain: list[str] = []
    for index, character in enumerate(source):
        if not is_hidden(character) or _joins_emoji(source, index):
            plain.append(character)
            continue
        if plain:
            parts.append(escape("".join(plain)))
            plain = []
        parts.append(Markup('<span class="hidden-char">U+{:04X}</span>').format(ord(character)))
    if plain:
        parts.append(escape("".join(plain)))
    return Markup("").join(parts)


def plain(text: object) -> str:
    """The same for an attribute or a title, where no mark-up fits."""
    source = (text if isinstance(text, str) else str(text)).replace("\r\n", "\n")
    if _is_clear(source):
        return source
    return "".join(
        f"[U+{ord(c):04X}]" if is_hidden(c) and not _joins_emoji(source, i) else c
        for i, c in enumerate(source)
    )


def fold(text: str) -> tuple[str, str]:
    """``(what is shown at once, what opens)``; the second is empty for a text of ordinary length."""
    end = len(text)
    if end > FOLD_CHARACTERS * 1.2:
        end = FOLD_CHARACTERS
    lines = text[:end].split("\n")
    if len(lines) > FOLD_LINES * 1.2:
        end = len("\n".join(lines[:FOLD_LINES]))
    if end < len(text):
        # Not inside a word where one ends nearby.
        space = max(text.rfind(" ", end - 40, end), text.rfind("\n", end - 40, end))
        end = space if space > 0 else end
    return text[:end], text[end:]


def headed(text: str) -> tuple[str, str]:
    """``(heading, what follows it)``: the first line is the heading, unless it is a text of its own."""
    stripped = text.strip("\r\n")
    first, _, rest = stripped.partition("\n")
    if first.strip() and len(first) <= HEADING:
        return first, rest.strip("\r\n")
    return fold(stripped)


def first_line(text: str, limit: int = 140) -> str:
    """One line for a list. An ellipsis says that there is more."""
    stripped = text.strip()
    line = stripped.split("\n", 1)[0].strip()
    if len(line) > limit:
        return line[: limit - 1].rstrip() + "…"
    return line + (" …" if len(line) < len(stripped) else "")


def pretty(value: Any) -> str:
    """A JSON value for reading. Escapes stay off, so that hidden characters are marked by ``shown``."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _is_clear(text: str) -> bool:
    """The quick answer for ordinary text: every character is printable, or a line break."""
    return text.replace("\n", "").isprintable() and _INVISIBLE.isdisjoint(text)


def _joins_emoji(text: str, index: int) -> bool:
    """A joiner between two pictures is how one picture is written; anywhere else it hides something."""
    if text[index] != _JOINER or not 0 < index < len(text) - 1:
        return False
    before = text[index - 1]
    if before == "\ufe0f" and index > 1:
        before = text[index - 2]
    return all(
        ord(c) >= 0x2190 and unicodedata.category(c) in ("So", "Sk") for c in (before, text[index + 1])
    )
