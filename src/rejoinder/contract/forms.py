"""What goes with a form besides its schema: what is filled in already, and how it is parted into pages."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class Choice(TypedDict):
    """One option of a field, for this question only. ``label`` is what people see; without it, the value."""

    value: str
    label: NotRequired[str]
    description: NotRequired[str]


class FormData(TypedDict, total=False):
    """``values`` are filled in already, by field; ``options`` replace a field's choices for this question."""

    values: dict[str, Any]
    options: dict[str, list[Choice]]


class Display(TypedDict):
    """A text that stands above the fields of a page."""

    kind: Literal["heading", "text"]
    text: str


class FormPage(TypedDict, total=False):
    """One page of a form. ``input`` asks for ``fields``; ``review`` shows what was entered, and is the last one."""

    title: str
    kind: Literal["input", "review"]
    fields: list[str]
    display: list[Display]
    button_label: str
