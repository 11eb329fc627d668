"""Schemas made ready to check answers with, and kept for the next answer.

The validator never leaves the document: a reference to anywhere else was refused before, and the retriever refuses
again. Patterns run on an engine whose time grows with the text only. Formats are checked.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NoReturn

import jsonschema_rs
import orjson

from rejoinder.forms.cache import Cache
from rejoinder.forms.cost import bounds
from rejoinder.forms.keywords import rules_of, without_conditional
from rejoinder.forms.rules import Rules
from rejoinder.forms.walk import References, SchemaFault

#: Compiled patterns and their lazily built tables, each at most.
PATTERN_BYTES = 1 << 19
#: Bytes of a schema that is its own key in a cache.
SHORT = 4_096
#: What the cache holds, counted in schemas and in patterns.
CACHE_WEIGHT = 512

_PATTERNS = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=PATTERN_BYTES)
_EMAIL = jsonschema_rs.EmailOptions(require_tld=True, allow_domain_literal=False, allow_display_text=False)
_TIME = re.compile(
    r"(?:[01]\d|2[0-3]):[0-5]\d(?::(?:[0-5]\d|60)(?:\.\d{1,9})?)?(?:[zZ]|[+-](?:[01]\d|2[0-3]):[0-5]\d)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A validator, the rules beside it, how deep an answer may be nested for it, and how often one place of it may be
    looked at."""

    validator: Any
    rules: Rules
    max_depth: int
    visits: int
    weight: int


def is_time(text: str) -> bool:
    """``HH:MM``, with or without seconds and an offset: what people and time pickers enter, and RFC 3339's times."""
    return _TIME.fullmatch(text) is not None


def compile_pattern(pattern: str) -> None:
    """Raises ValueError where the linear-time engine cannot run this pattern."""
    _make({"pattern": pattern})


def compile_schema(schema: dict[str, Any]) -> Compiled:
    """A schema that ``check_schema`` took. Raises SchemaFault where it cannot be processed after all."""
    references = References(schema)
    deep, visits = bounds(references)
    try:
        rules = rules_of(schema, references.places)
        validator = _make(without_conditional(schema, rules))
    except jsonschema_rs.ValidationError as fault:
        raise SchemaFault(tuple(fault.instance_path), "it cannot be processed") from fault
    except ValueError as fault:
        raise SchemaFault((), "it cannot be processed") from fault
    patterns = sum(
        ("pattern" in node) + len(node.get("patternProperties", ()))
        for node in references.places.values()
        if isinstance(node, dict)
    )
    return Compiled(validator, rules, deep, visits, 1 + patterns)


def compiled(schema: dict[str, Any]) -> Compiled:
    """The same, from the cache where this schema was seen lately."""
    key = key_of(schema)
    entry = _cache.get(key)
    if entry is None:
        entry = compile_schema(schema)
        _cache.put(key, entry, entry.weight)
    return entry


def key_of(schema: dict[str, Any]) -> bytes:
    """The same for the same JSON text."""
    try:
        text = orjson.dumps(schema)
    except TypeError:  # an integer beyond 64 bits
        text = json.dumps(schema, ensure_ascii=False).encode()
    # Short ones are kept whole: a look-up of the text itself takes less than making its digest.
    return text if len(text) <= SHORT else blake2b(text, digest_size=16).digest()


_cache: Cache[Compiled] = Cache(CACHE_WEIGHT)


def _refuse(uri: str) -> NoReturn:
    raise ValueError("references outside the schema are not followed")


def _make(schema: dict[str, Any]) -> Any:
    return jsonschema_rs.Draft202012Validator(
        schema,
        validate_formats=True,
        formats={"time": is_time},
        retriever=_refuse,
        pattern_options=_PATTERNS,
        email_options=_EMAIL,
    )
