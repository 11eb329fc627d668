"""One typed text to one JSON value, exactly: large whole numbers keep every digit, digits of any script count."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from decimal import Decimal
from typing import Any, NoReturn

from rejoinder.contract.text import unstorable
from rejoinder.forms import words
from rejoinder.language.spoken import t

#: Digits of a number; longer ones cannot be kept.
MAX_DIGITS = 400

_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_SIGNS = {"\u2212": "-", "\ufe63": "-", "\uff0d": "-", "\uff0b": "+", "\u066b": ".", "\uff0e": "."}
_BREAK = re.compile(r"\r\n?")


class NotThis(ValueError):
    """The text is not such a value; the message is the sentence for the person."""


def whole(text: str) -> int:
    """A whole number; ``5.0`` and ``1e3`` are whole too. Raises NotThis."""
    plain = _plain(text)
    if _WHOLE.fullmatch(plain) and len(plain) <= MAX_DIGITS:
        return int(plain)
    if _NUMBER.fullmatch(plain) and len(plain) <= MAX_DIGITS:
        exact = Decimal(plain)
        if exact.adjusted() < MAX_DIGITS and exact == exact.to_integral_value():
            return int(exact)
    raise NotThis(words.of_type("integer"))


def number(text: str) -> int | float:
    """A number: an int where no point or exponent was typed, so that large ones stay exact. Raises NotThis."""
    plain = _plain(text)
    if len(plain) <= MAX_DIGITS:
        if _WHOLE.fullmatch(plain):
            return int(plain)
        if _NUMBER.fullmatch(plain):
            value = float(plain)
            if math.isfinite(value):
                return value
    if "," in plain:
        raise NotThis(t("Enter a number with a point, such as 1.5"))
    raise NotThis(words.of_type("number"))


def read_json(text: str, *, takes_text: bool) -> Any:
    """JSON; with ``takes_text`` what is no JSON is the text itself. Raises NotThis."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        if takes_text:
            return unbroken(text)
        raise NotThis(t('Enter JSON, such as {"name": "value"} or [1, 2]')) from None
    if unstorable(value) is not None:
        raise NotThis(words.other())
    return value


def unbroken(text: str) -> str:
    """Line breaks as ``\\n``: browsers send ``\\r\\n``."""
    return _BREAK.sub("\n", text)


def _plain(text: str) -> str:
    """ASCII digits for those of any script, ASCII signs for typographic ones, no blanks around."""
    return "".join(_ascii(char) for char in text.strip())


def _ascii(char: str) -> str:
    if char in _SIGNS:
        return _SIGNS[char]
    digit = unicodedata.decimal(char, None)
    return char if digit is None else str(digit)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)
