"""Texts that the Gateway cut short in a history, and their whole.

A history, and a row that is pushed, has the first 8,000 characters of a text unless more are asked for, and then the
mark below (the Gateway's documentation, and its source: `chat-display-projection`). An entry that is too large
altogether is replaced by a sentence of its own. The stream had all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rejoinder.turns.items import Item, Text, Thought

MARK = "\n...(truncated)..."
OMITTED = "[chat.history omitted: message too large]"


def is_shortened(text: str) -> bool:
    """Whether a history's text is not all that was said."""
    return text.endswith(MARK) or text.strip() == OMITTED


def beginning(text: str) -> str:
    """What is left of a shortened text, without the mark; any other text as it is."""
    if text.strip() == OMITTED:
        return ""
    return text.removesuffix(MARK)


def mended(told: Sequence[Item], live: Sequence[Item]) -> list[Item]:
    """The transcript's items with their shortened texts made whole from the stream, as far as it has them."""
    said = {item.text.strip() for item in told if isinstance(item, (Text, Thought))}
    left = [item for item in live if isinstance(item, (Text, Thought)) and item.text.strip() not in said]
    return [_mended(item, left) for item in told]


def _mended(item: Item, live: Sequence[Text | Thought]) -> Item:
    if not isinstance(item, (Text, Thought)) or not is_shortened(item.text):
        return item
    start = beginning(item.text).strip()
    whole = [
        other.text
        for other in live
        if type(other) is type(item) and other.text.strip().startswith(start) and not is_shortened(other.text)
    ]
    # Nothing better: at least what is there, with the mark that says so.
    return type(item)(item.id, max(whole, key=len)) if whole else item
