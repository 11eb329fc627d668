"""A form that is parted into pages."""

from __future__ import annotations

from typing import Any

from rejoinder.contract.errors import AskArgumentError
from rejoinder.contract.text import unstorable_text
from rejoinder.forms.fields import field_tree

MAX_PAGES = 50
MAX_BLOCKS = 20
MAX_LABEL = 200
MAX_BLOCK = 8_192
_KEYS = ("title", "kind", "fields", "display", "button_label")


def check_pages(pages: object, schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The pages as plain dicts. Every field of the form stands on exactly one of them.

    Raises AskArgumentError whose ``field`` is the place, such as ``pages[1].fields``.
    """
    if not isinstance(pages, list | tuple) or not pages or len(pages) > MAX_PAGES:
        raise _refuse("pages", f"it must be a list of 1 to {MAX_PAGES} pages")
    names = [str(one.path[0]) for one in field_tree(schema) if len(one.path) == 1]
    if not names:
        raise _refuse("pages", "a form without fields of its own has no pages")
    checked = [_page(one, f"pages[{index}]", index == len(pages) - 1) for index, one in enumerate(pages)]
    placed: dict[str, int] = {}
    for index, page in enumerate(checked):
        for name in page.get("fields", ()):
            place = f"pages[{index}].fields"
            if name not in names:
                raise _refuse(place, f"the form has no field {name}")
            if name in placed:
                raise _refuse(place, f"{name} is on a page already")
            placed[name] = index
    missing = [name for name in names if name not in placed]
    if missing:
        raise _refuse("pages", f"no page holds the field {missing[0]}")
    for name, node in schema.get("properties", {}).items():
        day = node.get("timeOf") if isinstance(node, dict) else None
        if isinstance(day, str) and placed[name] != placed[day]:
            raise _refuse(f"pages[{placed[name]}].fields", f"{name} must be on the page of its date {day}")
    return checked


def _page(page: object, place: str, last: bool) -> dict[str, Any]:
    dump = getattr(page, "model_dump", None)
    given = dump(exclude_none=True) if callable(dump) else page
    if not isinstance(given, dict):
        raise _refuse(place, "it must be an object")
    for key in given:
        if key not in _KEYS:
            raise _refuse(f"{place}.{key}", f"a page takes {', '.join(_KEYS)} only")
    out: dict[str, Any] = {"kind": given.get("kind", "input")}
    if out["kind"] not in ("input", "review"):
        raise _refuse(f"{place}.kind", 'it must be "input" or "review"')
    for key in ("title", "button_label"):
        if key in given:
            out[key] = _text(given[key], f"{place}.{key}", MAX_LABEL)
    fields = given.get("fields", [])
    if not isinstance(fields, list | tuple) or not all(isinstance(one, str) for one in fields):
        raise _refuse(f"{place}.fields", "it must be a list of field names")
    if out["kind"] == "review":
        if fields:
            raise _refuse(f"{place}.fields", "a review shows every field; it takes none of its own")
        if not last:
            raise _refuse(f"{place}.kind", "a review is the last page")
    out["fields"] = list(fields)
    blocks = given.get("display", [])
    if not isinstance(blocks, list | tuple) or len(blocks) > MAX_BLOCKS:
        raise _refuse(f"{place}.display", f"it must be a list of at most {MAX_BLOCKS} blocks")
    if blocks:
        out["display"] = [_block(one, f"{place}.display[{index}]") for index, one in enumerate(blocks)]
    if out["kind"] == "input" and not fields and not blocks:
        raise _refuse(place, "it holds neither fields nor anything to show")
    return out


def _block(block: object, place: str) -> dict[str, str]:
    if not isinstance(block, dict) or set(block) != {"kind", "text"}:
        raise _refuse(place, "it must be an object with kind and text")
    if block["kind"] not in ("heading", "text"):
        raise _refuse(f"{place}.kind", 'it must be "heading" or "text"')
    return {"kind": block["kind"], "text": _text(block["text"], f"{place}.text", MAX_BLOCK)}


def _text(value: object, place: str, cap: int) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > cap:
        raise _refuse(place, f"it must be text of 1 to {cap:,} characters")
    if (reason := unstorable_text(value)) is not None:
        raise _refuse(place, reason)
    return value


def _refuse(place: str, reason: str) -> AskArgumentError:
    return AskArgumentError(f"{place}: {reason}.", field=place)
