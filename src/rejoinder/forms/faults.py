"""From a validator's errors to sentences for people, by place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jsonschema_rs

from rejoinder.forms import words
from rejoinder.forms.fault import Fault, Path
from rejoinder.language.spoken import t

#: More faults than this help nobody.
MAX_FAULTS = 100

_Kind = jsonschema_rs.ValidationErrorKind


def faults(errors: Iterable[Any], value: Any) -> dict[Path, Fault]:
    """The first fault of each place of this value."""
    found: dict[Path, Fault] = {}
    for error in errors:
        for path, fault in _of(error):
            found.setdefault(_located(path, value), fault)
        if len(found) >= MAX_FAULTS:
            break
    return found


def _located(path: Path, value: Any) -> Path:
    """The path as the value has it: the validator reads a name such as ``01`` as a number and skips empty names."""
    steps: list[str | int] = []
    for step in path:
        if isinstance(value, dict):
            if isinstance(step, int):
                step = next((name for name in value if _reads_as(name, step)), step)
            unnamed = value.get("") if step not in value else None
            if isinstance(unnamed, dict) and step in unnamed:
                steps.append("")
                value = unnamed
        steps.append(step)
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            value = None
    return tuple(steps)


def _reads_as(name: str, step: int) -> bool:
    return len(name) <= 32 and name.isascii() and name.isdecimal() and int(name) == step


def _of(error: Any) -> list[tuple[Path, Fault]]:
    path: Path = tuple(error.instance_path)
    kind = error.kind
    if isinstance(kind, _Kind.Required):
        return [((*path, kind.property), Fault(words.required(), kind="required"))]
    if isinstance(kind, _Kind.AdditionalProperties | _Kind.UnevaluatedProperties):
        return [((*path, name), Fault(words.unknown())) for name in kind.unexpected[:MAX_FAULTS]]
    if isinstance(kind, _Kind.AnyOf | _Kind.OneOfNotValid):
        return _alternatives(path, kind.context)
    if isinstance(kind, _Kind.PropertyNames):
        return [(path, Fault(t("One of the names is not accepted")))]
    if isinstance(kind, _Kind.FalseSchema):
        return [(path, Fault(words.unknown() if error.schema_path else words.other()))]
    if isinstance(kind, _Kind.MinLength) and kind.limit == 1 and not error.instance:
        return [(path, Fault(words.required(), kind="required"))]
    for known, sentence in _SENTENCES:
        if isinstance(kind, known):
            return [(path, Fault(sentence(kind, error)))]
    return [(path, Fault(words.other()))]


def _alternatives(path: Path, context: list[list[Any]]) -> list[tuple[Path, Fault]]:
    """The faults of the alternative that was meant, where that is plain; else one sentence for the whole value."""
    branches = [branch for branch in context if branch and not _is_null(branch)] or context
    fitting = [branch for branch in branches if not any(_wrong_here(path, error) for error in branch)]
    if len(branches) == 1:
        fitting = branches
    if len(fitting) == 1:
        return [fault for error in fitting[0] for fault in _of(error)]
    if not fitting and all(len(branch) == 1 for branch in branches):
        kinds = [branch[0].kind for branch in branches]
        if all(isinstance(kind, _Kind.Constant | _Kind.Enum) for kind in kinds):
            return [(path, Fault(words.offered()))]
        if all(isinstance(kind, _Kind.Type) for kind in kinds):
            return [(path, Fault(words.of_type(*(name for kind in kinds for name in kind.types))))]
    return [(path, Fault(t("This fits none of the accepted forms")))]


def _is_null(branch: list[Any]) -> bool:
    kind = branch[0].kind
    return isinstance(kind, _Kind.Type) and kind.types == ["null"]


def _wrong_here(path: Path, error: Any) -> bool:
    """Whether the value as a whole, or the constant that tells the alternatives apart, is of another alternative."""
    if isinstance(error.kind, _Kind.Constant):
        return len(error.instance_path) <= len(path) + 1
    return isinstance(error.kind, _Kind.Type | _Kind.Enum) and len(error.instance_path) == len(path)


def _contains(kind: Any, error: Any) -> str:
    if error.schema_path and error.schema_path[-1] == "maxContains":
        return t("Too many of the entries are of the kind that is limited here")
    return t("At least one more entry must be of the kind that is asked for here")


_SENTENCES: list[tuple[type[Any], Callable[[Any, Any], str]]] = [
    (_Kind.Type, lambda kind, _: words.of_type(*kind.types)),
    (_Kind.Enum, lambda kind, _: words.offered()),
    (_Kind.Constant, lambda kind, _: t("This must be {value}", value=words.shown(kind.expected_value))),
    (_Kind.Format, lambda kind, _: words.of_format(kind.format)),
    (_Kind.Pattern, lambda kind, _: words.pattern()),
    (_Kind.MinLength, lambda kind, _: words.least(kind.limit, "character")),
    (_Kind.MaxLength, lambda kind, _: words.most(kind.limit, "character")),
    (_Kind.Minimum, lambda kind, _: words.least(kind.limit, "number")),
    (_Kind.Maximum, lambda kind, _: words.most(kind.limit, "number")),
    (
        _Kind.ExclusiveMinimum,
        lambda kind, _: t("Enter a number above {limit}", limit=words.number(kind.limit)),
    ),
    (
        _Kind.ExclusiveMaximum,
        lambda kind, _: t("Enter a number below {limit}", limit=words.number(kind.limit)),
    ),
    (
        _Kind.MultipleOf,
        lambda kind, _: t("Enter a multiple of {unit}", unit=words.number(kind.multiple_of)),
    ),
    (_Kind.MinItems, lambda kind, _: words.least(kind.limit, "entry")),
    (_Kind.MaxItems, lambda kind, _: words.most(kind.limit, "entry")),
    (_Kind.UniqueItems, lambda kind, _: t("Give each entry only once")),
    (_Kind.AdditionalItems, lambda kind, _: words.most(kind.limit, "entry")),
    (_Kind.UnevaluatedItems, lambda kind, _: t("There are more entries than are accepted")),
    (_Kind.Contains, _contains),
    (_Kind.MinProperties, lambda kind, _: words.least(kind.limit, "value")),
    (_Kind.MaxProperties, lambda kind, _: words.most(kind.limit, "value")),
    (_Kind.OneOfMultipleValid, lambda kind, _: t("This fits more than one of the accepted forms")),
]
