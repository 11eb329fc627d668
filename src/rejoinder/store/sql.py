"""Queries live in .sql files, each under a ``-- name: word`` line. This reads them once."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


class Queries:
    """The queries of one file as attributes: ``sql("runs").by_id``."""

    def __init__(self, source: str, text: str) -> None:
        parts = _NAME.split(text)[1:]
        self._source = source
        self._queries: dict[str, str] = dict(
            zip(parts[::2], (part.strip().rstrip(";") for part in parts[1::2]), strict=True)
        )

    def __getattr__(self, name: str) -> str:
        try:
            return self._queries[name]
        except KeyError:
            raise AttributeError(f"{self._source} has no query named {name}") from None

    def names(self) -> list[str]:
        return list(self._queries)


@cache
def sql(source: str) -> Queries:
    text = files("rejoinder.store").joinpath("queries", f"{source}.sql").read_text(encoding="utf-8")
    return Queries(f"{source}.sql", text)
