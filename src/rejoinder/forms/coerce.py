"""What a browser sends for a form, as the typed answer; and an answer as what a browser would send.

``read_form(draft_of(schema, value)) == value``: what a control cannot express (an empty text, an empty optional list)
travels beside it in a hidden pair (``paths.KEEP``) that counts only while the control is left empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rejoinder.contract.errors import TooLargeError
from rejoinder.forms import paths, words
from rejoinder.forms.field import MISSING, Field
from rejoinder.forms.fields import root_field
from rejoinder.forms.paths import dotted
from rejoinder.forms.scalars import NotThis, number, read_json, unbroken, whole

#: Name and value pairs of one submission.
MAX_PAIRS = 5_000

Path = tuple[str | int, ...]
_TRIMMED: Final = ("email", "url", "date", "time", "datetime-local")


def read_form(
    schema: dict[str, Any], fields: Iterable[tuple[str, str]]
) -> tuple[Any, dict[str, str], dict[str, list[str]]]:
    """The submitted pairs as ``(value, faults, draft)``.

    ``faults`` holds what could not be read, by dotted path; such a place is
    left out of the value (a faulty line of a list stays as typed). ``draft`` echoes
    what was typed, by form key, with the rows renumbered as in the value: blank rows and removed ones are gone.
    Empty optional fields are left out, unknown keys are ignored. The value is not validated.

    Raises TooLargeError for more than ``MAX_PAIRS`` pairs.
    """
    value, faults, draft = read_places(schema, fields)
    return value, {dotted(path): sentence for path, sentence in faults.items()}, draft


def read_places(
    schema: dict[str, Any], fields: Iterable[tuple[str, str]]
) -> tuple[Any, dict[Path, str], dict[str, list[str]]]:
    """The same as ``read_form``, with each fault at its path instead of its dotted path."""
    reader = Reader(fields)
    value, _ = reader.read(root_field(schema), paths.ROOT, paths.ROOT, ())
    return ({} if value is MISSING else value), reader.faults, reader.draft


class Reader:
    """Reads fields out of pairs; collects faults and the echo on the way."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        self.faults: dict[Path, str] = {}
        self.draft: dict[str, list[str]] = {}
        self._given: dict[str, list[str]] = {}
        self._rows: dict[str, set[int]] = {}
        for count, (name, text) in enumerate(fields, 1):
            if count > MAX_PAIRS:
                raise TooLargeError(f"A form may send {MAX_PAIRS} values at most; this one sent more.")
            if name != paths.ROOT and not name.startswith((paths.ROOT + ".", paths.ROOT + paths.KEEP)):
                continue
            self._given.setdefault(name, []).append(text)
            for found in paths.ROW.finditer(name):
                self._rows.setdefault(name[: found.start()], set()).add(int(found.group(1)))

    def read(self, field: Field, source: str, target: str, path: Path) -> tuple[Any, bool]:
        """The value (or MISSING) of the field sent as ``source``, and whether anybody gave it.

        ``target`` is the form key it gets in the echo.
        """
        if field.control == "group":
            return self._group(field, source, target, path)
        if field.control == "const":
            return (field.const if field.required else MISSING), False
        if field.control == "rows":
            value, given = self._list_of_groups(field, source, target, path)
        else:
            value, given = self._control(field, source, target, path)
        if given:
            return value, True
        return self._left_empty(field, source, target)

    def _left_empty(self, field: Field, source: str, target: str) -> tuple[Any, bool]:
        kept = self._given.get(source + paths.KEEP)
        if kept:
            try:
                value = read_json(kept[-1], takes_text=False)
            except NotThis:
                pass  # not ours: we write JSON there
            else:
                self.draft[target + paths.KEEP] = kept[-1:]
                return value, True
        if field.required and field.nullable and field.control != "json":
            return None, False
        if field.required and field.control in ("checkboxes", "lines", "rows"):
            return [], False
        if field.required and field.control == "group":
            return {}, False
        return MISSING, False

    def _group(self, field: Field, source: str, target: str, path: Path) -> tuple[Any, bool]:
        value: dict[str, Any] = {}
        given = False
        for child in field.children:
            below = path if child.extra else (*path, child.path[-1])
            inner, touched = self.read(child, source + child.key, target + child.key, below)
            given = given or touched
            if inner is MISSING:
                continue
            if not child.extra:
                value[str(child.path[-1])] = inner
            elif isinstance(inner, dict):
                value = inner | value
            else:
                self.faults[path] = words.of_type("object")
        if given:
            return value, True
        kept, touched = self._left_empty(field, source, target)
        if touched or kept is MISSING or kept is None:
            return kept, touched
        return value, False

    def _list_of_groups(self, field: Field, source: str, target: str, path: Path) -> tuple[Any, bool]:
        assert field.item is not None
        found: list[Any] = []
        for index in sorted(self._rows.get(source, ())):
            row = f"{source}.[{index}]"
            if row + paths.REMOVE in self._given:
                continue
            value, given = self.read(field.item, row, f"{target}.[{len(found)}]", (*path, len(found)))
            if given:
                found.append(value)
        return found, bool(found)

    def _control(self, field: Field, source: str, target: str, path: Path) -> tuple[Any, bool]:
        texts = [text for text in self._given.get(source, ()) if text != ""]
        if not texts:
            return MISSING, False
        self.draft[target] = texts
        zone = self._given.get(source + paths.ZONE, [""])[-1].strip()
        if zone and field.input_type == "datetime-local":
            self.draft[target + paths.ZONE] = [zone]
        try:
            value = _value(field, texts, zone, path, self.faults)
        except NotThis as fault:
            self.faults[path] = str(fault)
            return MISSING, True
        return value, value is not MISSING


def _value(field: Field, texts: list[str], zone: str, path: Path, faults: dict[Path, str]) -> Any:
    match field.control:
        case "checkboxes":
            return [_chosen(field, text, words.offered_many()) for text in texts]
        case "radios" | "select":
            return _chosen(field, texts[-1], words.offered())
        case "checkbox":
            if texts[-1] not in ("true", "on"):
                raise NotThis(words.offered())
            return True
        case "lines":
            assert field.item is not None
            return _lines(field.item, texts, path, faults)
        case _:
            return scalar(field, texts[-1], zone)


def scalar(field: Field, text: str, zone: str = "") -> Any:
    """One text as the value of a control that takes one; MISSING where only blanks were typed. Raises NotThis."""
    match field.control:
        case "boolean":
            if text not in ("true", "false"):
                raise NotThis(words.of_type("boolean"))
            return text == "true"
        case "integer":
            return whole(text) if text.strip() else MISSING
        case "number":
            return number(text) if text.strip() else MISSING
        case "json":
            return read_json(text, takes_text=field.takes_text) if text.strip() else MISSING
        case _:
            if field.input_type not in _TRIMMED:
                return unbroken(text)
            text = text.strip()
            if field.input_type == "datetime-local" and text:
                text = moment(text, zone)
            return text or MISSING


def moment(text: str, zone: str) -> str:
    """A local date and time with its zone added, and the seconds that pickers leave out."""
    head, mark, tail = text.partition("T")
    if not mark or not zone or tail.endswith(("Z", "z")) or "+" in tail or "-" in tail:
        return text
    if tail.count(":") == 1:
        tail += ":00"
    return f"{head}T{tail}{zone}"


def _chosen(field: Field, text: str, otherwise: str) -> Any:
    if any(option.value == text for option in field.options):
        return read_json(text, takes_text=False)
    raise NotThis(otherwise)


def _lines(item: Field, texts: list[str], path: Path, faults: dict[Path, str]) -> Any:
    found: list[Any] = []
    bad = False
    for line in (line.strip() for text in texts for line in unbroken(text).split("\n")):
        if not line:
            continue
        try:
            found.append(scalar(item, line))
        except NotThis as fault:
            faults[(*path, len(found))] = str(fault)
            found.append(line)
            bad = True
    if bad or found:
        return found
    return MISSING
