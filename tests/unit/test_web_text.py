"""Text that others wrote, as a page shows it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.web import moments, safe

MARK = re.compile(r'<span class="hidden-char">U\+([0-9A-F]{4,6})</span>')


@given(st.text())
def test_everything_is_shown_and_nothing_is_markup(text: str) -> None:
    html = str(safe.shown(text))
    bare = MARK.sub(lambda found: chr(int(found[1], 16)), html)
    assert "<" not in bare
    assert unescape(bare) == text.replace("\r\n", "\n")


@pytest.mark.parametrize(
    "hidden",
    [
        "\u202e",
        "\u2066",
        "\u200b",
        "\u200d",
        "\ufeff",
        "\x07",
        "\x85",
        "\u2028",
        "\u00ad",
        "\u3164",
        "\U000e0041",
        "\r",
    ],
)
def test_what_cannot_be_seen_is_marked(hidden: str) -> None:
    assert f"U+{ord(hidden):04X}" in safe.shown(f"a{hidden}b")
    assert hidden not in safe.plain(f"a{hidden}b")


@pytest.mark.parametrize("plain", ["tab\there", "line\nline", "naïve Ω 漢字 עברית", "👩‍💻 and 👍🏽"])
def test_ordinary_text_is_left_alone(plain: str) -> None:
    assert safe.shown(plain) == plain
    assert safe.plain(plain) == plain


@given(st.text(min_size=1, max_size=6000))
def test_folding_loses_nothing(text: str) -> None:
    shown, rest = safe.fold(text)
    assert shown + rest == text
    assert len(shown) <= safe.FOLD_CHARACTERS * 1.2
    assert shown.count("\n") <= safe.FOLD_LINES * 1.2


@given(st.text(min_size=1, max_size=3000))
def test_a_heading_and_what_follows_are_the_whole_text(text: str) -> None:
    heading, rest = safe.headed(text)
    assert "".join((heading + rest).split()) == "".join(text.split())


@given(st.text(max_size=400))
def test_a_line_of_a_list_says_when_there_is_more(text: str) -> None:
    line = safe.first_line(text)
    assert "\n" not in line
    assert line == text.strip() or "…" in line


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (20, "in less than a minute"),
        (61, "in 1 minute"),
        (5300, "in 88 minutes"),
        (7300, "in about 2 hours"),
        (200_000, "in about 2 days"),
        (-90, "2 minutes ago"),
    ],
)
def test_how_far_away_is_said_roughly(seconds: float, words: str) -> None:
    now = datetime(2030, 1, 31, 12, 0, tzinfo=UTC)
    assert moments.relative(now + timedelta(seconds=seconds), now) == words


def test_a_time_names_its_zone() -> None:
    moment = datetime.fromisoformat("2030-01-31T01:05:09+05:00")
    assert moments.absolute(moment) == "30 Jan 2030, 20:05 UTC"
    assert moments.exact(moment) == "30 Jan 2030, 20:05:09 UTC"
