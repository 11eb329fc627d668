"""What a command prints: aligned tables for people, JSON for programs, and never a control character."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from rejoinder.contract.terminal import clean, one_line


def fail(message: str) -> None:
    """An error, in one line on standard error."""
    print(f"rejoinder: {one_line(message)}", file=sys.stderr, flush=True)


def note(message: str) -> None:
    """Something a person wants to know and a program must not read: on standard error."""
    print(clean(message, keep="\n"), file=sys.stderr, flush=True)


def print_json(value: Any, *, compact: bool = False) -> None:
    # Escaped throughout: what an agent wrote must not reach a terminal as it is.
    text = json.dumps(value, ensure_ascii=True, indent=None if compact else 2)
    print(text.replace("\x7f", "\\u007f"), flush=True)


def cell(value: Any) -> str:
    """One value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return one_line(value)
    return one_line(json.dumps(value, ensure_ascii=False))


def print_mapping(value: Mapping[str, Any]) -> None:
    """A field/value table. Long values continue below themselves."""
    rows = [(str(name).replace("_", " "), cell(item)) for name, item in value.items()]
    width = max((_width(name) for name, _ in rows), default=0)
    for name, text in rows:
        print(f"{_padded(name, width)}  {text}")
    sys.stdout.flush()


def print_table(
    columns: Sequence[tuple[str, str]], items: Iterable[Mapping[str, Any]], *, wide: str | None = None
) -> None:
    """One line an item, aligned. ``columns`` are ``(key, heading)``. On a terminal the column ``wide`` is shortened
    so that a line fits; into a file or a pipe everything is written."""
    cells = [[cell(item.get(key)) for key, _ in columns] for item in items]
    heads = [heading for _, heading in columns]
    widths = [max([_width(heads[i]), *(_width(row[i]) for row in cells)]) for i in range(len(columns))]
    room = _terminal_width(sys.stdout)
    if wide is not None and room is not None:
        at = [key for key, _ in columns].index(wide)
        widths[at] = max(20, min(widths[at], room - sum(widths) + widths[at] - 2 * (len(widths) - 1)))
    for row in [heads, *cells]:
        parts = [_padded(_shortened(text, width), width) for text, width in zip(row, widths, strict=True)]
        print("  ".join(parts).rstrip())
    sys.stdout.flush()


def _terminal_width(stream: TextIO) -> int | None:
    if not stream.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - _width(text))


def _shortened(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    kept = ""
    for character in text:
        if _width(kept + character) > width - 1:
            break
        kept += character
    return kept + "…"
