"""What a control says below its label: how much it takes, and how to enter it."""

from __future__ import annotations

from typing import Any

from rejoinder.forms.field import Field
from rejoinder.forms.wording import filled, word
from rejoinder.language.spoken import n, t


def hint(one: Field, wording: dict[str, Any] | None = None) -> str | None:
    limits = one.limits
    parts: list[str] = []
    if one.control == "lines":
        parts.append(t("One on each line."))
    elif one.zone_name is not None:
        parts.append(t("Beside it: the offset from UTC, such as +01:00; Z is UTC itself."))
    elif one.control == "json":
        parts.append(t("Text, or a JSON value.") if one.takes_text else t("A JSON value."))
    low, high = limits.get("minimum"), limits.get("maximum")
    if low is not None and high is not None:
        parts.append(t("From {low} to {high}.", low=low, high=high))
    elif low is not None:
        parts.append(t("{low} or more.", low=low))
    elif high is not None:
        parts.append(t("{high} or less.", high=high))
    if "above" in limits:
        parts.append(t("More than {limit}.", limit=limits["above"]))
    if "below" in limits:
        parts.append(t("Less than {limit}.", limit=limits["below"]))
    if "multiple_of" in limits and limits["multiple_of"] != 1:
        parts.append(t("A multiple of {unit}.", unit=limits["multiple_of"]))
    own = word(wording, "length_hint")
    if own is not None and "max_length" in limits:
        parts.append(filled(own, max=limits["max_length"]))
    else:
        parts += _sizes(limits.get("min_length"), limits.get("max_length"), "character")
    parts += _sizes(limits.get("min_items"), limits.get("max_items"), "entry")
    if one.nullable and one.required:
        parts.append(t("Leave it empty for none."))
    return " ".join(parts) or None


def _sizes(least: Any, most: Any, unit: str) -> list[str]:
    if unit == "character" and least == 1:
        least = None  # that is what "required" says
    if least and most is not None:
        if least == most:
            return [_counted(_EXACTLY, unit, most)]
        return [_counted(_FROM_TO, unit, most, least=least)]
    if least:
        return [_counted(_LEAST, unit, least)]
    return [_counted(_MOST, unit, most)] if most is not None else []


def _counted(sentences: dict[str, tuple[str, str]], unit: str, count: Any, **values: Any) -> str:
    one, many = sentences[unit]
    return n(one, many, count, **values)


_EXACTLY = {
    "character": ("{count} character.", "{count} characters."),
    "entry": ("{count} entry.", "{count} entries."),
}
_FROM_TO = {
    "character": ("{least} to {count} character.", "{least} to {count} characters."),
    "entry": ("{least} to {count} entry.", "{least} to {count} entries."),
}
_LEAST = {
    "character": ("At least {count} character.", "At least {count} characters."),
    "entry": ("At least {count} entry.", "At least {count} entries."),
}
_MOST = {
    "character": ("At most {count} character.", "At most {count} characters."),
    "entry": ("At most {count} entry.", "At most {count} entries."),
}
