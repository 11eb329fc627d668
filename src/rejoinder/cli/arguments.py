"""Reading arguments: JSON given in words, a file or standard input, and the options that may stand anywhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rejoinder.contract.errors import RejoinderError

#: Options of every command that talks to a server; True where a value follows.
ANYWHERE = {
    "--json": False,
    "--no-json": False,
    "--api-key-stdin": False,
    "--server": True,
    "--timeout": True,
}


class UsageError(RejoinderError):
    """The command line is wrong."""

    code = "usage"
    status = 400
    usage = True


def leading_options_last(arguments: list[str]) -> list[str]:
    """Move the options that may stand anywhere from before the command to behind it."""
    leading: list[str] = []
    rest = list(arguments)
    while rest:
        name = rest[0].partition("=")[0]
        if name not in ANYWHERE:
            break
        take = 2 if ANYWHERE[name] and "=" not in rest[0] else 1
        leading += rest[:take]
        rest = rest[take:]
    if not leading or not rest:
        return list(arguments)
    end = rest.index("--") if "--" in rest else len(rest)
    return rest[:end] + leading + rest[end:]


class StandardInput:
    """Standard input, for one taker only."""

    def __init__(self) -> None:
        self._taken_by: str | None = None

    def release(self) -> None:
        """Forget who took it: another command begins."""
        self._taken_by = None

    def claim(self, flag: str) -> None:
        """Raises UsageError where another option reads it already."""
        if self._taken_by is not None and self._taken_by != flag:
            raise UsageError(f"{self._taken_by} and {flag} cannot both read standard input.", field=flag)
        self._taken_by = flag

    def read(self, flag: str) -> str:
        self.claim(flag)
        return _decoded(sys.stdin.buffer.read(), flag)

    def line(self, flag: str) -> str:
        self.claim(flag)
        return _decoded(sys.stdin.buffer.readline(), flag).strip()


standard_input = StandardInput()


def read_json(flag: str, text: str) -> Any:
    """The value of an option that takes JSON. Raises UsageError naming it."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        hint = (
            "" if text.lstrip().startswith(("{", "[")) else f" A text needs quotes inside: {flag} '\"yes\"'."
        )
        raise UsageError(f"{flag} is not valid JSON.{hint}", field=flag) from None


def json_option(flag: str, text: str | None, file: str | None) -> Any | None:
    """JSON from ``flag`` or from ``flag-file`` (``-`` is standard input in both); None where neither was given."""
    if text is not None and file is not None:
        raise UsageError(f"Give {flag} or {flag}-file, not both.", field=flag)
    if text is not None:
        return read_json(flag, standard_input.read(flag) if text == "-" else text)
    if file is None:
        return None
    name = f"{flag}-file"
    if file == "-":
        return read_json(name, standard_input.read(name))
    try:
        content = Path(file).expanduser().read_bytes()
    except OSError as error:
        raise UsageError(f"{name}: {file} cannot be read: {error.strerror}.", field=name) from None
    return read_json(name, _decoded(content, name))


def pairs(flag: str, given: list[str], *, texts: Collection[str] = ()) -> dict[str, Any]:
    """``k=v`` words as an object. A value that is JSON is taken as JSON, anything else as text; the value of a name
    in ``texts`` is text always."""
    found: dict[str, Any] = {}
    for word in given:
        name, mark, text = word.partition("=")
        if not mark or not name:
            raise UsageError(f"{flag} takes name=value, not {word!r}.", field=flag)
        if name in found:
            raise UsageError(f"{flag} gives {name} twice.", field=flag)
        try:
            found[name] = text if name in texts else json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            found[name] = text
    return found


def _decoded(content: bytes, flag: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{flag}: the input is not UTF-8 text.", field=flag) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)
