"""One place of an answer and how to ask for it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from rejoinder.forms import paths

Control = Literal[
    "text",  # one line; ``input_type`` says of what kind
    "textarea",
    "number",
    "integer",
    "boolean",  # yes and no side by side, so that "not answered" is not "no"
    "radios",  # one of up to five options
    "select",  # one of more options
    "checkboxes",  # any of the options
    "checkbox",  # the only value is true: a box to tick
    "const",  # nothing to choose: the value is filled in
    "lines",  # a list of texts or numbers, one on each line
    "rows",  # a list of groups; ``item`` is the template, ``row`` makes one
    "group",
    "json",  # no control can draw it: a text area for JSON
]


class Missing:
    """No value: None is a value."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


@dataclass(frozen=True, slots=True)
class Option:
    """One choice. ``value`` is its JSON text: what the form sends."""

    value: str
    label: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """One place of the answer and how to ask for it.

    ``name`` is the form key (``paths``); ``path`` the steps from the root of the answer. ``required`` is what the
    schema says; ``demanded`` is true only where every group around it is required too, so that a page may insist
    before it sends. ``limits`` holds, where the schema gives them, ``min_length``, ``max_length``, ``minimum``,
    ``maximum``, ``above``, ``below``, ``multiple_of``, ``min_items``, ``max_items``. Patterns are not among them:
    a browser's engine may take exponential time.
    """

    name: str
    path: tuple[str | int, ...]
    label: str
    control: Control
    description: str | None = None
    required: bool = False
    demanded: bool = False
    nullable: bool = False
    input_type: str = "text"
    input_mode: str | None = None
    #: For ``radios`` and ``select``: the options are drawn as chips.
    chips: bool = False
    options: tuple[Option, ...] = ()
    children: tuple[Field, ...] = ()
    item: Field | None = None
    default: Any = MISSING
    const: Any = MISSING
    limits: dict[str, Any] = field(default_factory=dict)
    #: For ``json``: text that is not JSON is taken as a string.
    takes_text: bool = False
    #: For ``json``: the properties of the group that have no field of their own.
    extra: bool = False

    @property
    def key(self) -> str:
        """What this field's name adds to the name of the field around it."""
        return self.name[self.name.rindex(".") :] if "." in self.name else self.name

    @property
    def dotted(self) -> str:
        """The key of this field's fault in ``AnswerMismatchError.errors``."""
        return paths.dotted(self.path)

    @property
    def zone_name(self) -> str | None:
        """For a date and time: the form key of its offset from UTC (``Z`` or ``+01:00``)."""
        return self.name + paths.ZONE if self.input_type == "datetime-local" else None

    @property
    def keep_name(self) -> str:
        """The form key of a hidden input for the value that the control itself cannot express."""
        return self.name + paths.KEEP

    @property
    def add_name(self) -> str:
        """For ``rows``: the name of the button that asks for one more row."""
        return self.name + paths.ADD

    @property
    def remove_name(self) -> str:
        """For one row: the name of the button that takes it away."""
        return self.name + paths.REMOVE

    def row(self, index: int) -> Field:
        """For ``rows``: the group of the row with this number, counted from 0."""
        assert self.item is not None
        return self.item._moved(self.item.name, f"{self.name}.[{index}]", len(self.path), index)

    def _moved(self, old: str, new: str, at: int, index: int) -> Field:
        return replace(
            self,
            name=new + self.name[len(old) :],
            path=(*self.path[:at], index, *self.path[at + 1 :]),
            label=f"{self.label} {index + 1}" if self.name == old else self.label,
            children=tuple(child._moved(old, new, at, index) for child in self.children),
            item=None if self.item is None else self.item._moved(old, new, at, index),
        )
