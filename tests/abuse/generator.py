"""Fits the generator of requests to the versions of its libraries that are pinned here, which renamed what it calls."""

from __future__ import annotations

from typing import Any

import hypothesis_jsonschema._from_schema as from_schema
import jsonschema_rs
import pytest
import schemathesis.specs.openapi._hypothesis as generator
from hypothesis.internal.conjecture import utils
from schemathesis.generation.jsonschema.strategy import from_schema as build


class _Canonical:
    """The library as the generator knows it: a schema could be asked whether anything satisfies it."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def is_satisfiable(self) -> bool:
        return str(self._schema.satisfiability()) != "no"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._schema, name)


class _Many(utils.many):
    """Elements that were asked for one by one, before they were iterated over."""

    _steps: Any = None

    def more(self) -> bool:
        if self._steps is None:
            self._steps = iter(self.__enter__())
        if next(self._steps, self) is not self:
            return True
        self.__exit__(None)
        return False


def fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does nothing where the versions fit by themselves."""
    if not hasattr(jsonschema_rs.canonicalize({}), "is_satisfiable"):
        canonicalize = jsonschema_rs.canonicalize

        class Library:
            def __getattr__(self, name: str) -> Any:
                return getattr(jsonschema_rs, name)

            def canonicalize(self, *given: Any, **named: Any) -> _Canonical:
                return _Canonical(canonicalize(*given, **named))

        monkeypatch.setattr(generator, "jsonschema_rs", Library())
        monkeypatch.setattr(
            generator, "canonical_from_schema", lambda schema, context: build(schema._schema, context)
        )
    if not hasattr(utils.many, "more"):

        class Utils:
            many = _Many

            def __getattr__(self, name: str) -> Any:
                return getattr(utils, name)

        monkeypatch.setattr(from_schema, "cu", Utils())
