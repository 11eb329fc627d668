"""Dates and times as answers spell them."""

from __future__ import annotations

import re
from datetime import date

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d)?", re.ASCII)


def day_of(text: object) -> date | None:
    """The day that ``YYYY-MM-DD`` names, or None."""
    if not isinstance(text, str) or not _DAY.fullmatch(text):
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
