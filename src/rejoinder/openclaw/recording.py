"""Recordings of what passed between a client and a Gateway: one JSON object a line.

    {"t": seconds, "conn": name of the connection, "dir": "in" | "out" | "closed" | "note", "frame": {...}}

`in` and `out` as the client sees them; `closed` has `{code, reason}`; `note` is for people. Files ending in `.gz` are
packed. A recording holds what people and agents wrote; secrets and the user's name in paths are masked.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

from rejoinder.openclaw.errors import GatewayError
from rejoinder.openclaw.masking import Mask

Direction = Literal["in", "out", "closed", "note"]
_DIRECTIONS = frozenset(("in", "out", "closed", "note"))
_WITHOUT = frozenset(("closed", "note"))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a recording. `at`: seconds, of whatever clock the recorder had."""

    at: float
    connection: str
    direction: Direction
    frame: Mapping[str, Any]


class Recorder:
    """Writes a recording, masked. Every line is flushed: what ends badly is what one wants to see.

    Closing it is the caller's; `mask.summary()` says what was masked.
    """

    def __init__(
        self, file: IO[str], *, known: Iterable[str] = (), now: Callable[[], float] = time.time
    ) -> None:
        self.mask = Mask(known)
        self.lines = 0
        self._file = file
        self._now = now

    def write(self, connection: str, direction: Direction, frame: Mapping[str, Any]) -> None:
        """Add a line."""
        line = {
            "t": round(self._now(), 3),
            "conn": connection,
            "dir": direction,
            "frame": self.mask.frame(frame),
        }
        self._file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
        self._file.flush()
        self.lines += 1


@contextlib.contextmanager
def create(path: Path) -> Iterator[IO[str]]:
    """A new file for a recording, readable by its owner only. Raises GatewayError if it exists or cannot be written."""
    try:
        handle = open(path, "xb", opener=_private)  # noqa: SIM115  closed below
    except FileExistsError as error:
        raise GatewayError(
            f"{path} exists already; a recording never replaces a file.", code="FILE"
        ) from error
    except OSError as error:
        raise GatewayError(f"{path} cannot be written: {error.strerror}.", code="FILE") from error
    with handle:
        packed = gzip.GzipFile(fileobj=handle, mode="wb") if path.suffix == ".gz" else None
        text = io.TextIOWrapper(cast("IO[bytes]", packed or handle), encoding="utf-8", newline="\n")
        try:
            yield text
        finally:
            text.close()


def load(path: Path) -> list[Line]:
    """The lines of a recording. Raises GatewayError, naming the line, for a file that is none."""
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = _unpacked(raw)
    except OSError as error:
        raise GatewayError(f"{path} cannot be read: {error.strerror}.", code="FILE") from error
    return list(parse(raw.decode("utf-8-sig", "replace").split("\n"), name=str(path)))


def parse(lines: Iterable[str], *, name: str = "the recording") -> Iterator[Line]:
    """The lines of a recording's text. A last line that broke off is left out: the recorder was killed there."""
    held: str | None = None
    number = 0
    for number, text in enumerate(lines, 1):
        if held is not None:
            raise _not_one(name, number - 1, held)
        if not text.strip():
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            held = text
            continue
        yield _line(value, name, number)
    if held is not None and number == 1:
        raise _not_one(name, 1, held)


def _line(value: Any, name: str, number: int) -> Line:
    frame = value.get("frame") if isinstance(value, dict) else None
    direction = value.get("dir") if isinstance(value, dict) else None
    if direction in _WITHOUT and not isinstance(frame, dict):
        frame = {}  # nothing goes by what such a line says
    if not isinstance(frame, dict) or direction not in _DIRECTIONS:
        raise _not_one(name, number, "")
    at = value.get("t")
    return Line(
        float(at) if isinstance(at, (int, float)) else 0.0,
        str(value.get("conn") or "1"),
        cast("Direction", direction),
        frame,
    )


def _not_one(name: str, number: int, text: str) -> GatewayError:
    what = "is not JSON" if text else "is not a line of a recording (it has no “dir” and “frame”)"
    return GatewayError(f"Line {number} of {name} {what}.", code="NOT_A_RECORDING")


def _private(path: str, flags: int) -> int:
    import os

    return os.open(path, flags, 0o600)


def _unpacked(raw: bytes) -> bytes:
    # A recorder that was killed leaves a packed file without its end: what is there is still read.
    import zlib

    parts, rest = [], raw
    while rest:
        engine = zlib.decompressobj(31)
        try:
            parts.append(engine.decompress(rest))
        except zlib.error:
            break
        rest = engine.unused_data
    return b"".join(parts)
