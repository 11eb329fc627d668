"""Dates and times as answers spell them."""

from __future__ import annotations

import re
from datetime import date

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_TIME = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d)?", re.ASCII)


def day_of(text: object) -> date | None:
    """The day that ``YYYY-MM-DD`` names, or None."""
    # The standard library takes other spellings too, such as 20300131: those have no two hyphens there.
    if not isinstance(text, str) or len(text) != 10 or text[4] != "-" or text[7] != "-" or not text.isascii():
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def time_of(text: object) -> str | None:
    """``HH:MM`` or ``HH:MM:SS`` as ``HH:MM:SS``, which sorts; None for anything else."""
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        return None
    return text if len(text) == 8 else text + ":00"
