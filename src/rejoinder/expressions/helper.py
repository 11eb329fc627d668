"""The process that compiles and runs jq programs. It is started by its path and imports nothing of ours.

Argument 1 is the file of the jq module, 2 the seconds of processor time for one request, 3 the bytes of address space,
4 the most bytes of a result. Requests come on standard input, answers leave on standard output, in the same order:
  request  kind (1 byte: 0 run, 1 compile), length of the program, length of the input (4 bytes each), program, input
  answer   status (1 byte), length (4 bytes), text
A program that takes longer, or more memory, ends the process. Whoever started it starts another.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import struct
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

REQUEST = struct.Struct("<BII")
ANSWER = struct.Struct("<BI")
RUN, COMPILE = 0, 1
VALUE, NOTHING, REFUSED, FAILED, TOO_LARGE = range(5)
KEPT_PROGRAMS = 512


def _load(path: str) -> Any:
    spec = spec_from_file_location("jq", path, loader=ExtensionFileLoader("jq", path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _shut_off(memory: int) -> None:
    """From here on there is nothing to read but the requests, and no file can be opened."""
    os.environ.clear()
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        # A system that does not know a limit, or that has a lower one.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (most, most))


def _answer(status: int, text: bytes = b"") -> None:
    data = memoryview(ANSWER.pack(status, len(text)) + text)
    while data:
        data = data[os.write(1, data) :]


def _work(jq: Any, kind: int, program: str, given: str, most: int, kept: dict[str, Any]) -> None:
    compiled = kept.pop(program, None)
    if compiled is None:
        try:
            compiled = jq.compile(program)
        except ValueError as error:
            return _answer(REFUSED, str(error).encode("utf-8", "replace"))
    kept[program] = compiled
    if len(kept) > KEPT_PROGRAMS:
        del kept[next(iter(kept))]
    if kind == COMPILE:
        return _answer(NOTHING)
    try:
        result = next(iter(compiled.input_text(given)), None)
    except ValueError as error:
        return _answer(FAILED, str(error).encode("utf-8", "replace"))
    if result is None:
        return _answer(NOTHING)
    text = result.encode()
    return _answer(TOO_LARGE) if len(text) > most else _answer(VALUE, text)


def main() -> None:
    path, seconds, memory, most = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    jq = _load(path)
    kept: dict[str, Any] = {}
    source = open(0, "rb", closefd=False)  # noqa: SIM115
    _shut_off(memory)
    while len(head := source.read(REQUEST.size)) == REQUEST.size:
        kind, program_size, given_size = REQUEST.unpack(head)
        program, given = source.read(program_size), source.read(given_size)
        # Processor time, not the clock on the wall: a busy machine is no fault of the program. Its signal ends us.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            _work(jq, kind, program.decode(), given.decode(), most, kept)
        except MemoryError:
            os.abort()


if __name__ == "__main__":
    main()
