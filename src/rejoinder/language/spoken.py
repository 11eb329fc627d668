"""The language that people are spoken to in: a catalogue a language, and the one that holds for this request.

English is the language of the source: a sentence is its own key. A page chooses its reader's language for the time it
is drawn; everything else (the doors, the command line, the log) stays in English.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files

import orjson

ENGLISH = "en"
#: Each has its catalogue beside this file, as ``<code>.json``: English sentence to translated sentence.
LANGUAGES: dict[str, str] = {ENGLISH: "English", "de": "Deutsch"}

_current: ContextVar[str] = ContextVar("language", default=ENGLISH)


def language() -> str:
    """The code of the language that holds here, such as ``en``."""
    return _current.get()


@contextmanager
def speaking(code: str) -> Iterator[None]:
    """Inside, ``t`` answers in this language. One that is not known is English."""
    token = _current.set(code if code in LANGUAGES else ENGLISH)
    try:
        yield
    finally:
        _current.reset(token)


def t(sentence: str, /, **values: object) -> str:
    """The sentence in the reader's language, with ``{name}`` replaced by each value.

    A sentence that its catalogue lacks stays English: a test sees to it that none does.
    """
    code = _current.get()
    text = sentence if code == ENGLISH else catalogue(code).get(sentence, sentence)
    return text.format(**values) if values else text


def n(one: str, many: str, count: object, /, **values: object) -> str:
    """The sentence for one or for many; ``{count}`` is the number as it is written."""
    return t(one if count == 1 else many, count=count, **values)


def later(sentence: str, /) -> str:
    """The sentence itself: it is one of the catalogue, and ``t`` is called with it where it is said."""
    return sentence


@cache
def catalogue(code: str) -> dict[str, str]:
    read: dict[str, str] = orjson.loads(files("rejoinder.language").joinpath(f"{code}.json").read_bytes())
    return read


def preferred(accept_language: str) -> str | None:
    """The known language that an ``Accept-Language`` header likes best, or None."""
    wishes: list[tuple[float, int, str]] = []
    for position, part in enumerate(accept_language[:1_000].split(",")):
        tag, _, weight = part.partition(";")
        code = tag.strip().lower().split("-")[0]
        if code not in LANGUAGES:
            continue
        quality = _quality(weight)
        if quality > 0:
            wishes.append((-quality, position, code))
    return min(wishes)[2] if wishes else None


def _quality(weight: str) -> float:
    name, mark, value = weight.strip().partition("=")
    if not mark:
        return 1.0
    try:
        number = float(value)
    except ValueError:
        return 0.0
    return number if name.strip() == "q" and 0 <= number <= 1 else 0.0
