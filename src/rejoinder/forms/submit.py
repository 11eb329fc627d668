"""One submission of a form page, from the pairs to the answer or to what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rejoinder.contract.text import unstorable
from rejoinder.forms import paths
from rejoinder.forms.answers import examined
from rejoinder.forms.coerce import read_places
from rejoinder.forms.fault import Fault
from rejoinder.forms.paths import dotted
from rejoinder.language.spoken import t


@dataclass(frozen=True, slots=True)
class Submission:
    """``value`` is what was read; it is an answer only where ``errors`` is empty and ``edit`` is False.

    ``errors`` maps dotted paths to sentences, in the schema's order, the whole form as the empty path. ``draft``
    echoes what was typed, by form key. ``edit`` is true where a button for a row was pressed: the page is to be
    drawn again, ``added`` (the key of the list) with one blank row more, and nothing is answered.
    """

    value: Any
    errors: dict[str, str]
    draft: dict[str, list[str]]
    edit: bool
    added: str | None


def read_submission(payload: dict[str, Any], pairs: Sequence[tuple[str, str]]) -> Submission:
    """Reads and validates the pairs of one form page; ``payload`` is the form's ``format_payload``.

    Raises TooLargeError for too many pairs, AnswerMismatchError where the schema cannot be processed.
    """
    value, unread, draft = read_places(payload.get("schema") or {}, pairs)
    added = next((name[: -len(paths.ADD)] for name, _ in pairs if name.endswith(paths.ADD)), None)
    removed = any(
        name.startswith(paths.ROOT + ".") and name.endswith("]" + paths.REMOVE) for name, _ in pairs
    )
    if added is not None or removed:
        return Submission(value, {}, draft, True, added)
    reason = unstorable(value)
    if reason is not None:
        return Submission(value, {"": t("This cannot be kept: {reason}", reason=reason)}, draft, False, None)
    kept, found = examined(payload, value, {path: Fault(sentence) for path, sentence in unread.items()})
    return Submission(kept, {dotted(path): sentence for path, sentence in found.items()}, draft, False, None)


def row_count(draft: dict[str, list[str]], name: str) -> int:
    """How many rows of the list with this form key the draft fills."""
    rows = {
        int(found.group(1))
        for key in draft
        if key.startswith(name + ".[") and (found := paths.ROW.match(key, len(name)))
    }
    return max(rows, default=-1) + 1
