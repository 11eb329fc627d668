"""Where something is: in a schema (a pointer), in an answer (a dotted path), on a page (a form key).

A form key is ``f`` and then one segment for each step, joined by dots: a property name with everything but ASCII
letters, digits, ``_`` and ``-`` percent-encoded, or ``[3]`` for an item. Names with dots, slashes, spaces or any
script survive the trip, and no two places share a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

ROOT = "f"
#: The item of a template row; ``Field.row`` puts the number in.
ANY_ROW = "[*]"
#: Beside a control's key: the exact value as JSON, for what the control itself cannot express (an empty text, say).
KEEP = "!"
#: Beside a date and time: the offset from UTC.
ZONE = "@"
#: Below a group: the properties that have no control of their own, as one JSON object.
EXTRA = ".+"
#: Below a list: the button that asks for one more row.
ADD = ".[+]"
#: Beside a row's key: the button that takes the row away.
REMOVE = "~"

ROW = re.compile(r"\.\[(\d{1,5})\](?=[.!@~]|$)")


def segment(step: str | int) -> str:
    """One step of a form key."""
    if isinstance(step, int):
        return f"[{step}]"
    return quote(step, safe="").replace(".", "%2E").replace("~", "%7E")


def dotted(path: Iterable[str | int]) -> str:
    """``("items", 0, "name")`` as ``items.0.name``; a dot or a backslash inside a name is escaped with a backslash,
    and an empty name is ``""``."""
    return ".".join(
        str(step) if isinstance(step, int) else step.replace("\\", "\\\\").replace(".", "\\.") or '""'
        for step in path
    )


def pointer(path: Iterable[str | int]) -> str:
    """A JSON pointer in its fragment form: ``#`` is the root, ``#/properties/a~1b`` a property named ``a/b``."""
    return "#" + "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
