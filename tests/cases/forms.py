"""The shared cases of forms, and what a browser without scripts would send for one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rejoinder.forms.fields import field_tree
from rejoinder.forms.shape import text

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("forms.json").read_text("utf-8"))
NAMES = [case["name"] for case in CASES]
TYPED = [case for case in CASES if "typed" in case]


def pairs_of(schema: dict[str, Any], typed: list[list[Any]]) -> list[tuple[str, str]]:
    """The pairs of a form in which this was entered; what was entered later stands in the place of the earlier."""
    fields = {str(one.path[0]): one for one in field_tree(schema) if len(one.path) == 1}
    given: dict[str, list[str]] = {}
    for name, value in typed:
        one = fields[name]
        match one.control:
            case "checkboxes":
                given[one.name] = [text(each) for each in value]
            case "lines":
                given[one.name] = ["\r\n".join(value)]
            case "radios" | "select" | "boolean" | "checkbox":
                given[one.name] = [text(value)]
            case _:
                given[one.name] = [value.replace("\n", "\r\n")]
    return [(name, each) for name, texts in given.items() for each in texts]
