"""Texts by which an agent says that it has nothing to say. They are never shown and never written.

Recorded (s07_noreply, t02_noreply): the text streams as `NO_R`, `NO_REP`, `NO_REPLY` on the agent's stream and
is then taken back by an empty `replace`; the chat stream never carries it and the history hides its row. So a
text that may still become a sentinel is held until it is either more than one or the run's end.
"""

from __future__ import annotations

SENTINELS = ("NO_REPLY", "ANNOUNCE_SKIP")
#: How a Gateway ends a run whose model said nothing but that, also when it was asked once more (2026.9.6 for every run,
#: 2026.9.3 for a person's).
NOTHING_SAID = "Agent couldn't generate a response"
_LOWER = tuple(word.lower() for word in SENTINELS)
_LONGEST = max(map(len, SENTINELS))


def is_sentinel(text: str) -> bool:
    """Whether the text is nothing but a sentinel, whatever its case and the blanks around it."""
    line = text.strip()
    return len(line) <= _LONGEST and line.lower() in _LOWER


def is_nothing_said(error: str | None) -> bool:
    """Whether a run's error says no more than that the run said nothing."""
    return error is not None and NOTHING_SAID in error


def may_become_sentinel(text: str) -> bool:
    """Whether the text is a sentinel or the beginning of one. Blank text is neither."""
    line = text.strip()
    if not line or len(line) > _LONGEST:
        return False
    return any(word.startswith(line.lower()) for word in _LOWER)


def held_from(text: str) -> int:
    """Where the part of a growing text begins that must not be shown yet; `len(text)` if all may be.

    Only the last line can be one: a sentinel stands on a line of its own.
    """
    body = text.rstrip()
    start = body.rfind("\n") + 1
    if len(body) - start > _LONGEST + 8 or not may_become_sentinel(body[start:]):
        return len(text)
    return len(body[:start].rstrip())


def without_sentinel(text: str) -> str:
    """The text with a sentinel on its last line taken away (all of it, if it is nothing else)."""
    body = text.rstrip()
    start = body.rfind("\n") + 1
    return body[:start].rstrip() if is_sentinel(body[start:]) else text
